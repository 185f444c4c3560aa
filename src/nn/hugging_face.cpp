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
#include "nn/decoder_graph.h"
#include "nn/imported.h"
#include "nn/model_json.h"
#include "nn/outside_tensors.h"

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
    const ByteView bytes = outside.tensors.at(part.name).bytes;
    made.insert(made.end(), bytes.begin(), bytes.end());
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

// Buffers that the formulas of a layer give, which old folders hold all the same.
bool is_derived(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

// A tensor that nothing reads means that the model is another one than the graph.
void check_all_used(const DecoderGraph& decoder, const DecoderConfig& config, const OutsideTensors& outside) {
  std::set<std::string_view> used;
  for (const auto& [name, source] : decoder.sources)
    for (const ParameterSource::Part& part : source.parts) used.insert(part.name);
  for (const auto& [name, tensor] : outside.tensors) {
    if (used.contains(name) || is_derived(name)) continue;
    if (config.tie && name == kEmbeddingHead) {
      const Outside& table = outside.tensors.at(decoder.sources.at("tokens.weight").parts.at(0).name);
      if (tensor.shape == table.shape && tensor.dtype == table.dtype && std::ranges::equal(tensor.bytes, table.bytes))
        continue;
      fail(ErrorKind::kCorrupt, "{}: '{}' is not the embedding, but {} ties them", tensor.place, name, kConfigFile);
    }
    fail(ErrorKind::kUsage, "{}: {} has no tensor '{}'", tensor.place, config.architecture, printable(name));
  }
}

LateTensors weights_of(const DecoderGraph& decoder, std::shared_ptr<const OutsideTensors> outside,
                       const std::string& folder) {
  LateTensors late;
  for (const graph::Value& value : decoder.graph.values) {
    if (value.role == graph::Role::kParameter)
      late.shapes[value.name] = stored_shape(value, decoder.sources.at(value.name), *outside, folder);
  }
  late.make = [sources = decoder.sources, shapes = late.shapes, outside = std::move(outside)](const std::string& name) {
    return make_parameter(sources.at(name), shapes.at(name).bytes(), *outside);
  };
  return late;
}

std::shared_ptr<const data::Tokenizer> tokenizer_of(const std::string& folder, const DecoderConfig& config) {
  for (const char* const name : kTokenizerFiles) {
    const std::optional<std::string> text = text_of(folder, name, kLongestTokenizer);
    if (!text) continue;
    const std::string what = printable(join_path(folder, name));
    auto tokenizer = std::make_shared<const data::Tokenizer>(data::Tokenizer::from_file(*text, what));
    if (tokenizer->size() > config.vocabulary)
      fail(ErrorKind::kCorrupt, "{}: {} tokens, {} says {}", what, tokenizer->size(), kConfigFile, config.vocabulary);
    return tokenizer;
  }
  return nullptr;
}

std::string prefix_of(const DecoderConfig& config, const OutsideTensors& outside) {
  if (!config.gpt2) return "model.";
  return outside.tensors.contains("wte.weight") ? "" : "transformer.";
}

std::vector<std::string> not_finite_of(const OutsideTensors& outside) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : outside.tensors)
    if (!is_derived(name) && !graph::all_finite(tensor.bytes, type_of(name, tensor))) names.push_back(name);
  return names;
}

}  // namespace

bool is_hugging_face_folder(const std::string& folder) {
  return is_folder(folder) && path_exists(join_path(folder, kConfigFile));
}

OutsideModel read_hugging_face(const std::string& folder, std::int64_t context) {
  const std::string what = printable(join_path(folder, kConfigFile));
  const std::optional<std::string> text = text_of(folder, kConfigFile, kLongestConfig);
  if (!text) fail(ErrorKind::kNotFound, "{}: there is no such file", what);
  const DecoderConfig config = read_decoder_config(*text, context, what);
  const auto outside = std::make_shared<const OutsideTensors>(open_outside_tensors(folder));
  DecoderGraph decoder = build_decoder(config, prefix_of(config, *outside));
  OutsideModel out;
  out.weights = weights_of(decoder, outside, folder);
  check_all_used(decoder, config, *outside);
  out.tensors = outside->tensors.size();
  out.not_finite = not_finite_of(*outside);
  out.model.family = kImported;
  out.model.config =
      canonical(Json{{"family", kImported}, {"context", config.context}, {"architecture", config.architecture}});
  out.model.preprocessing.tokenizer = tokenizer_of(folder, config);
  out.model.graph = std::move(decoder.graph);
  for (const char* const name : kKeptFiles)
    if (std::optional<std::string> kept = text_of(folder, name, kLongestConfig)) out.model.kept[name] = *kept;
  return out;
}

}  // namespace mlx::nn
