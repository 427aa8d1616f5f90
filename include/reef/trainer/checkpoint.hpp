#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include <reef/io/json.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {
namespace checkpoint {

/// Claims a directory, so that only this job writes checkpoints to it until the trainer is destroyed or claims another
/// directory. Does nothing if this job has claimed it. save() claims its directory, too, but an error costs less before
/// the first step.
///
/// | who     | all ranks, between steps                                                                    |
/// | others  | another job that claims it, or saves to it, gets an error that names this job. The claim of |
/// |         | a killed job ends with it (io::DirectoryLock). A job that only resumes needs no claim       |
/// | removes | no files: the first save() removes temporary files that killed jobs have left               |
/// | errors  | FileError on every rank if another job has claimed it, or if some ranks do not share the    |
/// |         | directory or cannot write to it, naming these                                               |
void claim(Training& training, const std::filesystem::path& directory);

/// Writes a checkpoint to DIRECTORY/step-N: rank 0 writes the parameters by their names, every rank its optimizer
/// state, with the pending gradient if rounds overlap, and last, when all files are on disk, rank 0 the manifest. It
/// first gathers the committed weights on all ranks. Returns the path of the checkpoint.
///
/// | who    | all ranks, between steps, with the same directory on a file system that they share; it is   |
/// |        | claimed, so that no other job writes there                                                  |
/// | files  | model.safetensors, or with stages model-R.safetensors with the parameters that rank R owns, |
/// |        | optimizer-R.safetensors, manifest.json with a checksum per tensor                           |
/// | others | existing shards of this step are replaced; of other steps only temporary files of killed    |
/// |        | jobs are removed, by a job's first save                                                     |
/// | facts  | any JSON value of the caller on rank 0, which resume() returns equal; OptionError for a     |
/// |        | value that JSON's text cannot hold (NaN, bytes, text that is not UTF-8)                     |
/// | errors | FileError on every rank: the files of this checkpoint are removed, and older checkpoints,   |
/// |        | also one of this step, are unchanged                                                        |
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// const std::optional<io::Json> facts = checkpoint::resume(trainer, "run");  // nothing: a new run
/// for (int step = 0; step < 1000; ++step) trainer.step();
/// checkpoint::save(trainer, "run", {{"note", "after 1000 steps more"}});
/// \endcode
std::filesystem::path save(Training& training, const std::filesystem::path& directory,
                           const io::Json& facts = io::Json::object());

/// Reads the latest complete checkpoint of the directory into the trainer. Returns the caller's facts, or nothing if
/// there is no checkpoint.
///
/// Training then continues with the bits of an uninterrupted run, if ranks, counts of micro-batches, model, policies,
/// options and instruction set are the same.
///
/// With another number of ranks, or other counts, each rank reads its shards from the former shards. A step of
/// overlapping rounds then first computes its gradient from the micro-batches whose gradient was pending (if counts
/// adapt: from new ones). Ranks that train on their own (DiLoCo) then begin at the outer weights with inner states of
/// zero, as they do if fragments, H or the overlap differ.
///
/// Another optimizer policy with the same rule loads the state that it needs: Ddp and Zero1 from each other and from
/// policies whose rounds overlap, which also store master weights; policies whose rounds overlap from each other, with
/// a new prologue. Missing state is a FileError.
///
/// | who    | all ranks, before the first step                                                    |
/// | cost   | a rank reads its files twice: everything is checked before the trainer changes      |
/// | memory | a piece of a tensor, for a model of any size                                        |
/// | errors | FileError on every rank for a damaged file, or a checkpoint of another model, rule, |
/// |        | seed or element: the trainer is unchanged. Only if the second reading fails, its    |
/// |        | weights and state are unspecified                                                   |
///
/// `called` is the name for this run in errors, such as that of its recipe, in place of the name of its optimizer; for
/// the run that wrote the checkpoint, errors use the text "called" of the checkpoint's facts.
std::optional<io::Json> resume(Training& training, const std::filesystem::path& directory,
                               std::string_view called = {});

}  // namespace checkpoint
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/checkpoint.ipp>
#endif
