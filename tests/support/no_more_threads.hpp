#pragma once

#include <pthread.h>

#include <cstddef>

#if defined(__GLIBC__)

namespace reef::test {

/// While it lives, no thread can be made: none gets the stack that this asks for.
class NoMoreThreads {
public:
  NoMoreThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 60);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

private:
  pthread_attr_t usual_{};
};

}  // namespace reef::test

#endif
