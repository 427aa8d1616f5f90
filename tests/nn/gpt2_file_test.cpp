#include <reef/nn/gpt2_file.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/generator.hpp>
#include <reef/nn/host.hpp>

#include "../laws/graph_runner.hpp"
#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using namespace reef::test;
using device::Host;
using nn::Gpt2File;
using testing::AllOf;
using testing::HasSubstr;

const std::string test_data = std::string(REEF_TEST_DATA) + "/";

/// What write_gpt2_files.py wrote with struct and json, and what PyTorch makes of it.
struct Reference {
  nn::GptConfig config;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> continued;
  std::map<std::string, double> losses;  // by file

  static const Reference& get() {
    static const Reference reference = [] {
      const std::string source = test_data + "gpt2_losses.json";
      const io::Json json = io::read_json(source);
      const auto number = [&](const char* key) {
        return io::require<std::int64_t>(json, key, source);
      };
      Reference r;
      r.config.layers = number("layers");
      r.config.heads = number("heads");
      r.config.channels = number("channels");
      r.config.vocabulary = number("vocabulary");
      r.config.context = number("context");
      r.config.batch = number("batch");
      r.config.sequence = number("sequence");
      r.tokens = io::require<std::vector<std::int32_t>>(json, "tokens", source);
      r.targets = io::require<std::vector<std::int32_t>>(json, "targets", source);
      r.continued = io::require<std::vector<std::int32_t>>(json, "continued", source);
      const auto of_files = io::require<io::Json>(json, "losses", source);
      for (const auto& [file, loss] : of_files.items()) r.losses[file] = loss.get<double>();
      return r;
    }();
    return reference;
  }
};

template <real T>
std::map<std::string, std::vector<T>> read_all(const std::string& path,
                                               const nn::GptConfig& config) {
  std::map<std::string, std::vector<T>> values;
  const auto model = nn::gpt<Host, T>(config, 1);
  Gpt2File(path).read<T>(
      model.dag(), config.vocabulary,
      [&](const std::string& name, const std::vector<T>& x) { values[name] = x; });
  return values;
}

template <real T>
double loss_of(const std::string& path, const nn::GptConfig& config) {
  const Reference& reference = Reference::get();
  Host device({.threads = 1});
  const auto model = nn::gpt<Host, T>(config, 1);
  const graph::Dag& dag = model.dag();
  GraphRunner<Host, T> runner(device, model);
  runner.set(dag.tensor("tokens"), reference.tokens);
  runner.set(dag.tensor("targets"), reference.targets);
  Gpt2File(path).read<T>(dag, config.vocabulary,
                         [&](const std::string& name, const std::vector<T>& values) {
                           runner.set_parameter(dag.parameter(name), values);
                         });
  runner.forward({}, false);
  return static_cast<double>(runner.value(dag.loss)[0]);
}

TEST(Gpt2File, a_model_from_a_file_has_the_loss_that_pytorch_computes) {
  const Reference& reference = Reference::get();
  ASSERT_EQ(reference.losses.size(), 3U);
  for (const auto& [file, loss] : reference.losses) {
    SCOPED_TRACE(file);
    EXPECT_NEAR(loss_of<double>(test_data + file, reference.config), loss, 1e-12 * loss);
    EXPECT_NEAR(loss_of<float>(test_data + file, reference.config), loss, 0x1p-20 * loss);
  }
  EXPECT_NE(reference.losses.at("gpt2_hub.safetensors"),
            reference.losses.at("gpt2_bf16.safetensors"));
}

TEST(Gpt2File, a_model_from_a_file_continues_a_text_as_pytorch_does) {
  Host device({.threads = 1});
  nn::GptConfig config = Reference::get().config;
  config.batch = 1;
  config.sequence = 0;
  const auto model = nn::gpt<Host, float>(config, 1);
  nn::Generator<Host, float> generator(device, model);
  Gpt2File(test_data + "gpt2_hub.safetensors")
      .read<float>(model.dag(), config.vocabulary,
                   [&](const std::string& name, const std::vector<float>& values) {
                     generator.set_parameter(name, values);
                   });
  const std::vector<std::int32_t>& wanted = Reference::get().continued;
  const std::span prompt = std::span(wanted).first(3);
  EXPECT_EQ(generator.generate(prompt, {.tokens = 17, .temperature = 0}), wanted);
}

