#pragma once

#include <reef/comm/gather.hpp>
#include <reef/core/inline.hpp>

namespace reef::inline v0::comm {

REEF_INLINE std::vector<std::string> gather_texts(Progress& progress, const std::string& name,
                                                  const std::string& mine) {
  const auto sizes = gather_numbers(progress, name + " (bytes)", mine.size());
  std::vector<std::int64_t> offsets{0};
  for (const std::size_t size : sizes) {
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(size));
  }
  const bool root = progress.rank() == 0;
  std::string whole(root ? static_cast<std::size_t>(offsets.back()) : 0, '\0');
  gather<char>(progress, name, 0, mine, whole, offsets);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; root && rank < sizes.size(); ++rank) {
    texts.push_back(whole.substr(static_cast<std::size_t>(offsets[rank]), sizes[rank]));
  }
  return texts;
}

REEF_INLINE std::string broadcast_text(Progress& progress, const std::string& name,
                                       std::string text) {
  std::size_t size = text.size();
  broadcast(progress, name + " (bytes)", 0, std::span(&size, 1));
  text.resize(size);
  broadcast<char>(progress, name, 0, text);
  return text;
}

}  // namespace reef::inline v0::comm
