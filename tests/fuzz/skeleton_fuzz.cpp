// A skeleton that another rank sent: decoded, and proved together with those of ranks that do nothing.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/schedule/skeleton_encoding.hpp>
#include <reef/schedule/verify.hpp>

#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int ranks = 6;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<reef::schedule::Skeleton> skeletons(ranks);
  for (int rank = 0; rank < ranks; ++rank) skeletons[static_cast<std::size_t>(rank)].rank = rank;
  reef::fuzz::reads([&] {
    const auto skeleton = reef::schedule::decode_skeleton(bytes, ranks);
    const std::string again = reef::schedule::encode(skeleton);
    reef::fuzz::demand(
        reef::schedule::encode(reef::schedule::decode_skeleton(again, ranks)) == again,
        "what was decoded is encoded, and that is decoded");
    skeletons[static_cast<std::size_t>(skeleton.rank)] = skeleton;
    reef::schedule::verify_together(skeletons);
  });
  return 0;
}
