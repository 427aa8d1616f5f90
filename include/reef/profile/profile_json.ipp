#pragma once

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/profile/profile_json.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

REEF_INLINE io::Json to_json(const Profile& profile) {
  io::Json operators = io::Json::array();
  for (const OperatorProfile& entry : profile.operators) {
    operators.push_back({{"name", entry.name},
                         {"kind", entry.kind},
                         {"forward_s", entry.forward_s},
                         {"backward_s", entry.backward_s},
                         {"load_s", entry.load_s},
                         {"parameter_bytes", entry.parameter_bytes},
                         {"gradient_bytes", entry.gradient_bytes},
                         {"saved_bytes", entry.saved_bytes},
                         {"output_bytes", entry.output_bytes},
                         {"forward_workspace_bytes", entry.forward_workspace_bytes},
                         {"backward_workspace_bytes", entry.backward_workspace_bytes},
                         {"forward_set_bytes", entry.forward_set_bytes},
                         {"backward_set_bytes", entry.backward_set_bytes},
                         {"forward_flops", entry.forward_flops},
                         {"backward_flops", entry.backward_flops}});
  }
  return {{"format", profile_format},
          {"device", profile.device},
          {"measured", profile.measured},
          {"threads", profile.threads},
          {"memory_bytes_per_second", profile.memory_bytes_per_second},
          {"host_bytes_per_second", profile.host_bytes_per_second},
          {"copy_bytes_per_second", profile.copy_bytes_per_second},
          {"copy_latency", profile.copy_latency},
          {"link_bytes_per_second", profile.link_bytes_per_second},
          {"link_latency", profile.link_latency},
          {"slowdown", profile.slowdown},
          {"operators", std::move(operators)}};
}

REEF_INLINE Profile from_json(const io::Json& json, std::string_view source) {
  const io::JsonSource written(source, profile_fix);
  const auto format = io::require<std::string>(json, "format", written);
  if (format != profile_format) {
    throw DecodeError("reef::profile: ", source, " has the format '", format, "', expected '",
                      profile_format, "'.\n  fix: ", profile_fix);
  }
  const auto require_known = [&](const io::Json& object, const io::Json& model,
                                 io::JsonSource where) {
    std::vector<std::string_view> known;
    for (const auto& [key, value] : model.items()) known.push_back(key);
    io::require_known_keys(object, known, where);
  };
  Profile model;  // what is written is what is read
  model.operators.emplace_back();
  const io::Json written_keys = to_json(model);
  require_known(json, written_keys, written);
  Profile profile;
  profile.device = io::require<std::string>(json, "device", written);
  profile.measured = io::require<bool>(json, "measured", written);
  profile.threads = io::require<int>(json, "threads", written);
  profile.memory_bytes_per_second = io::require<double>(json, "memory_bytes_per_second", written);
  profile.host_bytes_per_second = io::require<double>(json, "host_bytes_per_second", written);
  profile.copy_bytes_per_second = io::require<double>(json, "copy_bytes_per_second", written);
  profile.copy_latency = io::require<Seconds>(json, "copy_latency", written);
  profile.link_bytes_per_second = io::require<double>(json, "link_bytes_per_second", written);
  profile.link_latency = io::require<Seconds>(json, "link_latency", written);
  profile.slowdown = io::require<double>(json, "slowdown", written);
  const auto operators = io::require<std::vector<io::Json>>(json, "operators", written);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const std::string place = concat(source, ", operator ", i);
    require_known(operators[i], written_keys["operators"][0], {place, profile_fix});
    const auto read = [&]<class T>(T& target, const char* member) {
      target = io::require<T>(operators[i], member, {place, profile_fix});
    };
    OperatorProfile& entry = profile.operators.emplace_back();
    read(entry.name, "name");
    read(entry.kind, "kind");
    read(entry.forward_s, "forward_s");
    read(entry.backward_s, "backward_s");
    read(entry.load_s, "load_s");
    read(entry.parameter_bytes, "parameter_bytes");
    read(entry.gradient_bytes, "gradient_bytes");
    read(entry.saved_bytes, "saved_bytes");
    read(entry.output_bytes, "output_bytes");
    read(entry.forward_workspace_bytes, "forward_workspace_bytes");
    read(entry.backward_workspace_bytes, "backward_workspace_bytes");
    read(entry.forward_set_bytes, "forward_set_bytes");
    read(entry.backward_set_bytes, "backward_set_bytes");
    read(entry.forward_flops, "forward_flops");
    read(entry.backward_flops, "backward_flops");
  }
  try {
    profile.validate();
  } catch (const OptionError& error) {
    throw DecodeError(source, ": ", error.what());
  }
  return profile;
}

}  // namespace profile
}  // namespace v0
}  // namespace reef
