#pragma once

// The laws of views: parts are a partition of an instruction's values, and are replaced alone.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/run/operands.hpp>
#include <reef/run/step_builder.hpp>

namespace reef::test {

using Parts = std::vector<run::PartOf<run::Instruction>>;

/// Each value of the instruction is in one part.
inline void expect_a_partition(const run::Instruction& i, const Parts& parts) {
  for (const auto* list : {&i.reads, &i.writes, &i.accumulates}) {
    std::vector<int> found(list->size(), 0);
    for (const auto& part : parts) {
      if (part.list() != list) continue;
      for (std::size_t k = 0; k < part.size(); ++k) ++found.at(part.index_of(k));
    }
    EXPECT_EQ(found, std::vector<int>(list->size(), 1)) << i.text();
  }
}

/// Looks at all instructions of a program, and notes the kinds that had parts.
template <class PartsOf>
void look_at(run::StepBuilder& builder, std::set<std::string>& kinds, const PartsOf& parts_of) {
  for (run::Instruction& i : builder.program.round) {
    const Parts parts = parts_of(builder, i);
    if (parts.empty()) continue;
    kinds.insert(i.kind);
    expect_a_partition(i, parts);

    // Other storages in one part, and nothing else has changed.
    for (const auto& part : parts) {
      const run::Instruction before = i;
      std::vector<run::Value> others(part.size(), run::Value{12345, 6});
      const std::vector<run::Value> own = part.values();
      part.set(others);
      EXPECT_EQ(part.values(), others);
      std::size_t changed = 0;
      for (const auto& [now, then] : {std::pair(&i.reads, &before.reads),
                                      std::pair(&i.writes, &before.writes),
                                      std::pair(&i.accumulates, &before.accumulates)}) {
        ASSERT_EQ(now->size(), then->size());
        for (std::size_t k = 0; k < now->size(); ++k) changed += (*now)[k] == (*then)[k] ? 0 : 1;
      }
      EXPECT_EQ(changed, part.size()) << i.text();
      part.set(own);
      EXPECT_EQ(i.reads, before.reads);
      EXPECT_EQ(i.writes, before.writes);
      EXPECT_EQ(i.accumulates, before.accumulates);
    }
  }
}

}  // namespace reef::test
