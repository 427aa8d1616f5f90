#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include <reef/io/json.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {
namespace checkpoint {

/// Makes the directory this job's own to write checkpoints to, until the trainer is destroyed or claims another
/// directory; does nothing if it is already. save() claims it too, but a refusal costs less before the first step.
///
/// | who     | all ranks, between steps                                                                 |
/// | others  | another job that claims it, or saves to it, is refused with the name of this one; one that |
/// |         | ended without a word leaves no trace (io::DirectoryLock). Who only resumes claims nothing  |
/// | removes | nothing that was there: the first save() does, of what jobs that were ended have left     |
/// | errors  | FileError on every rank, if another job has it, or for a directory that some rank does not |
/// |         | share or cannot write to: with their numbers                                              |
void claim(Training& training, const std::filesystem::path& directory);

/// Writes what a resume needs to DIRECTORY/step-N: rank 0 the parameters by their names, every rank
/// its optimizer state, with the gradient that is pending if rounds overlap, and last, when all are on
/// the disk, rank 0 the manifest. The trainer's committed weights are on all ranks.
///
/// | who    | all ranks, between steps, with the same directory on a file system that they share: it is   |
/// |        | claimed, so that no other job writes there                                                 |
/// | files  | model.safetensors, or of stages model-R.safetensors with what rank R owns,                 |
/// |        | optimizer-R.safetensors, manifest.json with a checksum per tensor                          |
/// | others | shards of this step that were there are replaced; of other steps only the temporary files  |
/// |        | of jobs that were ended are removed, by a job's first save                                 |
/// | facts  | what the caller wants back from resume, of rank 0: any JSON value, which comes back equal  |
/// |        | to what it was; one that JSON's text cannot hold (NaN, bytes, no UTF-8) is an error         |
/// | errors | FileError on every rank: what was written of this checkpoint is removed, and older ones,   |
/// |        | also one of this step, are unchanged                                                       |
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// const std::optional<io::Json> facts = checkpoint::resume(trainer, "run");  // nothing: a new run
/// for (int step = 0; step < 1000; ++step) trainer.step();
/// checkpoint::save(trainer, "run", {{"note", "after 1000 steps more"}});
/// \endcode
std::filesystem::path save(Training& training, const std::filesystem::path& directory, const io::Json& facts = io::Json::object());

/// Reads the latest complete checkpoint of the directory into the trainer; returns the caller's facts,
/// or nothing if there is none.
///
/// Training then goes on with the bits of the undisturbed run, if ranks, counts, model, policies, options
/// and instruction set are the same.
///
/// With another number of ranks, or other counts, each rank reads its shards out of the shards of before. A step
/// of overlapping rounds then begins by taking its own gradient, of the micro-batches whose gradient was pending
/// (where counts adapt: of new ones). Ranks that step on their own (DiLoCo) then begin at the outer weights with
/// inner states of zero; so they do where fragments, H or the overlap are others.
///
/// Another optimizer policy of the same rule takes over the state that it needs: Ddp and Zero1 from each other, and
/// from policies whose rounds overlap, which keep master weights besides; policies whose rounds overlap from each
/// other, with a new prologue. State that is needed and not there is a FileError.
///
/// | who    | all ranks, before the first step                                                     |
/// | cost   | a rank reads its files twice: everything is checked before the trainer changes       |
/// | memory | a piece of a tensor, whatever the model's size                                       |
/// | errors | FileError on every rank for a damaged file, or a checkpoint of another model, rule,  |
/// |        | seed or element: the trainer is unchanged. Only if the second reading fails, its     |
/// |        | weights and state are unspecified                                                    |
///
/// `called` is what errors call a run of this kind, as the name of its recipe, in place of its optimizer; so is the text
/// "called" of a checkpoint's facts for the run that wrote it.
std::optional<io::Json> resume(Training& training, const std::filesystem::path& directory, std::string_view called = {});

}  // namespace checkpoint
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/checkpoint.ipp>
#endif