TEST(Gpt2File, a_file_says_its_configuration) {
  for (const auto& [file, loss] : Reference::get().losses) {
    const nn::GptConfig found = Gpt2File(test_data + file).config();
    const nn::GptConfig& wanted = Reference::get().config;
    EXPECT_EQ(found.layers, wanted.layers);
    EXPECT_EQ(found.channels, wanted.channels);
    EXPECT_EQ(found.vocabulary, wanted.vocabulary);
    EXPECT_EQ(found.context, wanted.context);
    EXPECT_TRUE(found.bias);
    EXPECT_EQ(found.heads, 1) << "12 channels are no multiple of 64";
  }
}

TEST(Gpt2File, a_padded_vocabulary_is_zeros_in_memory_and_not_in_the_file) {
  const TemporaryFolder folder;
  const std::string hub = test_data + "gpt2_hub.safetensors";
  const std::string copy = (folder / "copy.safetensors").string();
  nn::GptConfig config = Reference::get().config;
  const auto plain = read_all<float>(hub, config);
  config.padded_vocabulary = 64;
  const auto padded = read_all<float>(hub, config);

  std::vector<float> wte = plain.at("transformer.wte.weight");
  wte.resize(static_cast<std::size_t>(64 * config.channels), 0.0F);
  EXPECT_EQ(padded.at("transformer.wte.weight"), wte);

  const auto model = nn::gpt<Host, float>(config, 1);
  nn::write_gpt2<float>(copy, model.dag(), config.vocabulary,
                        [&](const std::string& name) { return padded.at(name); });
  config.padded_vocabulary = 0;
  EXPECT_EQ(read_all<float>(copy, config), plain);
}

TEST(Gpt2File, what_is_written_has_hugging_faces_names_shapes_and_metadata) {
  const TemporaryFolder folder;
  const std::string path = (folder / "model.safetensors").string();
  const nn::GptConfig config = Reference::get().config;
  const auto model = nn::gpt<Host, double>(config, 1);
  const auto values = read_all<double>(test_data + "gpt2_head.safetensors", config);
  nn::write_gpt2<double>(path, model.dag(), config.vocabulary,
                         [&](const std::string& name) { return values.at(name); });

  const io::SafetensorsFile written(path);
  const io::SafetensorsFile wanted(test_data + "gpt2_head.safetensors");
  EXPECT_EQ(written.metadata(), (io::Metadata{{"format", "pt"}}));
  EXPECT_EQ(written.find("lm_head.weight"), nullptr) << "it is tied to wte";
  EXPECT_EQ(written.tensors().size() + 1, wanted.tensors().size());
  for (const io::StoredTensor& tensor : written.tensors()) {
    EXPECT_EQ(tensor.dtype, "F64");
    EXPECT_EQ(tensor.shape, wanted.at(tensor.name).shape) << tensor.name;
  }
}

TEST(Gpt2File, a_model_without_biases_is_written_and_read_without) {
  const TemporaryFolder folder;
  const std::string path = (folder / "model.safetensors").string();
  nn::GptConfig config = Reference::get().config;
  config.bias = false;
  const auto model = nn::gpt<Host, float>(config, 1);
  std::map<std::string, std::vector<float>> values;
  for (const graph::Parameter& parameter : model.dag().parameters) {
    values[parameter.name] = noise<float>(parameter.spec.shape.size(), 5);
  }
  nn::write_gpt2<float>(path, model.dag(), config.vocabulary,
                        [&](const std::string& name) { return values.at(name); });
  EXPECT_FALSE(Gpt2File(path).config().bias);
  EXPECT_EQ(read_all<float>(path, config), values);
  EXPECT_THROW(nn::write_gpt2<float>(path, model.dag(), config.vocabulary,
                                     [](const std::string&) { return std::vector<float>(3); }),
               OptionError);
}

/// The hub's file with its tensors changed, written again.
class ChangedFile : public testing::Test {
protected:
  struct Tensor {
    Shape shape;
    Element element = Element::float32;
    std::vector<std::byte> bytes;
  };
  using Tensors = std::map<std::string, Tensor>;

