// The table of families, and what all of them share: the keys name and family, the kinds of data they take, the
// classifier at the end.

#include "nn/family.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "data/dataset.h"
#include "graph/passes/passes.h"
#include "nn/families.h"
#include "nn/imported.h"

namespace mlx::nn {
namespace {

enum Takes : unsigned { kImages = 1, kFeatures = 2, kTokens = 4 };

// A family builds layers, to which build() adds the classifier, or a whole graph over tokens. It has neither if the
// graph is given.
struct Family {
  const char* name;
  void (*layers)(TomlReader& model, Network& network, Json& config) = nullptr;
  unsigned takes = kImages;
  LanguageGraph (*language)(TomlReader& model, std::int64_t vocabulary, Json& config) = nullptr;
};
constexpr Family kFamilies[] = {
    {"cnn", build_cnn},
    {"mlp", build_mlp, kImages | kFeatures},
    {"mobilenet_v2", build_mobilenet_v2},
    {"resnet", build_resnet},
    {"gpt2", nullptr, kTokens, read_gpt2},
    {"llama", nullptr, kTokens, read_llama},
    {kImported, nullptr, kImages | kFeatures | kTokens},
};

unsigned bit_of(InputKind kind) {
  return kind == InputKind::kImages ? kImages : kind == InputKind::kFeatures ? kFeatures : kTokens;
}

std::string kinds(unsigned takes) {
  std::string out;
  for (const auto& [bit, name] : {std::pair{kImages, "images"}, {kFeatures, "rows of features"}, {kTokens, "text"}}) {
    if (takes & bit) out += fmt::format("{}{}", out.empty() ? "" : " or ", name);
  }
  return out;
}

const Family& read_family(TomlReader& model, const InputSpec& input) {
  const std::string name = model.one_of("family", family_names());
  const Family& family = *std::ranges::find(kFamilies, name, &Family::name);
  if (!(family.takes & bit_of(input.kind))) {
    model.fail_at("family", fmt::format("\"{}\" takes {}, the dataset holds {}", name, kinds(family.takes),
                                        kinds(bit_of(input.kind))));
  }
  return family;
}

void build_layers(const Family& family, TomlReader& model, const InputSpec& input, Json& config, Built& built) {
  Network network = start(input);
  family.layers(model, network, config);
  model.finish();
  at_key(model, model.has("layers") ? "layers" : "family", [&] { add_classifier(network, input.outputs); });
  built.graph = std::move(network.graph);
  built.zeros = std::move(network.zeros);
}

void build_language(const Family& family, TomlReader& model, const InputSpec& input, Json& config, Built& built) {
  CHECK(input.vocabulary > 0);
  LanguageGraph language = family.language(model, input.vocabulary, config);
  model.finish();
  built.graph = std::move(language.graph);
  built.context = language.context;
}

void build_given(TomlReader& model, const InputSpec& input, const graph::Graph* given, Built& built) {
  const bool text = input.kind == InputKind::kTokens;
  if (given && graph::is_encoder(*given))
    model.fail_at(model.has("init") ? "init" : "family", "an encoder gives vectors, and cannot be trained");
  const std::int64_t context = text ? model.integer("context", 1, kLongestContext) : 0;
  const std::string architecture = model.string("architecture", "");  // from the model to start from
  model.finish();
  if (!given) model.fail_at("family", fmt::format("\"{}\" needs a model to start from: init = \"NAME\"", kImported));
  at_key(model, "family", [&] { built = built_from(*given, input, context); });
  if (architecture.empty()) return;
  Json config = parse_json(built.config, "the model's config");
  config["architecture"] = architecture;
  built.config = canonical(config);
}

}  // namespace

InputSpec InputSpec::of(const data::Description& data) {
  if (data.kind->form == InputKind::kTokens) return tokens(data.outputs);
  InputSpec spec = images(data.height, data.width, data.channels, data.outputs);
  spec.kind = data.kind->form;
  spec.features = data.features;
  spec.name = data.kind->input;
  return spec;
}

bool takes(const std::string& family, InputKind input) {
  const auto* const found = std::ranges::find(kFamilies, family, &Family::name);
  return found != std::end(kFamilies) && (found->takes & bit_of(input)) != 0;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  return names;
}

kernels::Activation read_activation(TomlReader& table, Json& config) {
  const std::string name = table.one_of("activation", {"none", "relu", "relu6", "gelu"}, "relu");
  config["activation"] = name;
  if (name == "none") return kernels::Activation::kNone;
  if (name == "relu6") return kernels::Activation::kRelu6;
  return name == "relu" ? kernels::Activation::kRelu : kernels::Activation::kGelu;
}

Norm read_norm(TomlReader& table, Json& config) {
  const std::string name = table.one_of("norm", {"none", "batch"}, "none");
  config["norm"] = name;
  return name == "batch" ? Norm::kBatch : Norm::kNone;
}

double read_width(TomlReader& table, Json& config) {
  const double width = table.number("width", 0.0625, 16, 1);
  config["width"] = width;
  return width;
}

float read_rate(TomlReader& table, std::string_view key, double fallback, Json& config) {
  const double rate = table.number(key, 0, 0.99, fallback);
  config[std::string(key)] = rate;
  return static_cast<float>(rate);
}

Built build(TomlReader model, const InputSpec& input, const graph::Graph* given) {
  (void)model.string("name", "");  // read by the code that names the artifact
  (void)model.string("init", "");  // this and the next two are read by nn/finetune.h
  (void)model.strings("freeze", std::vector<std::string>{});
  (void)model.table("lora");
  const Family& family = read_family(model, input);
  Json config = Json::object();
  config["family"] = family.name;
  Built built;
  built.family = family.name;
  if (!family.layers && !family.language) {
    build_given(model, input, given, built);
    return built;
  }
  if (family.language) {
    build_language(family, model, input, config, built);
  } else {
    build_layers(family, model, input, config, built);
  }
  built.config = canonical(config);
  return built;
}

}  // namespace mlx::nn
