#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/profile/profile.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/swap/detail/cuts_to_try.hpp>
#include <reef/swap/detail/judge.hpp>

namespace reef::inline v0::swap {

/// Chooses cuts, activations and manner for a device: of candidates, the fastest that fits.
///
/// | cuts        | the best partitions of plan::partition_chain for this and for smaller capacities, since its |
/// |             | rules do not count what is kept between forward and backward; and cuts behind as many       |
/// |             | parameters each                                                                             |
/// | stays       | none; then, of the fastest cuts, as many as there is memory for; then as make it faster     |
/// | activations | the same for all segments; then, of the three fastest that differ in cuts or stays, other   |
/// |             | ones for some: late ones, whose are needed soonest, or spread ones, which share link and    |
/// |             | processor out evenly; and last, one at a time. Of what streams, three more. Of the fastest  |
/// |             | of all and of those that stream, two at a time, and one more or less that stays             |
///
/// What a candidate needs and takes is read off its own program: placed, so the memory is exact, and
/// simulated, alone: what ranks wait for is left out. Uniform candidates are looked at first, then some
/// hundreds of others, as many as bounds on their instructions leave room for.
class Planner {
public:
  struct Limits {
    Bytes memory = 0;  ///< of the device
    std::int64_t accumulation = 1;
    std::span<const run::Swapping> manners{};
    std::vector<int> cuts{};  ///< given ones, without 0 and the number of nodes; else all are tried
    std::vector<run::Activations> activations{};  ///< given ones; else all are tried
    bool may_stay = false;                        ///< segments may live on the device
  };

  using Programs = detail::Programs;

  /// `dag` and `profile`, which is of it, outlive it.
  Planner(const graph::Dag& dag, const profile::Profile& profile, Limits limits, Programs programs)
      : dag_(dag),
        profile_(profile),
        limits_(std::move(limits)),
        judge_(profile, limits_.memory, std::move(programs)) {}

  /// What to plan by: the profile of the options, or an estimate of the device's kind: link and slowdown as they
  /// are emulated, and 50 GFLOP/s, whatever the threads, of which ranks may have different numbers; else a GPU
  /// behind 16 lanes of PCIe 4.
  ///
  /// Throws OptionError if the profile is of another model, or was measured on a device of another kind, behind
  /// another link, slowed down otherwise, or with other threads than the options say.
  template <class Device, class Options>
  static profile::Profile profile_of(const graph::Dag& dag, const Options& options) {
    if (options.profile) {
      graph::require_profile_of(dag, *options.profile);
      require_profile_of_device<Device>(*options.profile, options);
      return *options.profile;
    }
    if constexpr (requires { options.device.link_bytes_per_second; }) {
      const auto& device = options.device;
      profile::Profile result = graph::estimate(
          dag, {5e10 / device.slowdown, 1e10 / device.slowdown, device.link_bytes_per_second});
      result.copy_latency = device.link_latency;
      return result;
    } else {
      profile::Profile result = graph::estimate(dag, {1e13, 1e12, 2e10});
      result.host_bytes_per_second = 3e10;  // two reads beside one write
      return result;
    }
  }

  /// Throws ScheduleError if none fits, saying how much memory the most modest one needs, and which of its
  /// segments most.
  run::Choice choose() {
    const std::set<std::vector<int>> all = partitions();
    for (const bool streams : {true, false}) {  // so a policy that only streams looks at no others
      most_ = judge_.work() + most_uniform_work;
      for (const std::vector<int>& cuts : all) {
        if (places_.empty() || may_work()) try_uniform(cuts, streams);
      }
    }
    if (limits_.may_stay) {
      for (const Place& place : fastest_of(places_)) try_staying(place.cuts);
    }
    refine_all();
    if (std::optional<run::Choice> best = judge_.best()) return *std::move(best);
    throw ScheduleError("reef::Trainer: no way was found to swap this model through a device of ",
                        limits_.memory, " bytes, ", limits_.accumulation,
                        " micro-batches a step.\n  why: ", judge_.why_none(),
                        ".\n  fix: that much memory, a smaller micro-batch, or fewer of them.");
  }

private:
  static constexpr std::size_t refined = 3;
  /// Instructions of programs that are judged to refine one: a second's worth.
  static constexpr std::size_t most_work = 100'000;
  /// Of those whose segments are all treated alike, streamed or not: a hundred seconds' worth.
  static constexpr std::size_t most_uniform_work = 10'000'000;

