#pragma once

// What each of the two libraries offers.
#define REEF_TEST_PART(part)                                                                              \
  namespace part {                                                                                        \
  /* The sum of `number` over all ranks. */                                                               \
  [[gnu::visibility("default")]] double sum(double number);                                               \
  /* Makes an object that communicates, which lives until `close` has taken the sum of `number` by it. */ \
  [[gnu::visibility("default")]] void open();                                                             \
  [[gnu::visibility("default")]] double close(double number);                                             \
  /* Throws reef::OptionError, as the program has a StopRequest. */                                       \
  [[gnu::visibility("default")]] void ask_for_a_second_stop_request();                                    \
  /* The loss of a small model's third step; 0 without TRAINERS. */                                       \
  [[gnu::visibility("default")]] double train();                                                          \
  }

REEF_TEST_PART(first)
REEF_TEST_PART(second)
