// The table of families, and what all of them share: name and family keys, the classifier at the end.

#include "nn/family.h"

#include "base/json.h"
#include "nn/families.h"

namespace mlx::nn {
namespace {

struct Family {
  const char* name;
  void (*build)(TomlReader& model, Network& network, Json& config);
};
constexpr Family kFamilies[] = {
    {"cnn", build_cnn},
    {"mlp", build_mlp},
};

}  // namespace

kernels::Activation read_activation(TomlReader& table, Json& config) {
  const std::string name = table.one_of("activation", {"none", "relu", "gelu"}, "relu");
  config["activation"] = name;
  if (name == "none") return kernels::Activation::kNone;
  return name == "relu" ? kernels::Activation::kRelu : kernels::Activation::kGelu;
}

Norm read_norm(TomlReader& table, Json& config) {
  const std::string name = table.one_of("norm", {"none", "batch"}, "none");
  config["norm"] = name;
  return name == "batch" ? Norm::kBatch : Norm::kNone;
}

Built build(TomlReader model, const InputSpec& input) {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  (void)model.string("name", "");  // read by whoever names the artifact
  const std::string name = model.one_of("family", names);

  Json config = Json::object();
  config["family"] = name;
  Network network = start(input);
  for (const Family& family : kFamilies) {
    if (family.name == name) family.build(model, network, config);
  }
  model.finish();
  at_key(model, model.has("layers") ? "layers" : "family", [&] { add_classifier(network, input.classes); });
  return {name, canonical(config), std::move(network.graph)};
}

}  // namespace mlx::nn
