#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include <reef/io/json.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// Fields of a config.json that change no logit of the models here, whatever their values: what belongs to training, to
/// generation, to tokens, to classes, to speed or to the file's history.
inline constexpr std::array<std::string_view, 99> harmless_fields{
    // The file and its history.
    "model_type", "architectures", "_name_or_path", "name_or_path", "_commit_hash", "transformers_version",
    "transformers.js_config", "custom_pipelines", "unsloth_fixed", "unsloth_version", "is_llama_config",
    // The type and the speed of computing.
    "torch_dtype", "dtype", "use_bfloat16", "torchscript", "use_cache", "output_past", "gradient_checkpointing",
    "attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "_flash_attn_2_enabled",
    "use_flash_attention", "chunk_size_feed_forward", "pretraining_tp", "attention_softmax_in_fp32",
    "masked_softmax_fusion", "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact",
    "reorder_and_upcast_attn",
    // Training.
    "initializer_range", "initializer_factor", "attention_dropout", "hidden_dropout", "classifier_dropout",
    "attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_probs_dropout_prob", "hidden_dropout_prob",
    // What is returned beside logits.
    "return_dict", "return_dict_in_generate", "output_attentions", "output_hidden_states", "output_scores",
    // Tokens and lengths. Of BLOOM's offset, one number for all keys of a head, the softmax has no trace.
    "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "mask_token_id",
    "decoder_start_token_id", "tokenizer_class", "prefix", "n_ctx", "max_sequence_length", "model_max_length",
    "offset_alibi",
    // Classes, and heads of other tasks.
    "id2label", "label2id", "num_labels", "_num_labels", "problem_type", "finetuning_task", "task_specific_params",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "is_decoder", "tie_encoder_decoder",
    // Generation.
    "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "forced_bos_token_id", "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "tf_legacy_loss"};

/// Returns true for a field that changes no logit: by its name, or since its value, null, false or an empty text, list
/// or object, switches nothing on.
inline bool is_harmless_field(std::string_view field, const io::Json& value) {
  if (value.is_null() || value == io::Json(false) || value == io::Json("")) return true;
  if ((value.is_object() || value.is_array()) && value.empty()) return true;
  return std::ranges::find(harmless_fields, field) != harmless_fields.end();
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
