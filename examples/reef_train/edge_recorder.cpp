#include "edge_recorder.hpp"

#include <optional>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/safetensors_writer.hpp>

#include "../support/earlier_files.hpp"

namespace reef_examples {

namespace fs = std::filesystem;

namespace {

/// "edges.rank-1.safetensors" of "edges.safetensors", where there are several ranks.
fs::path file_of(const std::string& file, int rank, int ranks) {
  fs::path path(file);
  if (ranks == 1 || file.empty()) return path;
  const std::string extension = path.extension().string();
  return path.replace_extension(reef::concat(".rank-", rank, extension));
}

}  // namespace

EdgeRecorder::EdgeRecorder(const TrainOptions& options, int rank, int ranks, Failures& failures)
    : step_(options.record_step), file_(file_of(options.record_edges, rank, ranks)), failures_(failures) {
  if (!records()) return;
  if (ranks == 1) {
    throw reef::OptionError("--record-edges: there is one rank.\n  why: it sends nothing, so nothing is encoded.\n"
                            "  fix: more ranks, or leave it out.");
  }
  if (const auto why = in_the_way(Output::weights, file_)) throw reef::OptionError("--record-edges: ", *why);
  const auto found = fs::status(file_);
  if (fs::exists(found) && !fs::is_regular_file(found)) {
    throw reef::OptionError("--record-edges: '", file_.string(), "' is no file.\n  fix: another name.");
  }
  const reef::io::AtomicFile probe(file_);
}

reef::compress::Watch EdgeRecorder::watch(bool measures_error) {
  reef::compress::Watch watch;
  watch.measures_error = measures_error;
  if (!records()) return watch;
  watch.step = step_ - 1;
  watch.record = [this](const reef::compress::Coded& coded) { keep(coded); };
  return watch;
}

void EdgeRecorder::start(std::int64_t committed) const {
  if (!records() || committed < step_) return;
  throw reef::OptionError("--record-edges: step ", step_, " is over: ", committed,
                          " have been taken.\n  fix: a later step, or leave it out.");
}

/// A step may send of one bucket more than once: where rounds overlap.
void EdgeRecorder::keep(const reef::compress::Coded& coded) {
  const std::scoped_lock lock(mutex_);
  std::string name = coded.name;
  for (int time = 2; by_name_.contains(name); ++time) name = reef::concat(coded.name, ", time ", time);
  by_name_[name] = {coded.shape, {coded.before.begin(), coded.before.end()}, {coded.after.begin(), coded.after.end()}};
}

std::string EdgeRecorder::end_step(std::int64_t step) {
  if (step != step_) return {};
  std::string aside;
  const auto in_place = [&] { aside = write_in_place(file_, [&] { write(); }); };
  const bool written = failures_.attempt(reef::concat("--record-edges ", file_.string()), in_place);
  by_name_.clear();
  return written ? file_.string() + aside : std::string();
}

void EdgeRecorder::write() const {
  std::vector<reef::io::NamedView> tensors;
  const auto add = [&tensors](const std::string& name, const reef::Shape& shape, const std::vector<float>& values) {
    tensors.push_back({name, reef::AnyView(const_cast<float*>(values.data()), shape, reef::Element::float32)});
  };
  for (const auto& [name, numbers] : by_name_) {
    add(name + ", before", numbers.shape, numbers.before);
    add(name + ", after", numbers.shape, numbers.after);
  }
  reef::io::write_safetensors(file_, tensors, {{"step", reef::concat(step_)}});
}

}  // namespace reef_examples
