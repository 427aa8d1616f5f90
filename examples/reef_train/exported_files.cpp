#include "exported_files.hpp"

#include <array>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>

#include "../support/tokenizer.hpp"
#include "../support/weight_files.hpp"

namespace reef_examples {

namespace {

namespace fs = std::filesystem;

/// The folder of --init in Hugging Face's layout; empty where there is none.
fs::path folder_of_init(const TrainOptions& options) {
  if (options.init.empty() || !exists(config_beside(options.init))) return {};
  const fs::path folder = config_beside(options.init).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

}  // namespace

void complete_config(const TrainOptions& options, const fs::path& config, const std::string& dtype) {
  reef::io::Json json = reef::io::read_json(config);
  if (const fs::path folder = folder_of_init(options); !folder.empty()) {
    const reef::io::Json given = reef::io::read_json(folder / "config.json");
    for (const char* const field : {"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id",
                                    "decoder_start_token_id", "tokenizer_class", "initializer_range"}) {
      if (given.contains(field)) json[field] = given.at(field);
    }
    for (const char* const dropout : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) {
      if (options.dropout == 0 && json.contains(dropout) && given.contains(dropout)) json[dropout] = given.at(dropout);
    }
  }
  json["torch_dtype"] = dtype;
  reef::io::write_atomically(config, json.dump(2) + "\n");
}

void copy_beside_export(const TrainOptions& options) {
  const fs::path from = folder_of_init(options);
  if (from.empty()) return;
  std::vector<const char*> names{"generation_config.json"};
  std::error_code unknown;
  if (const fs::path tokenizer = folder_of_tokenizer(options.tokenizer);
      !tokenizer.empty() && fs::equivalent(tokenizer, from, unknown)) {
    names.insert(names.end(), {"tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
                               "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja"});
  }
  for (const char* const name : names) {
    const fs::path to = config_beside(options.export_file).replace_filename(name);
    if (!exists(from / name) || exists(to)) continue;
    reef::io::write_atomically(to, reef::io::read_file(from / name, reef::Bytes{1} << 30));
  }
}

}  // namespace reef_examples
