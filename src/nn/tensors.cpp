// Tensors to and from a safetensors file: implements encode_tensors and decode_tensors of nn/model.h.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "formats/safetensors.h"
#include "nn/model.h"

namespace mlx::nn {
namespace {

using kernels::DType;

struct Pair {
  DType ours;
  const char* theirs;
};
constexpr std::array<Pair, 7> kDTypes{{{DType::kF32, "F32"},
                                       {DType::kBF16, "BF16"},
                                       {DType::kF16, "F16"},
                                       {DType::kS32, "I32"},
                                       {DType::kS8, "I8"},
                                       {DType::kU8, "U8"},
                                       {DType::kI64, "I64"}}};

std::string theirs(DType dtype) {
  for (const Pair& pair : kDTypes) {
    if (pair.ours == dtype) return pair.theirs;
  }
  fail(ErrorKind::kUsage, "tensors of {} cannot be stored", kernels::name_of(dtype));
}

kernels::Shape shape_of(const formats::SafetensorsEntry& entry, std::string_view what) {
  kernels::Shape shape;
  bool known = false;
  for (const Pair& pair : kDTypes) {
    if (entry.dtype == pair.theirs) shape.dtype = pair.ours, known = true;
  }
  if (!known)
    fail(ErrorKind::kCorrupt, "{}: tensor '{}': dtype {} is not used by models", what, entry.name, entry.dtype);
  if (entry.shape.size() > kernels::kMaxRank) {
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' has {} dimensions, at most {} are possible", what, entry.name,
         entry.shape.size(), kernels::kMaxRank);
  }
  shape.rank = static_cast<int>(entry.shape.size());
  for (std::size_t i = 0; i < entry.shape.size(); ++i) shape.dims[i] = entry.shape[i];
  return shape;
}

Bytes header_of(const TensorRefs& tensors) {
  std::vector<formats::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    const kernels::Shape& shape = tensor.shape;
    CHECK(tensor.data.size() == shape.bytes());
    entries.push_back({name, theirs(shape.dtype), {shape.dims.begin(), shape.dims.begin() + shape.rank}});
  }
  return formats::encode_safetensors_header(entries);
}

}  // namespace

TensorStream stream_tensors(const TensorRefs& tensors) {
  struct State {
    Bytes header;
    std::vector<ByteView> pieces;
    std::size_t piece = 0, at = 0;
  };
  auto state = std::make_shared<State>();
  state->header = header_of(tensors);
  state->pieces.push_back(state->header);
  for (const auto& [name, tensor] : tensors) state->pieces.push_back(tensor.data);
  TensorStream stream;
  for (const ByteView piece : state->pieces) stream.size += piece.size();
  stream.read = [state](void* to, std::size_t count) {
    std::size_t done = 0;
    while (done < count && state->piece < state->pieces.size()) {
      const ByteView piece = state->pieces[state->piece];
      const std::size_t length = std::min(count - done, piece.size() - state->at);
      if (length > 0) std::memcpy(static_cast<std::uint8_t*>(to) + done, piece.data() + state->at, length);
      done += length;
      state->at += length;
      if (state->at == piece.size()) ++state->piece, state->at = 0;
    }
    return done;
  };
  return stream;
}

TensorRefs refs_to(const graph::Weights& weights) {
  TensorRefs refs;
  for (const auto& [name, weight] : weights.all())
    refs.emplace(name, graph::TensorView{weight->shape(), weight->data()});
  return refs;
}

Bytes encode_tensors(const graph::Tensors& tensors) {
  const TensorStream stream = stream_tensors(refs_to(graph::Weights::viewing(tensors)));
  Bytes out(stream.size);
  CHECK(stream.read(out.data(), out.size()) == out.size());
  return out;
}

TensorRefs view_tensors(ByteView bytes, std::string_view what) {
  formats::SafetensorsHeader header;
  try {
    header = formats::parse_safetensors(bytes, bytes.size());
  } catch (Error& error) {
    error.message = fmt::format("{}: {}", what, error.message);
    throw;
  }
  TensorRefs tensors;
  for (const formats::SafetensorsEntry& entry : header.tensors)
    tensors[entry.name] = {shape_of(entry, what), bytes.subspan(entry.begin, entry.end - entry.begin)};
  return tensors;
}

graph::Tensors decode_tensors(ByteView bytes, std::string_view what) {
  graph::Tensors tensors;
  for (const auto& [name, view] : view_tensors(bytes, what))
    tensors[name] = {view.shape, Bytes(view.data.begin(), view.data.end())};
  return tensors;
}

}  // namespace mlx::nn
