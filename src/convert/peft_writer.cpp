// An adapter of a layer that is several layers there is one for each of them: A is that of all, B has rows for each.

#include "convert/peft_writer.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "convert/safetensors_file.h"
#include "graph/passes/passes.h"
#include "nn/finetune.h"

namespace mlx::convert {
namespace {

using kernels::DType;

constexpr std::string_view kWeight = ".weight";

struct Adapter {
  std::string layer;  // "model.layers.0.self_attn.q_proj"
  std::shared_ptr<const graph::Weight> a, b;
  std::int64_t row = 0, rows = 0;  // of b
};

std::vector<Adapter> adapters_of(const nn::Model& model, const Decoder& decoder) {
  const auto& all = model.weights->all();
  std::vector<Adapter> out;
  for (const Part& part : decoder.parts) {
    const auto a = all.find(part.parameter + graph::kLoraA), b = all.find(part.parameter + graph::kLoraB);
    if (a == all.end() || b == all.end()) continue;
    CHECK(part.name.ends_with(kWeight));
    out.push_back(
        {part.name.substr(0, part.name.size() - kWeight.size()), a->second, b->second, part.row, part.rows()});
  }
  return out;
}

Bytes rows_of_weight(const graph::Weight& weight, std::int64_t first, std::int64_t rows) {
  const std::int64_t row = weight.shape().dims[1] * static_cast<std::int64_t>(kernels::size_of(weight.shape().dtype));
  const ByteView bytes =
      weight.data().subspan(static_cast<std::size_t>(first * row), static_cast<std::size_t>(rows * row));
  return {bytes.begin(), bytes.end()};
}

std::vector<OutsideTensor> tensors_of(const std::vector<Adapter>& adapters) {
  std::vector<OutsideTensor> out;
  for (const Adapter& each : adapters) {
    const std::string name = "base_model.model." + each.layer;
    const std::int64_t rank = each.a->shape().dims[0], width = each.a->shape().dims[1];
    out.push_back({name + ".lora_A.weight", {rank, width}, each.a->shape().dtype, [each, rank] {
                     return rows_of_weight(*each.a, 0, rank);
                   }});
    out.push_back({name + ".lora_B.weight", {each.rows, rank}, each.b->shape().dtype, [each] {
                     return rows_of_weight(*each.b, each.row, each.rows);
                   }});
  }
  return out;
}

// "q_proj" of "model.layers.0.self_attn.q_proj": enough to be found, but for GPT-2's two layers of one name.
std::string end_of(const std::string& layer) {
  std::size_t dot = layer.rfind('.');
  if (layer.ends_with(".c_proj")) dot = layer.rfind('.', dot - 1);
  return layer.substr(dot + 1);
}

// Ends of names where all blocks have the adapter, else whole names.
std::set<std::string> target_modules(const std::vector<Adapter>& adapters, std::int64_t blocks) {
  std::map<std::string, std::int64_t> counts;
  for (const Adapter& each : adapters) ++counts[end_of(each.layer)];
  std::set<std::string> out;
  for (const Adapter& each : adapters) {
    const std::string end = end_of(each.layer);
    out.insert(counts[end] == blocks ? end : each.layer);
  }
  return out;
}

Json number_of(double x) {
  return x == std::floor(x) ? Json(static_cast<std::int64_t>(x)) : Json(x);
}

std::string adapter_config(const nn::Model& model, const std::vector<Adapter>& adapters, const Decoder& decoder,
                           const std::string& base) {
  const Json config = parse_json(model.config, "the model's config");
  const Json& lora = json_object(config, "lora", "the model's config");
  const Json out = {{"peft_type", "LORA"},
                    {"task_type", "CAUSAL_LM"},
                    {"base_model_name_or_path", base.empty() ? Json(nullptr) : Json(base)},
                    {"r", json_int(lora, "rank", "lora")},
                    {"lora_alpha", number_of(json_number(lora, "alpha", "lora"))},
                    {"lora_dropout", json_number(lora, "dropout", "lora")},
                    {"target_modules", target_modules(adapters, decoder.config.layers)},
                    {"fan_in_fan_out", decoder.config.gpt2},
                    {"bias", "none"},
                    {"modules_to_save", nullptr},
                    {"use_rslora", false},
                    {"inference_mode", true}};
  return out.dump(2) + "\n";
}

}  // namespace

WrittenModel peft_folder(const nn::Model& model, const WriteOptions& options, const std::string& name) {
  if (!nn::has_adapters(model))
    throw Error(ErrorKind::kUsage, fmt::format("{} has no adapters", name),
                "`lora` in the config of `mlx train` makes some; --format hf writes whole models");
  const Decoder decoder = decoder_of(nn::without_adapters(model), "transformer.", name);
  const std::vector<Adapter> adapters = adapters_of(model, decoder);
  std::vector<OutsideTensor> tensors = tensors_of(adapters);
  WrittenModel out;
  out.architecture = decoder.config.architecture;
  out.tensors = tensors.size();
  out.files.push_back(text_file("adapter_config.json", adapter_config(model, adapters, decoder, options.base)));
  out.files.push_back(safetensors_file("adapter_model.safetensors", std::move(tensors)));
  return out;
}

}  // namespace mlx::convert
