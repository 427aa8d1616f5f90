#include "data_options.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <reef/data/chat_template.hpp>

#include "../support/input_files.hpp"
#include "../support/number_option.hpp"

namespace reef_examples {

void add_data_options(CLI::App& app, TrainOptions& o) {
  app.add_option("--data", o.data,
                 "text files, or files of tokens (.bin of llm.c or nanoGPT, .npy of NumPy), or of prompts with "
                 "completions (.jsonl, a line {\"prompt\": ..., \"completion\": ...}), whose loss is of completions "
                 "alone, or of conversations (.jsonl, a line {\"messages\": [{\"role\": ..., \"content\": ...}, ...]}), "
                 "whose loss is of what the assistant says alone; default: Reef's own sources. Held out: every tenth of "
                 "many texts, else the last tenth; of tokens the files with val, valid or validation as a word of their "
                 "name, else the last tenth")
      ->check(readable_file())
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--data-kind", o.data_kind,
                 "of --data: auto, tokens where files are named .bin or .npy, else text; text; "
                 "tokens; bytes, whatever they mean, of --tokenizer bytes alone")
      ->check(CLI::IsMember({"auto", "text", "tokens", "bytes"}))
      ->capture_default_str();
  app.add_option("--document-end", o.document_end,
                 "a token to set behind each document of text, by its number or its text, such as "
                 "'<|endoftext|>'; of --tokenizer bytes a byte, such as 0. A document is a file, or "
                 "a part of one that such a text ends. Default: none");
  app.add_option("--template", o.chat_template,
                 "the form in which conversations are text: chatml, llama3 or plain, which has no special tokens, and "
                 "ends turns with --document-end, if that is given. Default: by the chat_template in the tokenizer's "
                 "folder")
      ->check(CLI::IsMember(
          std::vector<std::string>(reef::data::chat_template_names.begin(), reef::data::chat_template_names.end())));
  app.add_flag(
      "--pack", o.pack,
      "of a .jsonl: several samples lie behind one another in a row of --context tokens, and none attends to another. "
      "Without, each has a row of its own");
  app.add_option(
         "--classes", o.classes,
         "N, the model tells which of N classes a text is of: a head (score) in place of that of the language, read at "
         "the text's last token, and --data a .jsonl with a line {\"text\": ..., \"label\": 0 to N-1}. An --init for "
         "sequence classification has its own N and head")
      ->transform(number_from<std::int64_t>(2, 1'000'000));
}

}  // namespace reef_examples
