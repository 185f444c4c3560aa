// config.json says what the graph is, and every parameter of the graph must have its tensors; every tensor a parameter.

#include "nn/hugging_face.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "graph/session/not_finite.h"
#include "kernels/half.h"
#include "nn/config_keys.h"
#include "nn/decoder_graph.h"
#include "nn/encoder_graph.h"
#include "nn/imported.h"
#include "nn/model_json.h"
#include "nn/outside_tensors.h"
#include "nn/sentence_transformers.h"
#include "nn/vocabulary_files.h"

namespace mlx::nn {
namespace {

using kernels::DType;
using Outside = OutsideTensors::Tensor;

constexpr std::size_t kLongestConfig = std::size_t{4} << 20, kLongestTokenizer = std::size_t{64} << 20;
constexpr const char* kEmbeddingHead = "lm_head.weight";

std::optional<std::string> text_of(const std::string& folder, const std::string& name, std::size_t most) {
  if (!path_exists(join_path(folder, name))) return {};
  const Bytes bytes = read_regular_file(file_inside(folder, name), most);
  return std::string(as_text(bytes));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

DType type_of(const std::string& name, const Outside& tensor) {
  if (tensor.dtype == "F32") return DType::kF32;
  if (tensor.dtype == "F16") return DType::kF16;
  if (tensor.dtype == "BF16") return DType::kBF16;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: the tensor '{}' is {}, which is not supported", tensor.place, printable(name),
                          printable(tensor.dtype)),
              "supported: F32, F16, BF16");
}

const Outside& part_of(const OutsideTensors& outside, const ParameterSource::Part& part, const std::string& folder) {
  const auto found = outside.tensors.find(part.name);
  if (found == outside.tensors.end())
    fail(ErrorKind::kCorrupt, "{}: the tensor '{}' {} is missing", printable(folder), part.name,
         shape_text(part.shape));
  if (found->second.shape != part.shape) {
    fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is {}, {} says {}", found->second.place, part.name,
         shape_text(found->second.shape), kConfigFile, shape_text(part.shape));
  }
  return found->second;
}

// The shape of a parameter as it is stored: that of the graph, in the type that its parts have.
kernels::Shape stored_shape(const graph::Value& parameter, const ParameterSource& source, const OutsideTensors& outside,
                            const std::string& folder) {
  kernels::Shape shape = graph::concrete(parameter, {});
  for (const ParameterSource::Part& part : source.parts) {
    const Outside& tensor = part_of(outside, part, folder);
    const DType type = type_of(part.name, tensor);
    if (&part != &source.parts.front() && type != shape.dtype) {
      fail(ErrorKind::kUsage, "{}: the tensor '{}' is {}, '{}' is not: they are one layer here and must be of one type",
           tensor.place, part.name, tensor.dtype, source.parts.front().name);
    }
    shape.dtype = type;
  }
  if (source.plus_one) shape.dtype = DType::kF32;
  return shape;
}

// [in, out] becomes [out, in].
template <typename Element>
void transpose(const std::uint8_t* from, std::uint8_t* to, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kTile = 32;
  for (std::size_t tile = 0; tile < columns; tile += kTile)
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = tile; i < std::min(tile + kTile, columns); ++i)
        std::memcpy(to + (i * rows + row) * sizeof(Element), from + (row * columns + i) * sizeof(Element),
                    sizeof(Element));
}

// 1 more than each number, in f32.
Bytes one_more(const std::string& name, const Outside& tensor) {
  const auto count = static_cast<std::size_t>(tensor.shape.at(0));
  Bytes out(count * sizeof(float));
  const auto number = [&, type = type_of(name, tensor)](std::size_t i) {
    const std::uint8_t* const at = tensor.bytes.data() + i * kernels::size_of(type);
    if (type == DType::kF32) return std::bit_cast<float>(load_little_endian<std::uint32_t>(at));
    const auto bits = load_little_endian<std::uint16_t>(at);
    return type == DType::kF16 ? kernels::widen(kernels::F16{bits}) : kernels::widen(kernels::BF16{bits});
  };
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = 1 + number(i);
    std::memcpy(out.data() + i * sizeof sum, &sum, sizeof sum);
  }
  return out;
}

