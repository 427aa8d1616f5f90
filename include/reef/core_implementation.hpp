#pragma once

/// \file
/// The bodies of all functions that need no MPI, for one file of a program that links reef::core; implementation.hpp
/// contains these bodies and those of reef::reef.

#include <reef/core/inline.hpp>

#ifndef REEF_COMPILED
#error "reef/core_implementation.hpp: \
this file is compiled without -DREEF_COMPILED, which says that bodies are elsewhere. \
fix: that flag for every file of the program, this one too; or, without this header, for none."
#else

#ifdef __ELF__
// A symbol whose name explains the mistake: if two files of a program include this header, the linker names it first.
asm(".pushsection .rodata\n.globl reef_implementation_hpp_is_included_by_two_files_of_the_program\n"
    "reef_implementation_hpp_is_included_by_two_files_of_the_program: .byte 0\n.popsection");
#endif

#include <reef/codec/bf16.ipp>
#include <reef/codec/blockwise8.ipp>
#include <reef/codec/chosen.ipp>
#include <reef/codec/chunk_top_k.ipp>
#include <reef/codec/dense.ipp>
#include <reef/codec/detail/dynamic_code.ipp>
#include <reef/codec/detail/largest.ipp>
#include <reef/codec/fp8.ipp>
#include <reef/codec/message.ipp>
#include <reef/codec/normal_float4.ipp>
#include <reef/codec/power_sgd.ipp>
#include <reef/codec/random_k.ipp>
#include <reef/codec/sign.ipp>
#include <reef/codec/top_k.ipp>
#include <reef/codec/two_bit.ipp>
#include <reef/codec/uniform8.ipp>
#include <reef/comm/network_file.ipp>
#include <reef/compress/detail/adapted_ratios.ipp>
#include <reef/compress/detail/channel_rules.ipp>
#include <reef/compress/detail/coded_parts.ipp>
#include <reef/compress/detail/coder_writer.ipp>
#include <reef/compress/detail/edge_encoder.ipp>
#include <reef/compress/detail/encoder.ipp>
#include <reef/compress/detail/masks.ipp>
#include <reef/compress/detail/memories.ipp>
#include <reef/compress/ratio_function.ipp>
#include <reef/core/error.ipp>
#include <reef/core/first_fit.ipp>
#include <reef/core/group.ipp>
#include <reef/core/pattern.ipp>
#include <reef/core/shape.ipp>
#include <reef/core/text.ipp>
#include <reef/core/units.ipp>
#include <reef/data/added_tokens.ipp>
#include <reef/data/bpe_tokenizer.ipp>
#include <reef/data/byte_tokenizer.ipp>
#include <reef/data/chat_template.ipp>
#include <reef/data/conversations.ipp>
#include <reef/data/corpus.ipp>
#include <reef/data/detail/bpe_files.ipp>
#include <reef/data/detail/bpe_merger.ipp>
#include <reef/data/detail/bpe_vocabulary.ipp>
#include <reef/data/detail/sentence_piece_model.ipp>
#include <reef/data/detail/tokenizer_json_file.ipp>
#include <reef/data/detail/vocabulary_json.ipp>
#include <reef/data/labelled_texts.ipp>
#include <reef/data/packed_pairs.ipp>
#include <reef/data/pairs.ipp>
#include <reef/data/sampler.ipp>
#include <reef/data/split_pattern.ipp>
#include <reef/data/token_file.ipp>
#include <reef/data/token_shards.ipp>
#include <reef/data/token_view.ipp>
#include <reef/data/tokenizer_json.ipp>
#include <reef/device/cores.ipp>
#include <reef/device/detail/scheduling.ipp>
#include <reef/device/detail/thread_pool.ipp>
#include <reef/device/host.hpp>
#include <reef/device/memory.ipp>
#include <reef/graph/chain.ipp>
#include <reef/graph/crossing.ipp>
#include <reef/graph/dag.ipp>
#include <reef/graph/detail/binding_checks.ipp>
#include <reef/graph/detail/node_views.ipp>
#include <reef/graph/estimate.ipp>
#include <reef/graph/gradient_check.ipp>
#include <reef/graph/graph.hpp>
#include <reef/graph/graph_json.ipp>
#include <reef/graph/hash.ipp>
#include <reef/graph/model_file.ipp>
#include <reef/graph/parameter_layout.ipp>
#include <reef/graph/placed_dag.ipp>
#include <reef/graph/registry.ipp>
#include <reef/graph/remote_edges.ipp>
#include <reef/graph/remote_messages.ipp>
#include <reef/graph/segment.ipp>
#include <reef/graph/sub_dags.ipp>
#include <reef/io/atomic_file.ipp>
#include <reef/io/checkpoint_folders.ipp>
#include <reef/io/checksum.ipp>
#include <reef/io/directory_lock.ipp>
#include <reef/io/file.ipp>
#include <reef/io/json.ipp>
#include <reef/io/json_string.ipp>
#include <reef/io/known_keys.ipp>
#include <reef/io/manifest.ipp>
#include <reef/io/mapped_file.ipp>
#include <reef/io/read_reals.ipp>
#include <reef/io/safetensors_file.ipp>
#include <reef/io/safetensors_files.ipp>
#include <reef/io/safetensors_writer.ipp>
#include <reef/io/stored_tensor.ipp>
#include <reef/nn/adapter_file.ipp>
#include <reef/nn/block_cuts.ipp>
#include <reef/nn/bloom_config.ipp>
#include <reef/nn/class_head.ipp>
#include <reef/nn/class_labels.ipp>
#include <reef/nn/detail/open_sequences.ipp>
#include <reef/nn/draft_length.ipp>
#include <reef/nn/end_tokens.ipp>
#include <reef/nn/gpt.ipp>
#include <reef/nn/gpt2_config.ipp>
#include <reef/nn/gpt_neox_config.ipp>
#include <reef/nn/host/products.ipp>
#include <reef/nn/llama_config.ipp>
#include <reef/nn/llama_json.ipp>
#include <reef/nn/lora.ipp>
#include <reef/nn/model_config.ipp>
#include <reef/nn/ngram_draft.ipp>
#include <reef/nn/rotary_frequencies.ipp>
#include <reef/nn/soft_prompt.ipp>
#include <reef/optim/decision.ipp>
#include <reef/optim/detail/kept.ipp>
#include <reef/optim/detail/outer.ipp>
#include <reef/optim/detail/overlapping.ipp>
#include <reef/optim/detail/runs.ipp>
#include <reef/optim/detail/scalars.ipp>
#include <reef/optim/detail/synchronous.ipp>
#include <reef/optim/own_decision.ipp>
#include <reef/optim/update.ipp>
#include <reef/pipeline/detail/program_writer.ipp>
#include <reef/pipeline/detail/timetables.ipp>
#include <reef/pipeline/detail/versioned_weights.ipp>
#include <reef/plan/adatopk.ipp>
#include <reef/plan/adatopk_json.ipp>
#include <reef/plan/allocate.ipp>
#include <reef/plan/allocation.ipp>
#include <reef/plan/allocation_cost.ipp>
#include <reef/plan/allocation_json.ipp>
#include <reef/plan/atom_algorithm_1.ipp>
#include <reef/plan/balance.ipp>
#include <reef/plan/balance_round.ipp>
#include <reef/plan/block_choice.ipp>
#include <reef/plan/chain.ipp>
#include <reef/plan/chain_json.ipp>
#include <reef/plan/clusters.ipp>
#include <reef/plan/clusters_json.ipp>
#include <reef/plan/detail/route_cost.ipp>
#include <reef/plan/detail/window_order.ipp>
#include <reef/plan/genetic_allocation.ipp>
#include <reef/plan/number_json.ipp>
#include <reef/plan/op_fence.ipp>
#include <reef/plan/partition_chain.ipp>
#include <reef/plan/pipeline_case_json.ipp>
#include <reef/plan/pipeline_model.ipp>
#include <reef/plan/pipeline_order.ipp>
#include <reef/plan/pipeline_problem.ipp>
#include <reef/plan/pipeline_problem_json.ipp>
#include <reef/plan/pipeline_schedules.ipp>
#include <reef/plan/pipeline_search.ipp>
#include <reef/plan/pipeline_time.ipp>
#include <reef/plan/route.ipp>
#include <reef/plan/route_json.ipp>
#include <reef/plan/router.ipp>
#include <reef/plan/split_in_order.ipp>
#include <reef/plan/swap_program.ipp>
#include <reef/plan/swarm.ipp>
#include <reef/plan/swarm_json.ipp>
#include <reef/profile/fitted_speed.ipp>
#include <reef/profile/network.ipp>
#include <reef/profile/network_json.ipp>
#include <reef/profile/profile.ipp>
#include <reef/profile/profile_json.ipp>
#include <reef/run/allocated_stages.ipp>
#include <reef/run/bucket.ipp>
#include <reef/run/chunk_bounds.ipp>
#include <reef/run/costs.ipp>
#include <reef/run/fenced_stages.ipp>
#include <reef/run/fragment.ipp>
#include <reef/run/instructions.ipp>
#include <reef/run/links.ipp>
#include <reef/run/memory.ipp>
#include <reef/run/messages.ipp>
#include <reef/run/operator_groups.ipp>
#include <reef/run/parameter_group.ipp>
#include <reef/run/placed_program.ipp>
#include <reef/run/plan_of_optim.ipp>
#include <reef/run/serial_order.ipp>
#include <reef/run/shared_loop.ipp>
#include <reef/run/slots.ipp>
#include <reef/run/stage_memory.ipp>
#include <reef/run/staging.ipp>
#include <reef/run/stalls.ipp>
#include <reef/run/step_builder.ipp>
#include <reef/run/step_plan.ipp>
#include <reef/run/tied.ipp>
#include <reef/run/topology.ipp>
#include <reef/run/views.ipp>
#include <reef/schedule/dependencies.ipp>
#include <reef/schedule/detail/deriver.ipp>
#include <reef/schedule/detail/occupancy.ipp>
#include <reef/schedule/detail/simulator.ipp>
#include <reef/schedule/detail/structure_checker.ipp>
#include <reef/schedule/hash.ipp>
#include <reef/schedule/placement.ipp>
#include <reef/schedule/program.ipp>
#include <reef/schedule/recording.ipp>
#include <reef/schedule/simulate.ipp>
#include <reef/schedule/skeleton.ipp>
#include <reef/schedule/skeleton_encoding.ipp>
#include <reef/schedule/skeleton_of.ipp>
#include <reef/schedule/transfer_order.ipp>
#include <reef/schedule/verify.ipp>
#include <reef/schedule/world.ipp>
#include <reef/swap/detail/cuts_to_try.ipp>
#include <reef/swap/detail/local_search.ipp>
#include <reef/swap/detail/plan_evaluator.ipp>
#include <reef/swap/detail/stasher.ipp>
#include <reef/swap/detail/swapper.ipp>
#include <reef/swap/planner.ipp>
#include <reef/trace/chrome.ipp>
#include <reef/trace/encoding.ipp>
#include <reef/trace/overlap.ipp>
#include <reef/trace/report.ipp>
#include <reef/trace/sink.ipp>
#include <reef/trace/waits.ipp>
#include <reef/trainer/model_state.ipp>

namespace reef {
inline namespace v0 {
namespace detail {

const char REEF_COMPILED_CORE = 0;

}  // namespace detail
}  // namespace v0
}  // namespace reef

template class reef::graph::Graph<reef::device::Host, float>;
#endif