  /// What the reader says of the file after the change; "" if it reads it.
  std::string refusal(const std::function<void(Tensors&)>& change,
                      nn::GptConfig config = Reference::get().config) {
    const io::SafetensorsFile hub(test_data + "gpt2_hub.safetensors");
    Tensors tensors;
    for (const io::StoredTensor& stored : hub.tensors()) {
      const auto& s = stored.shape;
      Tensor& tensor = tensors[stored.name];
      tensor.shape = s.size() == 1   ? Shape{s[0]}
                     : s.size() == 2 ? Shape{s[0], s[1]}
                                     : Shape{s[0], s[1], s[2], s[3]};
      tensor.bytes.resize(stored.bytes());
      hub.read(stored, tensor.bytes);
    }
    change(tensors);
    std::vector<io::NamedView> views;
    for (auto& [name, tensor] : tensors) {
      views.push_back({name, {tensor.bytes.data(), tensor.shape, tensor.element}});
    }
    io::write_safetensors(path(), views);
    int calls = 0;
    try {
      Gpt2File(path()).read<float>(nn::gpt<Host, float>(config, 1).dag(), config.vocabulary,
                                   [&](const std::string&, const std::vector<float>&) { ++calls; });
      return "";
    } catch (const DecodeError& error) {
      EXPECT_EQ(calls, 0) << "parameters were set before the file was checked";
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path()), HasSubstr("fix: ")));
      return error.what();
    }
  }

  [[nodiscard]] std::string path() const { return (folder_ / "changed.safetensors").string(); }

  static Tensor zeros(const Shape& shape, Element element = Element::float32) {
    return {shape, element, std::vector<std::byte>(AnyView(nullptr, shape, element).bytes())};
  }

private:
  TemporaryFolder folder_;
};

TEST_F(ChangedFile, is_read_where_nothing_that_matters_changed) {
  EXPECT_EQ(refusal([](Tensors&) {}), "");
  EXPECT_EQ(refusal([](Tensors& t) {
              t.erase("h.1.attn.bias");
              t.erase("h.0.attn.masked_bias");
            }),
            "");
  EXPECT_EQ(refusal([](Tensors& t) { t["lm_head.weight"] = t["wte.weight"]; }), "");
  EXPECT_EQ(refusal([](Tensors& t) {
              t["h.0.attn.bias"] = zeros({1, 1, 10, 10}, Element::uint8);
            }),
            "");
}

TEST_F(ChangedFile, is_refused_by_the_name_of_what_is_missing_or_unknown) {
  EXPECT_THAT(refusal([](Tensors& t) { t.erase("h.1.mlp.c_fc.bias"); }),
              HasSubstr("no tensor for the model's 'transformer.h.1.mlp.c_fc.bias'"));
  EXPECT_THAT(refusal([](Tensors& t) { t.erase("wte.weight"); }),
              HasSubstr("no tensor 'wte.weight' or 'transformer.wte.weight'"));
  for (const std::string name :
       {"h.2.ln_1.weight", "h.0.attn.scale", "h..attn.bias", "h.0.attn.bias2", "hx.0.attn.bias",
        "transformer.h.0.attn.bias", "score.weight", "ln_f.weight2"}) {
    EXPECT_THAT(refusal([&](Tensors& t) { t[name] = zeros({1}); }), HasSubstr("'" + name + "'"));
  }
  nn::GptConfig three = Reference::get().config;
  three.layers = 3;
  EXPECT_THAT(refusal([](Tensors&) {}, three), AllOf(HasSubstr("'transformer.h.2.ln_1.weight'"), HasSubstr("it has 2 layers, with biases")));
  nn::GptConfig one = Reference::get().config;
  one.layers = 1;
  EXPECT_THAT(refusal([](Tensors&) {}, one), AllOf(HasSubstr("no parameter for its tensor 'h.1."), HasSubstr("it has 2 layers, with biases")));
  nn::GptConfig plain = Reference::get().config;
  plain.bias = false;
  EXPECT_THAT(refusal([](Tensors&) {}, plain), HasSubstr("bias'"));
}

TEST_F(ChangedFile, with_names_of_both_kinds_is_refused) {
  EXPECT_THAT(
      refusal([](Tensors& t) { t["transformer.wte.weight"] = t["wte.weight"]; }),
      HasSubstr("'wte.weight' and 'transformer.wte.weight' are both a model's 'wte.weight'"));
  EXPECT_THAT(refusal([](Tensors& t) {
                Tensors both = t;
                for (const auto& [name, tensor] : t) both["transformer." + name] = tensor;
                t = both;
              }),
              HasSubstr("are both a model's"));
}