Bytes make_parameter(const ParameterSource& source, std::size_t size, const OutsideTensors& outside) {
  if (source.plus_one) return one_more(source.parts.at(0).name, outside.tensors.at(source.parts.at(0).name));
  Bytes made;
  for (const ParameterSource::Part& part : source.parts) {
    const Outside& tensor = outside.tensors.at(part.name);
    const std::size_t skipped = source.first_row == 0
                                    ? 0
                                    : static_cast<std::size_t>(source.first_row) *
                                          (tensor.bytes.size() / static_cast<std::size_t>(part.shape[0]));
    made.insert(made.end(), tensor.bytes.begin() + static_cast<std::ptrdiff_t>(skipped), tensor.bytes.end());
  }
  made.resize(size);
  if (!source.transposed) return made;
  Bytes turned(made.size());
  const auto rows = static_cast<std::size_t>(source.parts.at(0).shape[0]),
             columns = static_cast<std::size_t>(source.parts.at(0).shape[1]);
  if (made.size() == rows * columns * sizeof(float)) {
    transpose<float>(made.data(), turned.data(), rows, columns);
  } else {
    transpose<std::uint16_t>(made.data(), turned.data(), rows, columns);
  }
  return turned;
}

// What config.json says of the model, and the graph that follows.
struct Described {
  std::string architecture;
  std::int64_t vocabulary = 0, context = 0;
  bool tie = false;                        // the final layer shares the embedding's weights
  std::vector<std::string> other_parts{};  // beginnings of the names of tensors that the graph has no use for
  std::optional<SentencePooling> pooling{};
  std::shared_ptr<const OutsideTensors> tensors{};
  OutsideGraph outside{};
};

// Whether the graph has no use for a tensor: the heads of an encoder; buffers that the formulas of a layer give, which
// old folders hold all the same.
bool is_left_out(std::string_view name, const Described& model) {
  for (const char* const end : {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"})
    if (name.ends_with(end)) return true;
  if (model.other_parts.empty()) return false;
  for (const char* const end : {"embeddings.position_ids", "embeddings.token_type_ids"})
    if (name.ends_with(end)) return true;
  return std::ranges::any_of(model.other_parts, [&](const std::string& part) {
    return name.starts_with(part) || name.find("." + part) != std::string_view::npos;
  });
}

// A tensor that nothing reads means that the model is another one than the graph.
void check_all_used(const Described& model, const OutsideTensors& outside) {
  std::set<std::string_view> used;
  for (const auto& [name, source] : model.outside.sources)
    for (const ParameterSource::Part& part : source.parts) used.insert(part.name);
  for (const auto& [name, tensor] : outside.tensors) {
    if (used.contains(name) || is_left_out(name, model)) continue;
    if (model.tie && name == kEmbeddingHead) {
      const Outside& table = outside.tensors.at(model.outside.sources.at("tokens.weight").parts.at(0).name);
      if (tensor.shape == table.shape && tensor.dtype == table.dtype && std::ranges::equal(tensor.bytes, table.bytes))
        continue;
      fail(ErrorKind::kCorrupt, "{}: '{}' is not the embedding, but {} ties them", tensor.place, name, kConfigFile);
    }
    fail(ErrorKind::kUsage, "{}: {} has no tensor '{}'", tensor.place, model.architecture, printable(name));
  }
}

LateTensors weights_of(const OutsideGraph& graph, std::shared_ptr<const OutsideTensors> outside,
                       const std::string& folder) {
  LateTensors late;
  for (const graph::Value& value : graph.graph.values) {
    if (value.role == graph::Role::kParameter)
      late.shapes[value.name] = stored_shape(value, graph.sources.at(value.name), *outside, folder);
  }
  late.make = [sources = graph.sources, shapes = late.shapes, outside = std::move(outside)](const std::string& name) {
    return make_parameter(sources.at(name), shapes.at(name).bytes(), *outside);
  };
  return late;
}

std::shared_ptr<const data::Tokenizer> read_tokenizer(const std::string& text, const std::string& what,
                                                      const Described& model) {
  auto tokenizer = std::make_shared<const data::Tokenizer>(data::Tokenizer::from_file(text, what));
  if (tokenizer->size() > model.vocabulary)
    fail(ErrorKind::kCorrupt, "{}: {} tokens, {} says {}", what, tokenizer->size(), kConfigFile, model.vocabulary);
  return tokenizer;
}

std::shared_ptr<const data::Tokenizer> tokenizer_of(const std::string& folder, const Described& model) {
  const auto read = [&](const std::string& name) { return text_of(folder, name, kLongestTokenizer); };
  for (const char* const name : kTokenizerFiles)
    if (const std::optional<std::string> text = read(name))
      return read_tokenizer(*text, printable(join_path(folder, name)), model);
  const std::optional<std::string> made = tokenizer_of_vocabulary_files(read, model.architecture, folder);
  return made ? read_tokenizer(*made, printable(folder) + ": the vocabulary", model) : nullptr;
}

std::string prefix_of(const DecoderConfig& config, const OutsideTensors& outside) {
  if (!config.gpt2) return "model.";
  return outside.tensors.contains("wte.weight") ? "" : "transformer.";
}

std::vector<std::string> not_finite_of(const OutsideTensors& outside, const Described& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : outside.tensors)
    if (!is_left_out(name, model) && !graph::all_finite(tensor.bytes, type_of(name, tensor))) names.push_back(name);
  return names;
}

std::shared_ptr<const OutsideTensors> tensors_of(const std::string& folder) {
  return std::make_shared<const OutsideTensors>(open_outside_tensors(folder));
}

Described described_decoder(const std::string& text, std::int64_t context, const std::string& folder,
                            const std::string& what) {
  const DecoderConfig config = read_decoder_config(text, context, what);
  Described out{config.architecture, config.vocabulary, config.context, config.tie, {}, {}, tensors_of(folder), {}};
  out.outside = build_decoder(config, prefix_of(config, *out.tensors));
  return out;
}

Described described_encoder(const std::string& text, std::int64_t context, const std::string& folder,
                            const std::string& what) {
  EncoderConfig config = read_encoder_config(text, context, what);
  const std::optional<SentencePooling> pooling = read_sentence_pooling(folder);
  if (context == 0 && pooling && pooling->longest > 0) config.context = std::min(config.context, pooling->longest);
  Described out{config.architecture, config.vocabulary, config.context,     false,
                config.other_parts,  pooling,           tensors_of(folder), {}};
  const bool bare = out.tensors->tensors.contains("embeddings.word_embeddings.weight");
  out.outside = build_encoder(config, bare ? "" : config.prefix);
  return out;
}

// The architecture's name, which must be a known one.
std::string known_architecture(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, json.type_name());
  const ConfigKeys keys{json, what};
  std::string name = architecture_named_by(keys);
  std::vector<std::string> known = decoder_architectures(), encoders = encoder_architectures();
  known.insert(known.end(), encoders.begin(), encoders.end());
  if (std::ranges::find(known, name) == known.end()) refuse_architecture(keys, name, known);
  return name;
}