  /// A choice, and what its step takes, or a bound of that.
  struct Place {
    std::vector<int> cuts;
    run::Swapping swapping;
    std::vector<run::Activations> activations;
    Seconds step = HUGE_VAL;
  };

  template <class Device, class Options>
  static void require_profile_of_device(const profile::Profile& profile, const Options& options) {
    const auto refuse = [](const std::string& why) {
      throw OptionError("reef::Trainer: the profile is of another device: ", why,
                        ".\n  fix: measure on such a device.");
    };
    if (!profile.measured) return;
    if (profile.device != Device::name)
      refuse(concat("it was measured on '", profile.device, "', this is '", Device::name, "'"));
    if constexpr (requires { options.device.link_bytes_per_second; }) {
      const auto same = [&](const char* what, double profiled, double asked, const char* unit) {
        if (profiled == asked) return;
        refuse(concat("its ", what, " was ", profiled, unit,
                      ", this one's, or that of the slowest of all ranks, is ", asked, unit));
      };
      const auto& device = options.device;
      same("link's bandwidth", profile.link_bytes_per_second, device.link_bytes_per_second, " B/s");
      same("link's latency", profile.link_latency, device.link_latency, " s");
      same("kernels' slowdown", profile.slowdown, device.slowdown, "");
      if (options.device.threads > 0 && options.device.threads != profile.threads)
        refuse(
            concat("it had ", profile.threads, " threads, this one has ", options.device.threads));
    }
  }

  [[nodiscard]] std::set<std::vector<int>> partitions() const {
    if (limits_.cuts.empty())
      return detail::cuts_to_try(dag_, profile_, limits_.memory, limits_.accumulation);
    std::vector<int> cuts{0};
    cuts.insert(cuts.end(), limits_.cuts.begin(), limits_.cuts.end());
    cuts.push_back(dag_.node_count());
    return {std::move(cuts)};
  }

  /// There is time to look at further ones.
  [[nodiscard]] bool may_work() const { return judge_.work() <= most_; }

  void try_uniform(const std::vector<int>& cuts, bool streams) {
    const std::size_t segments = cuts.size() - 1;
    const run::Swapping* too_many = nullptr;
    for (std::size_t m = 0; m < limits_.manners.size(); ++m) {
      const run::Swapping& swapping = limits_.manners[m];
      if (swapping.streams != streams) continue;
      const auto as_before = [&](const run::Swapping& other) {
        run::Swapping same = swapping;
        same.slots = other.slots;
        return same == other;
      };
      // More slots than segments are none, and what does not fit with few does not fit with many.
      if (m > 0 && as_before(limits_.manners[m - 1]) &&
          static_cast<std::size_t>(limits_.manners[m - 1].slots) >= segments) {
        continue;
      }
      if (too_many != nullptr && as_before(*too_many)) continue;
      if (!try_manner(cuts, swapping)) too_many = &swapping;
    }
  }

  /// Given ones, or the same for all segments.
  [[nodiscard]] std::vector<std::vector<run::Activations>> activations_to_try(
      std::size_t segments) const {
    if (!limits_.activations.empty()) return {limits_.activations};
    std::vector<std::vector<run::Activations>> all;
    for (const run::Activations one : run::all_activations) all.emplace_back(segments, one);
    return all;
  }

  /// Something fits.
  bool try_manner(const std::vector<int>& cuts, const run::Swapping& swapping) {
    Place fastest{cuts, swapping, {}};
    for (const std::vector<run::Activations>& activations : activations_to_try(cuts.size() - 1)) {
      Place place{cuts, swapping, activations};
      place.step = step_of(place);
      if (place.step < fastest.step) fastest = place;
      // Of those of which as many stay, nothing else computes or moves less.
      if (activations.front() == run::Activations::keep && place.step < HUGE_VAL) break;
    }
    if (fastest.step == HUGE_VAL) return false;
    places_.push_back(std::move(fastest));
    return true;
  }

  Seconds step_of(const Place& place, Seconds enough = 0) {
    return judge_.step_of({place.cuts, place.activations, place.swapping}, enough);
  }

