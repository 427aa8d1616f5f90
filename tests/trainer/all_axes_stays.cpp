#include "all_axes.hpp"

template class reef::Trainer<reef::swap::Resident, reef::pipeline::OneFOneB<>, reef::compress::AdaTopK,
                             reef::optim::Acco<reef::optim::AdamW>>;