TEST_F(ChangedFile, is_read_with_the_names_of_a_compiled_or_wrapped_model) {
  for (const std::string prefix :
       {"_orig_mod.", "module.", "model.", "transformer.", "_orig_mod.transformer.",
        "module._orig_mod.transformer.", "_orig_mod.module.", "base_model.model.transformer."}) {
    EXPECT_EQ(refusal([&](Tensors& t) {
                Tensors renamed;
                for (const auto& [name, tensor] : t) renamed[prefix + name] = tensor;
                renamed["_orig_mod.lm_head.weight"] = t["wte.weight"];
                t = renamed;
              }),
              "")
        << prefix;
  }
  EXPECT_EQ(refusal([](Tensors& t) {
              for (const char* name : {"ln_1.weight", "attn.c_attn.bias", "attn.bias"}) {
                auto moved = t.extract(std::string("h.1.") + name);
                moved.key() = std::string("h.1._checkpoint_wrapped_module._orig_mod.") + name;
                t.insert(std::move(moved));
              }
            }),
            "")
      << "a wrapper in the middle";
}

TEST_F(ChangedFile, with_further_rows_of_wte_gives_the_first_ones) {
  const nn::GptConfig config = Reference::get().config;
  const auto rows = [](std::int64_t count) {
    return [count](Tensors& t) {
      Tensor& wte = t["wte.weight"];
      wte.shape = Shape{count, wte.shape[1]};
      const AnyView view(nullptr, wte.shape, wte.element);
      wte.bytes.resize(view.bytes(), std::byte{0xff});  // NaN, which nobody reads
    };
  };
  EXPECT_EQ(refusal(rows(64)), "");
  EXPECT_EQ(read_all<float>(path(), config),
            read_all<float>(test_data + "gpt2_hub.safetensors", config));
  EXPECT_EQ(Gpt2File(path()).config().vocabulary, 64);
  EXPECT_EQ(refusal([&](Tensors& t) {
              rows(64)(t);
              t["lm_head.weight"] = t["wte.weight"];
            }),
            "");
  EXPECT_THAT(refusal(rows(36)), HasSubstr("'wte.weight' is F32 (36, 12)")) << "too few";
  EXPECT_THAT(refusal(rows(1062)), HasSubstr("'wte.weight' is F32 (1062, 12)"))
      << "of another tokenizer";
}

TEST_F(ChangedFile, in_which_the_head_stands_for_both_is_read) {
  EXPECT_EQ(refusal([](Tensors& t) {
              auto wte = t.extract("wte.weight");
              wte.key() = "lm_head.weight";
              t.insert(std::move(wte));
            }),
            "");
  const nn::GptConfig config = Reference::get().config;
  EXPECT_EQ(read_all<float>(path(), config),
            read_all<float>(test_data + "gpt2_hub.safetensors", config));
}

TEST_F(ChangedFile, with_a_number_that_is_none_is_named_with_its_tensor_and_place) {
  const auto put = [](const std::string& name, std::size_t at, float value) {
    return [=](Tensors& t) {
      std::memcpy(t[name].bytes.data() + at * sizeof value, &value, sizeof value);
    };
  };
  EXPECT_THAT(
      refusal(put("h.1.mlp.c_fc.weight", 7, NAN)),
      HasSubstr("element 7 of tensor 'h.1.mlp.c_fc.weight', which is F32 (12, 48), is NaN"));
  EXPECT_THAT(refusal(put("ln_f.bias", 11, -INFINITY)),
              HasSubstr("element 11 of tensor 'ln_f.bias'"));
  EXPECT_THAT(
      refusal([](Tensors& t) {
        Tensor& bias = t["ln_f.bias"];
        std::vector<double> wide(12, 0);
        wide[3] = 1e300;
        bias.element = Element::float64;
        bias.bytes.assign(reinterpret_cast<std::byte*>(wide.data()),
                          reinterpret_cast<std::byte*>(wide.data() + wide.size()));
      }),
      HasSubstr("element 3 of tensor 'ln_f.bias', which is F64 (12), is NaN or infinite as"));
}