  /// As many segments as there is memory for live on the device: with few slots, or with less that is kept,
  /// they are more.
  void try_staying(const std::vector<int>& cuts) {
    most_ = judge_.work() + most_work;
    const std::size_t segments = cuts.size() - 1;
    const std::vector<std::vector<run::Activations>> all = activations_to_try(segments);
    for (const run::Swapping& manner : limits_.manners) {
      for (const std::vector<run::Activations>& activations : all) {
        Place most{cuts, manner, activations};
        int low = 0;
        for (int high = static_cast<int>(segments) - 1; low < high && may_work();) {
          Place more = most;
          more.swapping.stays = (low + high + 1) / 2;
          more.step = step_of(more);
          if (more.step < HUGE_VAL) {
            low = more.swapping.stays;
            most = std::move(more);
          } else {
            high = more.swapping.stays - 1;
          }
        }
        if (low > 0) places_.push_back(std::move(most));
      }
    }
  }

  /// Takes the fastest out of those that there are. What was a bound is one no more.
  Place take_fastest(std::vector<Place>& places) {
    for (;;) {
      const auto first =
          std::min_element(places.begin(), places.end(),
                           [](const Place& a, const Place& b) { return a.step < b.step; });
      const Seconds step = step_of(*first, HUGE_VAL);
      if (step == first->step) {
        Place fastest = std::move(*first);
        places.erase(first);
        return fastest;
      }
      first->step = step;
    }
  }

  /// Some of these, the fastest, that differ in cuts or in how many segments stay.
  std::vector<Place> fastest_of(std::vector<Place> left) {
    std::vector<Place> fastest;
    while (!left.empty() && fastest.size() < refined) {
      Place next = take_fastest(left);
      const auto is_alike = [&](const Place& place) {
        return place.cuts == next.cuts && place.swapping.stays == next.swapping.stays;
      };
      if (std::none_of(fastest.begin(), fastest.end(), is_alike))
        fastest.push_back(std::move(next));
    }
    return fastest;
  }

  /// The fastest, and those that stream, of which a policy that only streams begins: so it finds hardly a
  /// better one.
  void refine_all() {
    std::vector<Place> streaming;
    for (const Place& place : places_) {
      if (place.swapping.streams && place.swapping.stays == 0) streaming.push_back(place);
    }
    std::vector<std::pair<Place, Place>> refined_places;  // and what has become of them
    const auto fastest_refined = [&](const std::vector<Place>& places) {
      Place fastest;
      for (const Place& place : places) {
        auto known = std::find_if(refined_places.begin(), refined_places.end(),
                                  [&](const auto& entry) { return is_same(entry.first, place); });
        if (known == refined_places.end()) {
          known = refined_places.insert(known, {place, refine(place)});
        }
        fastest = faster(fastest, known->second);
      }
      return fastest;
    };
    const Place best = fastest_refined(fastest_of(places_));
    const Place streams = fastest_refined(fastest_of(std::move(streaming)));
    exchange(best);
    if (!is_same(streams, best)) exchange(streams);
  }

  static bool is_same(const Place& a, const Place& b) {
    return a.cuts == b.cuts && a.swapping == b.swapping && a.activations == b.activations;
  }

  static const Place& faster(const Place& a, const Place& b) { return b.step < a.step ? b : a; }

  /// Changes what some segments keep, and how many stay on the device, as long as that is faster: what stays
  /// first, or last, since both take memory. Returns the faster of the two.
  Place refine(const Place& place) {
    most_ = judge_.work() + most_work;
    Place fastest = place;
    for (const bool stays_first : {true, false}) {
      Place now = place;
      for (Seconds before = HUGE_VAL; before > detail::Judge::alike * now.step;) {
        before = now.step;
        if (stays_first) stay(now);
        mix(now);
        if (!stays_first) stay(now);
      }
      polish(now);
      fastest = faster(fastest, now);
    }
    return fastest;
  }

  /// Gives the memory of one for another: two segments keep something else at once, or one more or less lives on
  /// the device and then each keeps what is fastest.
  void exchange(Place place) {
    const std::size_t at_last = judge_.work() + most_work / 2;
    for (bool is_faster = place.step < HUGE_VAL; is_faster;) {
      is_faster = false;
      for (const int more : {0, -1, 1}) {
        most_ = std::min(at_last, judge_.work() + most_work / 6);
        Place changed = place;
        changed.swapping.stays += more;
        const auto segments = static_cast<int>(place.cuts.size()) - 1;
        if (changed.swapping.stays < 0 || changed.swapping.stays >= segments) continue;
        if (more != 0 && !limits_.may_stay) continue;
        if (more != 0) changed.step = step_of(changed, HUGE_VAL);
        do polish(changed);
        while (exchange_two(changed));
        if (changed.step * detail::Judge::alike >= place.step) continue;
        place = std::move(changed);
        is_faster = true;
        break;
      }
    }
  }

