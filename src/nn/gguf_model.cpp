// The metadata say what the graph is, and every parameter of it must have its tensors; every tensor a parameter. A
// linear layer whose tensors are integers in groups becomes one of that kind.

#include "nn/gguf_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "graph/passes/passes.h"
#include "graph/session/not_finite.h"
#include "nn/decoder_graph.h"
#include "nn/gguf_config.h"
#include "nn/gguf_keys.h"
#include "nn/gguf_tensors.h"
#include "nn/gguf_tokenizer.h"
#include "nn/imported.h"
#include "nn/model.h"
#include "nn/model_json.h"

namespace mlx::nn {
namespace {

using graph::Graph;
using graph::Op;
using kernels::DType;
using GgufTensor = GgufTensors::Tensor;

constexpr const char* kRopeFactors = "rope_freqs.weight";
constexpr std::int64_t kGroup = 32;  // numbers of a block of all types in groups

// A tensor, and how its rows stand in the file.
struct Piece {
  GgufTensor tensor;
  std::int64_t heads =
      0;  // rows of each head are in pairs, one of the first half and one of the second; 0: they are not

  std::int64_t rows() const { return tensor.shape.size() > 1 || heads > 0 ? tensor.shape[0] : 1; }
  std::int64_t width() const { return tensor.shape.size() > 1 ? tensor.shape[1] : heads > 0 ? 1 : tensor.shape[0]; }
  ByteView row(std::int64_t row) const {
    if (heads > 0) {
      const std::int64_t size = rows() / heads, in_head = row % size;
      row += 2 * (in_head % (size / 2)) + in_head / (size / 2) - in_head;
    }
    const std::int64_t bytes = width() / tensor.type->elements * tensor.type->bytes;
    return tensor.bytes.subspan(static_cast<std::size_t>(row * bytes), static_cast<std::size_t>(bytes));
  }
};

// What a parameter is made of: the pieces' numbers, or of those in groups their integers or their scales, or their
// blocks.
struct Recipe {
  enum class What : std::uint8_t { kNumbers, kIntegers, kScales, kBlocks } what = What::kNumbers;
  std::vector<Piece> pieces;
  kernels::Shape shape{};
};
using Recipes = std::map<std::string, Recipe>;

// A form for all pieces of a layer: theirs, blocks if none are floats, or f32.
GgufForm form_of(const std::vector<Piece>& pieces) {
  const auto same = [&](const Piece& piece) { return piece.tensor.type == pieces[0].tensor.type; };
  if (std::ranges::all_of(pieces, same)) return pieces[0].tensor.type->form;
  const auto floats = [](const Piece& piece) { return piece.tensor.type->form == GgufForm::kFloat; };
  return std::ranges::none_of(pieces, floats) ? GgufForm::kBlocks : GgufForm::kExpanded;
}

void put_row(const Piece& piece, std::int64_t row, DType dtype, std::uint8_t* to) {
  const ByteView bytes = piece.row(row);
  if (dtype == DType::kF32 && piece.tensor.type->number != 0) {
    std::vector<float> numbers(static_cast<std::size_t>(piece.width()));
    expand_blocks(*piece.tensor.type, bytes, numbers.data());
    std::memcpy(to, numbers.data(), numbers.size() * sizeof(float));
  } else {
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

Bytes numbers_of(const Recipe& recipe) {
  std::size_t size = 0;
  const std::size_t element = kernels::size_of(recipe.shape.dtype);
  for (const Piece& piece : recipe.pieces) size += static_cast<std::size_t>(piece.rows() * piece.width()) * element;
  Bytes out(size);
  std::uint8_t* to = out.data();
  for (const Piece& piece : recipe.pieces)
    for (std::int64_t row = 0; row < piece.rows(); ++row, to += static_cast<std::size_t>(piece.width()) * element)
      put_row(piece, row, recipe.shape.dtype, to);
  out.resize(recipe.shape.bytes());  // the first rows of a table of positions
  return out;
}

// Calls take(row, group, scale's bits, integers) for all blocks of all pieces, rows counted through.
template <typename Take>
void each_group(const Recipe& recipe, Take take) {
  std::int64_t at = 0;
  std::int8_t integers[kGroup];
  for (const Piece& piece : recipe.pieces)
    for (std::int64_t row = 0; row < piece.rows(); ++row, ++at) {
      const std::uint8_t* block = piece.row(row).data();
      for (std::int64_t group = 0; group < piece.width() / kGroup; ++group, block += piece.tensor.type->bytes) {
        const std::uint16_t scale = integers_of_block(*piece.tensor.type, block, integers);
        take(at, group, scale, integers);
      }
    }
}

Bytes integers_of(const Recipe& recipe, const std::string& name, const std::string& place) {
  constexpr std::int8_t kLeast = -127;
  Bytes out(recipe.shape.bytes());
  const bool four = recipe.shape.dtype == DType::kU8;
  const std::int64_t row_bytes = recipe.shape.dims[1];
  each_group(recipe, [&](std::int64_t row, std::int64_t group, std::uint16_t, const std::int8_t* integers) {
    std::uint8_t* const to = out.data() + row * row_bytes + group * (four ? kGroup / 2 : kGroup);
    if (!four) {
      if (std::any_of(integers, integers + kGroup, [](std::int8_t x) { return x < kLeast; }))
        fail(ErrorKind::kUsage, "{}: '{}' holds the integer -128, expected -127 to 127", place, name);
      std::memcpy(to, integers, kGroup);
      return;
    }
    for (std::int64_t i = 0; i < kGroup / 2; ++i)
      to[i] = static_cast<std::uint8_t>((integers[2 * i] + 8) | (integers[2 * i + 1] + 8) << 4);
  });
  return out;
}

Bytes blocks_of(const Recipe& recipe) {
  Bytes out;
  out.reserve(recipe.shape.bytes());
  for (const Piece& piece : recipe.pieces)
    for (std::int64_t row = 0; row < piece.rows(); ++row) {
      const ByteView bytes = piece.row(row);
      out.insert(out.end(), bytes.begin(), bytes.end());
    }
  return out;
}

Bytes scales_of(const Recipe& recipe) {
  Bytes out(recipe.shape.bytes());
  const std::int64_t rows = recipe.shape.dims[1];
  each_group(recipe, [&](std::int64_t row, std::int64_t group, std::uint16_t scale, const std::int8_t*) {
    std::memcpy(out.data() + (group * rows + row) * static_cast<std::int64_t>(sizeof scale), &scale, sizeof scale);
  });
  return out;
}

// llama.cpp turns pairs of neighbours in models that it calls llama, so that queries and keys have their rows paired.
std::int64_t paired_heads(const DecoderConfig& config, const std::string& name) {
  if (gguf_architecture(config.architecture) != std::string_view("llama")) return 0;
  if (name.find(".q_proj.") != std::string::npos) return config.heads;
  return name.find(".k_proj.") != std::string::npos ? config.kv_heads : 0;
}

std::vector<Piece> pieces_of(const ParameterSource& source, const DecoderConfig& config, const GgufTensors& file) {
  std::vector<Piece> out;  // norms have the 1 of `plus_one` in them already
  for (const ParameterSource::Part& part : source.parts) {
    const std::string name = gguf_tensor_name(part.name, config);
    std::vector<std::int64_t> shape = part.shape;
    if (source.transposed) std::ranges::reverse(shape);  // as it is in a folder; files have a row for each output
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end())
      fail(ErrorKind::kCorrupt, "{}: the tensor '{}' [{}] is missing", file.place, name, fmt::join(shape, ","));
    if (found->second.shape != shape) {
      fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is [{}], the metadata say [{}]", file.place, name,
           fmt::join(found->second.shape, ","), fmt::join(shape, ","));
    }
    out.push_back({found->second, paired_heads(config, part.name)});
  }
  return out;
}

graph::ValueId add_recipe(Graph& graph, Recipes& recipes, const std::string& name, Recipe recipe) {
  const kernels::Shape& shape = recipe.shape;
  graph::Dims dims;
  for (int i = 0; i < shape.rank; ++i) dims.push_back(graph::Dim::of(shape.dims[static_cast<std::size_t>(i)]));
  const graph::ValueId id = graph.parameter(name, dims, shape.dtype);
  recipes[name] = std::move(recipe);
  return id;
}

kernels::Shape matrix_shape(DType dtype, std::int64_t rows, std::int64_t columns) {
  kernels::Shape shape;
  shape.dtype = dtype, shape.rank = 2;
  shape.dims[0] = rows, shape.dims[1] = columns;
  return shape;
}

// Gives node `at`, a linear layer, weights in groups. Its inputs may be changed, as nothing refers to nodes.
void use_groups(Graph& graph, std::size_t at, std::vector<Piece> pieces, GgufForm form, Recipes& recipes) {
  const std::string name = graph.nodes[at].name + ".groups";
  const std::int64_t k = pieces[0].width(), groups = k / kGroup;
  std::int64_t n = 0;
  for (const Piece& piece : pieces) n += piece.rows();
  const bool four = form == GgufForm::kFour;
  const graph::ValueId scales = add_recipe(graph, recipes, name + ".scales",
                                           {Recipe::What::kScales, pieces, matrix_shape(DType::kF16, groups, n)});
  const graph::ValueId weights =
      add_recipe(graph, recipes, name,
                 {Recipe::What::kIntegers, std::move(pieces),
                  four ? matrix_shape(DType::kU8, n, k / 2) : matrix_shape(DType::kS8, n, k)});
  graph::Node& node = graph.nodes[at];
  node.op = Op::kLinearGroups;
  std::vector<graph::ValueId> inputs{node.inputs[0], weights, scales};
  if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
  node.inputs = std::move(inputs);
}

// Gives node `at`, a linear layer or an embedding, weights in blocks. A head that shares the embedding's weights shares
// their blocks.
void use_blocks(Graph& graph, std::size_t at, std::vector<Piece> pieces, Recipes& recipes) {
  const std::string name = graph.value(graph.nodes[at].inputs[1]).name + kBlocksSuffix;
  graph::Attrs attrs;
  kernels::Shape shape;
  shape.dtype = DType::kU8, shape.rank = 1;
  for (const Piece& piece : pieces) {
    attrs.blocks.at[static_cast<std::size_t>(attrs.blocks.count++)] = piece.tensor.type->number;
    attrs.block_rows.at[static_cast<std::size_t>(attrs.block_rows.count++)] = piece.rows();
    shape.dims[0] += piece.rows() * piece.tensor.row_bytes();
  }
  graph::ValueId weights = graph.find(name);
  if (weights == graph::kNone)
    weights = add_recipe(graph, recipes, name, {Recipe::What::kBlocks, std::move(pieces), shape});
  graph::Node& node = graph.nodes[at];
  node.op = node.op == Op::kLinear ? Op::kLinearBlocks : Op::kEmbeddingBlocks;
  node.attrs = attrs;
  node.inputs[1] = weights;
}

// The recipes of all parameters. Layers of integers in groups or blocks are replaced in the graph.
Recipes recipes_of(OutsideGraph& decoder, const DecoderConfig& config, const GgufTensors& file) {
  Recipes recipes;
  Graph& graph = decoder.graph;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const bool linear = graph.nodes[i].op == Op::kLinear;
    if (!linear && graph.nodes[i].op != Op::kEmbedding) continue;
    std::vector<Piece> pieces = pieces_of(decoder.sources.at(graph.value(graph.nodes[i].inputs[1]).name), config, file);
    const GgufForm form = form_of(pieces);
    if (form == GgufForm::kFloat || form == GgufForm::kExpanded) continue;
    const bool tied = graph.find(graph.value(graph.nodes[i].inputs[1]).name + kBlocksSuffix) != graph::kNone;
    if (form == GgufForm::kBlocks || !linear || tied)
      use_blocks(graph, i, std::move(pieces), recipes);
    else
      use_groups(graph, i, std::move(pieces), form, recipes);
  }
  graph = graph::remove_dead(graph);
  for (const graph::Value& value : graph.values) {
    if (value.role != graph::Role::kParameter || recipes.contains(value.name)) continue;
    Recipe recipe{Recipe::What::kNumbers, pieces_of(decoder.sources.at(value.name), config, file),
                  graph::concrete(value, {})};
    if (form_of(recipe.pieces) == GgufForm::kFloat) recipe.shape.dtype = recipe.pieces[0].tensor.type->dtype;
    recipes[value.name] = std::move(recipe);
  }
  return recipes;
}

void check_tensors_used(const OutsideGraph& decoder, const DecoderConfig& config, const GgufTensors& file) {
  std::set<std::string> used{kRopeFactors};
  for (const auto& [name, source] : decoder.sources)
    for (const ParameterSource::Part& part : source.parts) used.insert(gguf_tensor_name(part.name, config));
  for (const auto& [name, tensor] : file.tensors)
    if (!used.contains(name))
      fail(ErrorKind::kUsage, "{}: {} has no tensor '{}'", file.place, config.architecture, printable(name));
}

LateTensors late_weights_of(Recipes recipes, std::shared_ptr<const GgufTensors> file) {
  LateTensors late;
  for (const auto& [name, recipe] : recipes) late.shapes[name] = recipe.shape;
  late.make = [recipes = std::move(recipes), file = std::move(file)](const std::string& name) {
    const Recipe& recipe = recipes.at(name);
    switch (recipe.what) {
      case Recipe::What::kIntegers:
        return integers_of(recipe, name, file->place);
      case Recipe::What::kScales:
        return scales_of(recipe);
      case Recipe::What::kBlocks:
        return blocks_of(recipe);
      default:
        return numbers_of(recipe);
    }
  };
  return late;
}

GgufFacts facts_of(const GgufTensors& file) {
  constexpr const char* kEmbedding = "token_embd.weight";
  const auto embedding = file.tensors.find(kEmbedding);
  if (embedding == file.tensors.end() || embedding->second.shape.size() != 2)
    fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is missing, or no table", file.place, kEmbedding);
  GgufFacts facts{embedding->second.shape[0],
                  [&file](std::string_view name) { return file.tensors.contains(std::string(name)); },
                  {}};
  if (const auto factors = file.tensors.find(kRopeFactors); factors != file.tensors.end()) {
    if (factors->second.type->number != 0 || factors->second.shape.size() != 1)
      fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is no list in F32", file.place, kRopeFactors);
    facts.rope_factors.resize(static_cast<std::size_t>(factors->second.shape[0]));
    std::memcpy(facts.rope_factors.data(), factors->second.bytes.data(), factors->second.bytes.size());
  }
  return facts;
}

std::shared_ptr<const data::Tokenizer> inner_tokenizer_of(const GgufTensors& file, const DecoderConfig& config) {
  const std::optional<std::string> text = read_gguf_tokenizer(file.metadata, file.place);
  if (!text) return nullptr;
  auto tokenizer = std::make_shared<const data::Tokenizer>(data::Tokenizer::from_file(*text, file.place));
  if (tokenizer->size() > config.vocabulary)
    fail(ErrorKind::kCorrupt, "{}: {} tokens, the embedding has {} rows", file.place, tokenizer->size(),
         config.vocabulary);
  return tokenizer;
}

// The chat template, and the tokens around a text and behind an answer in the words of `transformers`.
void keep_chat(const GgufTensors& file, Model& model) {
  const auto chat = GgufKeys(file.metadata, "tokenizer.", file.place).string("chat_template");
  if (!chat) return;
  model.kept[kChatTemplateFile] = *chat;
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
  const GgufKeys keys(file.metadata, "tokenizer.ggml.", file.place);
  Json ids = Json::object();
  for (const char* const name : {"bos_token_id", "unknown_token_id"})
    if (const auto id = keys.integer(name, 0, kMostTokens))
      ids[std::string_view(name).starts_with("bos") ? "bos_token_id" : "unk_token_id"] = *id;
  Json ends = Json::array();
  for (const char* const name : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const auto id = keys.integer(name, 0, kMostTokens)) ends.push_back(*id);
  if (!ends.empty()) ids["eos_token_id"] = ends;
  if (!ids.empty()) model.kept[kGenerationFile] = canonical(ids);
}

std::vector<std::string> tensors_not_finite(const GgufTensors& file) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : file.tensors) {
    const bool numbers = tensor.type->form == GgufForm::kFloat;
    if (!(numbers ? graph::all_finite(tensor.bytes, tensor.type->dtype) : finite_scales(*tensor.type, tensor.bytes)))
      names.push_back(name);
  }
  return names;
}

}  // namespace