/// The hub's tensors in two files, with an index.
TEST(Gpt2File, of_several_files_is_read_by_its_index_or_folder) {
  const TemporaryFolder folder;
  const io::SafetensorsFile hub(test_data + "gpt2_hub.safetensors");
  std::vector<std::vector<std::byte>> kept;
  std::vector<std::vector<io::NamedView>> parts(2);
  io::Json map;
  for (const io::StoredTensor& stored : hub.tensors()) {
    kept.emplace_back(static_cast<std::size_t>(stored.bytes()));
    hub.read(stored, kept.back());
    const std::size_t part = kept.size() % 2;
    const auto& s = stored.shape;
    const Shape shape = s.empty()       ? Shape{}
                        : s.size() == 1 ? Shape{s[0]}
                        : s.size() == 2 ? Shape{s[0], s[1]}
                                        : Shape{s[0], s[1], s[2], s[3]};
    parts[part].push_back({stored.name, {kept.back().data(), shape, Element::float32}});
    map[stored.name] =
        part == 0 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
  }
  io::write_safetensors(folder / "model-00001-of-00002.safetensors", parts[0]);
  io::write_safetensors(folder / "model-00002-of-00002.safetensors", parts[1]);
  const auto index = folder / "model.safetensors.index.json";
  write_file(index, io::Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());

  const nn::GptConfig config = Reference::get().config;
  const auto wanted = read_all<float>(test_data + "gpt2_hub.safetensors", config);
  EXPECT_EQ(read_all<float>(index.string(), config), wanted);
  EXPECT_EQ(read_all<float>(folder.path().string(), config), wanted);
  const auto refusal = [&](const std::string& path) {
    try {
      (void)read_all<float>(path, config);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal((folder / "model-00001-of-00002.safetensors").string()), HasSubstr("-of-"));
  std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_THAT(refusal(index.string()),
              HasSubstr("its file 'model-00002-of-00002.safetensors' is not there"));
}

TEST_F(ChangedFile, is_refused_for_another_shape_or_numbers_that_are_not_real) {
  EXPECT_THAT(refusal([](Tensors& t) {
                t["h.0.attn.c_attn.weight"].shape = Shape{36, 12};
              }),
              AllOf(HasSubstr("'h.0.attn.c_attn.weight' is F32 (36, 12)"), HasSubstr("(12, 36)"),
                    HasSubstr("fix: transpose it")));
  EXPECT_THAT(refusal([](Tensors& t) {
                t["ln_f.bias"].shape = Shape{1, 12};
              }),
              HasSubstr("'ln_f.bias' is F32 (1, 12)"));
  EXPECT_THAT(refusal([](Tensors& t) { t["ln_f.bias"].element = Element::int32; }),
              HasSubstr("'ln_f.bias' is I32 (12)"));
  nn::GptConfig config = Reference::get().config;
  config.context = 9;
  EXPECT_THAT(refusal([](Tensors&) {}, config), HasSubstr("'wpe.weight' is F32 (10, 12)"));
  config = Reference::get().config;
  config.vocabulary = 38;
  EXPECT_THAT(refusal([](Tensors&) {}, config), HasSubstr("'wte.weight' is F32 (37, 12)"));
}

TEST_F(ChangedFile, with_a_head_of_its_own_is_refused) {
  const auto untied = HasSubstr("lm_head.weight is not wte.weight");
  EXPECT_THAT(refusal([](Tensors& t) {
                t["lm_head.weight"] = t["wte.weight"];
                t["lm_head.weight"].bytes.back() ^= std::byte{1};
              }),
              untied);
  EXPECT_THAT(refusal([](Tensors& t) { t["lm_head.weight"] = zeros({12, 37}); }), untied);
  EXPECT_THAT(refusal([](Tensors& t) { t["lm_head.weight"] = zeros({0, 12}); }), untied);
}

TEST(Gpt2File, a_vocabulary_that_the_model_has_not_is_an_option_error) {
  const nn::GptConfig config = Reference::get().config;
  const auto model = nn::gpt<Host, float>(config, 1);
  const Gpt2File file(test_data + "gpt2_hub.safetensors");
  for (const std::int64_t vocabulary : {std::int64_t{0}, config.vocabulary + 1}) {
    EXPECT_THROW(file.read<float>(model.dag(), vocabulary, [](const auto&, const auto&) {}),
                 OptionError);
  }
}

}  // namespace
