#pragma once

#include <utility>

#include <reef/comm/at_work.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE AtWork::AtWork(Progress& progress, std::string what, Seconds expected)
    : all_(progress.occupations()), own_(std::move(what), expected, std::string()) {
  all_->add(own_);
}

REEF_INLINE AtWork::AtWork(Progress& progress, std::string what, std::string reason)
    : all_(progress.occupations()), own_(std::move(what), 0, std::move(reason)) {
  all_->add(own_);
}

REEF_INLINE AtWork::~AtWork() { all_->remove(own_); }

}  // namespace comm
}  // namespace v0
}  // namespace reef
