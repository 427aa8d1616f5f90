#include "parts.hpp"

#include <memory>
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

namespace {

std::unique_ptr<comm::Progress> kept;

}  // namespace

void PART::open() { kept = std::make_unique<comm::Progress>(comm::ProgressOptions{}); }

double PART::close(double number) {
  comm::all_reduce(*kept, "sum at the end", std::span(&number, 1));
  kept.reset();
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
