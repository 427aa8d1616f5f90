#pragma once

#include <algorithm>
#include <optional>

#include <reef/core/inline.hpp>
#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace io {

namespace detail {

REEF_INLINE std::string place_of(std::string_view text, std::string_view source, std::size_t byte) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i < byte && i < text.size(); ++i) {
    line += text[i] == '\n' ? 1U : 0U;
    column = text[i] == '\n' ? 1 : column + 1;
  }
  return concat(source, ":", line, ":", column);
}

/// Builds a value, and refuses what JSON leaves open: a key that comes twice, and any depth.
class StrictSax : public nlohmann::json_sax<Json> {
public:
  StrictSax(Json& root, JsonLimits limits) : root_(root), limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool x) override { return add(x); }
  bool number_integer(number_integer_t x) override { return add(x); }
  bool number_unsigned(number_unsigned_t x) override { return add(x); }
  bool number_float(number_float_t x, const string_t& /*text*/) override { return add(x); }
  bool string(string_t& x) override { return add(std::move(x)); }
  bool binary(binary_t& /*x*/) override { return false; }  // not in JSON text
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& x) override {
    if (open_.back()->contains(x)) {
      why_ = concat("the key \"", x, "\" comes twice in one object");
      fix_ = "keep one of the two.";
      return false;
    }
    key_ = std::move(x);
    return true;
  }
  bool parse_error(std::size_t byte, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    byte_ = byte == 0 ? 0 : byte - 1;
    const std::string at = path();
    why_ = error.what();  // "[json.exception...] parse error at line 1, column 2: what is wrong"
    const std::size_t column = why_.find("column ");
    const std::size_t colon = column == std::string::npos ? column : why_.find(": ", column);
    const std::size_t bracket = why_.find("] ");
    if (colon != std::string::npos) {
      why_.erase(0, colon + 2);
    } else if (bracket != std::string::npos) {
      why_.erase(0, bracket + 2);
    }
    if (!at.empty()) why_ = concat("at '", at, "': ", why_);
    return false;
  }

  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] std::string_view fix() const { return fix_; }
  [[nodiscard]] std::optional<std::size_t> byte() const { return byte_; }

private:
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool open(Json container) {
    if (static_cast<int>(open_.size()) == limits_.depth)
      return refuse(concat("it nests deeper than ", limits_.depth));
    if (!open_.empty() && open_.back()->size() >= limits_.nested)
      return refuse(
          concat("'", path(), "' is more than ", limits_.nested, " in one list or object"));
    keys_.push_back(key_);
    open_.push_back(place(std::move(container)));
    key_.clear();
    return true;
  }
  bool refuse(std::string why) {
    why_ = std::move(why);
    fix_ = "check that it is the file you meant.";
    return false;
  }
  bool close() {
    open_.pop_back();
    key_ = std::move(keys_.back());
    keys_.pop_back();
    return true;
  }

  /// Of the value that is read, dotted: the keys of objects and the places in arrays.
  [[nodiscard]] std::string path() const {
    std::string path;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const bool innermost = i + 1 == open_.size();
      const std::string& key = innermost ? key_ : keys_[i + 1];
      const bool in_array = open_[i]->is_array();
      const std::string name =
          in_array ? std::to_string(open_[i]->size() - (innermost ? 0U : 1U)) : key;
      if (!name.empty()) path += concat(path.empty() ? "" : ".", name);
    }
    return path;
  }

  Json& root_;
  JsonLimits limits_;
  std::vector<Json*> open_;        // a container is not moved while one inside it is open
  std::vector<std::string> keys_;  // under which each of them was opened
  std::string key_;
  std::string why_;
  std::string_view fix_ = "correct it there; if the file was cut off, copy it again.";
  std::optional<std::size_t> byte_;
};

}  // namespace detail

REEF_INLINE Json parse_json(std::string_view text, JsonSource source, JsonLimits limits) {
  if (text.size() > limits.bytes) {
    throw DecodeError("reef::io: ", source.name, " has ", format_bytes(text.size()),
                      ", more than the limit of ", format_bytes(limits.bytes),
                      ".\n  fix: check that it is the file you meant.");
  }
  // One of UTF-8 is passed over.
  if (const std::string_view mark = byte_order_mark(text); mark == "UTF-16") {
    throw DecodeError("reef::io: ", source.name, " begins with a byte order mark of ", mark,
                      ", and JSON is UTF-8.\n  fix: ", source.fix_or("save it as UTF-8."));
  }
  Json value;
  detail::StrictSax sax(value, limits);
  if (!Json::sax_parse(text.begin(), text.end(), &sax)) {
    const std::string place = sax.byte().has_value()
                                  ? detail::place_of(text, source.name, *sax.byte())
                                  : std::string(source.name);
    throw DecodeError("reef::io: ", place, ": ", sax.why(), ".\n  fix: ", source.fix_or(sax.fix()));
  }
  return value;
}

namespace detail {

REEF_INLINE void refuse_value(const Json& found, std::string_view path, std::string_view wanted,
                              JsonSource source) {
  std::string shown = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  throw DecodeError("reef::io: ", source.name, path.empty() ? "" : concat(": '", path, "'"),
                    " must be ", wanted, ", it is ", shown,
                    ".\n  fix: ", source.fix_or("change it to that, or give another file."));
}

REEF_INLINE const Json* find_at(const Json& root, std::string_view path, JsonSource source) {
  const Json* at = &root;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = (std::min)(path.size(), path.find('.', begin));
    const std::string step(path.substr(begin, end - begin));
    if (at->is_object()) {
      const auto found = at->find(step);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else if (at->is_array() && !step.empty() &&
               step.find_first_not_of("0123456789") == std::string::npos) {
      const std::size_t index = step.size() < 10 ? std::stoul(step) : at->size();
      if (index >= at->size()) return nullptr;
      at = &(*at)[index];
    } else {
      refuse_value(*at, path.substr(0, begin == 0 ? 0 : begin - 1), "an object", source);
    }
    begin = end + 1;
  }
  return at;
}

}  // namespace detail

}  // namespace io
}  // namespace v0
}  // namespace reef