bool may_be_gguf_file(const std::string& path) {
  return path_exists(path) && !is_folder(path);
}

OutsideModel read_gguf(const std::string& path, std::int64_t context) {
  const auto file = std::make_shared<const GgufTensors>(open_gguf_tensors(path));
  constexpr std::int64_t kMostParts = 1 << 16;
  const GgufKeys parts(file->metadata, "split.", file->place);
  if (const std::int64_t count = parts.integer("count", 0, kMostParts).value_or(0); count > 1)
    parts.unsupported(fmt::format("a model in {} files", count),
                      "models in one file; llama.cpp's own tools merge them");
  const std::string text = read_gguf_config(file->metadata, facts_of(*file), file->place);
  const DecoderConfig config = read_decoder_config(text, context, file->place);
  OutsideGraph decoder = build_decoder(config, config.gpt2 ? "" : "model.");
  Recipes recipes = recipes_of(decoder, config, *file);
  check_tensors_used(decoder, config, *file);
  OutsideModel out;
  out.weights = late_weights_of(std::move(recipes), file);
  out.tensors = file->tensors.size();
  out.not_finite = tensors_not_finite(*file);
  out.model.family = kImported;
  out.model.config =
      canonical(Json{{"family", kImported}, {"context", config.context}, {"architecture", config.architecture}});
  out.model.precision = precision_of(decoder.graph);
  out.model.preprocessing.tokenizer = inner_tokenizer_of(*file, config);
  out.model.graph = std::move(decoder.graph);
  out.model.kept[kConfigFile] = text;
  keep_chat(*file, out.model);
  return out;
}

}  // namespace mlx::nn
