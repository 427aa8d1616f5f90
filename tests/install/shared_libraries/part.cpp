#include "parts.hpp"

#include <span>

#include <reef/comm/functions.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/stop_request.hpp>

#ifdef TRAINERS
#include "../training.hpp"
#endif

using namespace reef;

double PART::sum(double number) {
  comm::Progress progress{comm::ProgressOptions{}};
  comm::all_reduce(progress, "sum", std::span(&number, 1));
  return number;
}

void PART::ask_for_a_second_stop_request() { const comm::StopRequest stop; }

double PART::train() {
#ifdef TRAINERS
  return train_a_little();
#else
  return 0;
#endif
}
