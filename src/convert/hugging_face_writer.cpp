// Files that came with the model are written as they came; what is missing is made.

#include "convert/hugging_face_writer.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "convert/decoder_config_json.h"
#include "convert/safetensors_file.h"
#include "nn/finetune.h"
#include "nn/kept_files.h"
#include "nn/letters_tokenizer.h"
#include "nn/model_json.h"

namespace mlx::convert {
namespace {

using kernels::DType;

const char* torch_type(DType dtype) {
  return dtype == DType::kF32 ? "float32" : dtype == DType::kF16 ? "float16" : "bfloat16";
}

// Shards as full as they may be, in the order of the tensors; one that is larger than a shard has its own.
std::vector<std::vector<OutsideTensor>> sharded(std::vector<OutsideTensor> tensors, std::uint64_t most) {
  std::vector<std::vector<OutsideTensor>> shards(1);
  std::uint64_t size = 0;
  for (OutsideTensor& tensor : tensors) {
    if (!shards.back().empty() && size + tensor.bytes() > most) shards.emplace_back(), size = 0;
    size += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

void add_weights(std::vector<OutsideTensor> tensors, std::uint64_t most, std::vector<OutsideFile>& files) {
  std::vector<std::vector<OutsideTensor>> shards = sharded(std::move(tensors), most);
  if (shards.size() == 1) return files.push_back(safetensors_file("model.safetensors", std::move(shards[0])));
  std::map<std::string, std::string> places;
  std::uint64_t bytes = 0, numbers = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const OutsideTensor& tensor : shards[i]) {
      places[tensor.name] = name;
      bytes += tensor.bytes(), numbers += tensor.bytes() / kernels::size_of(tensor.dtype);
    }
    files.push_back(safetensors_file(name, std::move(shards[i])));
  }
  const Json index = {{"metadata", {{"total_parameters", numbers}, {"total_size", bytes}}}, {"weight_map", places}};
  files.push_back(text_file("model.safetensors.index.json", index.dump(2) + "\n"));
}

// For tokenizers that have none of their own too.
std::string tokenizer_json_of(const data::Tokenizer& tokenizer) {
  const bool bytes = tokenizer.kind() == "bytes";
  if (!bytes && tokenizer.kind() != "chars") return tokenizer.file();
  std::vector<std::string> letters;
  letters.reserve(static_cast<std::size_t>(tokenizer.size()));
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) letters.emplace_back(tokenizer.piece(id));
  return canonical(nn::letters_tokenizer(letters, bytes)) + "\n";
}

std::string tokenizer_config(const nn::Model& model, bool sentencepiece) {
  Json config = {{"tokenizer_class", sentencepiece ? "LlamaTokenizer" : "PreTrainedTokenizerFast"},
                 {"clean_up_tokenization_spaces", false},
                 {"model_max_length", context_of(model)}};
  for (const auto& [name, text] : nn::token_names(model)) config[name] = text;
  return config.dump(2) + "\n";
}

void add_tokenizer(const nn::Model& model, std::vector<OutsideFile>& files) {
  const auto& tokenizer = model.preprocessing.tokenizer;
  if (!tokenizer) return;
  const std::string name = tokenizer->file_name();
  files.push_back(text_file(name, name == nn::kTokenizerFiles[0] ? tokenizer_json_of(*tokenizer) : tokenizer->file()));
  if (!model.kept.contains(nn::kTokenizerConfigFile))
    files.push_back(text_file(nn::kTokenizerConfigFile, tokenizer_config(model, name != nn::kTokenizerFiles[0])));
}

// The tokens at the ends of texts, which else follow from the config.
void add_generation(const nn::Model& model, const std::string& config, std::vector<OutsideFile>& files) {
  if (model.kept.contains(nn::kGenerationFile)) return;
  const Json known = parse_json(config, nn::kConfigFile);
  Json generation = {{"_from_model_config", true}};
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (known.contains(key) && !known[key].is_null()) generation[key] = known[key];
  files.push_back(text_file(nn::kGenerationFile, generation.dump(2) + "\n"));
}

void refuse_integers(const std::vector<Part>& parts, const std::string& name, const std::string& precision) {
  std::uint64_t bytes = 0;
  for (const Part& part : parts) bytes += part.bytes(DType::kF32);
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{} is {} in groups, which a Hugging Face folder has no form for", name, precision),
      fmt::format("--dtype f32 writes the numbers that the integers stand for without a loss ({}), bf16 and f16 "
                  "round them; --format gguf keeps the integers",
                  format_bytes(bytes)));
}

}  // namespace

WrittenModel hugging_face_folder(const nn::Model& with_adapters, const WriteOptions& options, const std::string& name) {
  const nn::Model model = nn::merged(with_adapters);
  Decoder decoder = decoder_of(model, "transformer.", name);
  const auto grouped = [](const Part& part) { return part.scales || part.blocks; };
  if (!options.dtype && std::ranges::any_of(decoder.parts, grouped))
    refuse_integers(decoder.parts, name, model.precision);
  const DType usual = options.dtype.value_or(own_type(decoder.parts.at(0), DType::kF32));  // the embedding's
  std::vector<OutsideTensor> tensors;
  for (const Part& part : decoder.parts) {
    const DType dtype = options.dtype.value_or(own_type(part, usual));
    tensors.push_back({part.name, part.shape, dtype, [part, dtype] { return numbers_of(part, dtype); }});
  }
  WrittenModel out;
  out.architecture = decoder.config.architecture;
  out.tensors = tensors.size();
  const std::string config = with_dtype(decoder.config_json, torch_type(usual));
  out.files.push_back(text_file(nn::kConfigFile, config));
  for (const auto& [kept, text] : model.kept)
    if (kept != nn::kConfigFile) out.files.push_back(text_file(kept, text));
  add_generation(model, config, out.files);
  add_tokenizer(model, out.files);
  add_weights(std::move(tensors), options.shard, out.files);
  return out;
}

}  // namespace mlx::convert