  /// Whether there are two segments that together keep something else that is faster.
  bool exchange_two(Place& place) {
    if (!may_mix(place)) return false;
    const std::size_t segments = place.cuts.size() - 2;  // but the last
    for (std::size_t s = segments; s-- > 1;) {
      for (std::size_t t = s; t-- > 0;) {
        for (const run::Activations one : run::all_activations) {
          for (const run::Activations other : run::all_activations) {
            if (one == place.activations[s] || other == place.activations[t]) continue;
            if (!may_work()) return false;
            Place changed = place;
            changed.activations[s] = one;
            changed.activations[t] = other;
            changed.step = step_of(changed, place.step);
            if (changed.step * detail::Judge::alike >= place.step) continue;
            place = std::move(changed);
            return true;
          }
        }
      }
    }
    return false;
  }

  /// One segment after another keeps something else, where that is faster.
  void polish(Place& place) {
    if (!may_mix(place)) return;
    const std::size_t segments = place.cuts.size() - 2;  // but the last
    for (std::size_t s = 0, unchanged = 0; unchanged < segments; s = (s + 1) % segments) {
      ++unchanged;
      for (const run::Activations other : run::all_activations) {
        Place changed = place;
        changed.activations[s] = other;
        if (other == place.activations[s] || !may_work()) continue;
        changed.step = step_of(changed, place.step);
        if (changed.step * detail::Judge::alike >= place.step) continue;
        place = std::move(changed);
        unchanged = 0;
      }
    }
  }

  /// The first segments live on the device.
  void stay(Place& place) {
    if (!limits_.may_stay) return;
    const Place from = place;
    const int segments = static_cast<int>(from.cuts.size()) - 1;
    improve(place, segments - 1, [&](int stays) {
      Place changed = from;
      changed.swapping.stays = stays;
      return changed;
    });
  }

  /// Something is open, and not all is kept: nothing else computes or moves less.
  [[nodiscard]] bool may_mix(const Place& place) const {
    const auto segments = static_cast<std::ptrdiff_t>(place.cuts.size()) - 2;
    const auto kept =
        std::count(place.activations.begin(), place.activations.end(), run::Activations::keep);
    return limits_.activations.empty() && segments > 0 && kept < segments;
  }

  /// Some segments, but the last, have other activations.
  void mix(Place& place) {
    if (!may_mix(place)) return;
    const int segments = static_cast<int>(place.cuts.size()) - 2;
    for (const run::Activations other : run::all_activations) {
      for (const bool spread : {false, true}) {
        const Place from = place;
        improve(place, segments, [&](int count) {
          Place changed = from;
          for (int s = 0; s < segments; ++s) {
            const bool changes =
                spread ? (s + 1) * count / segments > s * count / segments : s >= segments - count;
            if (changes) changed.activations[static_cast<std::size_t>(s)] = other;
          }
          return changed;
        });
      }
    }
  }

  /// The best of what `with` makes of a count from 0 to `most`, by ternary search: from there on it takes
  /// longer either way.
  template <class With>
  void improve(Place& place, int most, const With& with) {
    std::map<int, Seconds> known;
    const auto time_of = [&](int count) {
      const auto [entry, is_new] = known.try_emplace(count, HUGE_VAL);
      if (!is_new || !may_work()) return entry->second;
      Place changed = with(count);
      if (changed.activations == place.activations && changed.swapping == place.swapping) {
        return entry->second = place.step;
      }
      changed.step = step_of(changed, place.step);
      entry->second = changed.step;
      if (changed.step < place.step) place = std::move(changed);
      return entry->second;
    };
    int low = 0;
    int high = most;
    while (high - low > 2) {
      const int left = low + (high - low) / 3;
      const int right = high - (high - low) / 3;
      if (time_of(left) <= time_of(right)) {
        high = right;
      } else {
        low = left;
      }
    }
    for (int count = low; count <= high; ++count) time_of(count);
  }

  const graph::Dag& dag_;
  const profile::Profile& profile_;
  Limits limits_;
  detail::Judge judge_;
  std::vector<Place> places_{};  ///< whose segments are all treated alike
  std::size_t most_ = 0;         ///< work after which nothing more is looked at
};

}  // namespace reef::inline v0::swap