Described describe(const std::string& text, std::int64_t context, const std::string& folder, const std::string& what) {
  const std::vector<std::string> encoders = encoder_architectures();
  const bool encoder = std::ranges::find(encoders, known_architecture(text, what)) != encoders.end();
  return encoder ? described_encoder(text, context, folder, what) : described_decoder(text, context, folder, what);
}

std::string config_of(const Described& model) {
  Json config{{"family", kImported}, {"context", model.context}, {"architecture", model.architecture}};
  if (model.pooling) config["pooling"] = model.pooling->pooling, config["normalize"] = model.pooling->normalize;
  return canonical(config);
}

}  // namespace

bool is_hugging_face_folder(const std::string& folder) {
  return is_folder(folder) && path_exists(join_path(folder, kConfigFile));
}

OutsideModel read_hugging_face(const std::string& folder, std::int64_t context) {
  const std::string what = printable(join_path(folder, kConfigFile));
  const std::optional<std::string> text = text_of(folder, kConfigFile, kLongestConfig);
  if (!text) fail(ErrorKind::kNotFound, "{}: there is no such file", what);
  Described model = describe(*text, context, folder, what);
  OutsideModel out;
  out.weights = weights_of(model.outside, model.tensors, folder);
  check_all_used(model, *model.tensors);
  out.tensors = model.tensors->tensors.size();
  out.not_finite = not_finite_of(*model.tensors, model);
  out.model.family = kImported;
  out.model.config = config_of(model);
  out.model.preprocessing.tokenizer = tokenizer_of(folder, model);
  out.model.graph = std::move(model.outside.graph);
  for (const char* const name : kKeptFiles)
    if (std::optional<std::string> kept = text_of(folder, name, kLongestConfig)) out.model.kept[name] = *kept;
  return out;
}

}  // namespace mlx::nn
