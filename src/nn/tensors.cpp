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

using Shapes = std::map<std::string, kernels::Shape>;

Bytes header_of(const Shapes& shapes) {
  std::vector<formats::SafetensorsEntry> entries;
  for (const auto& [name, shape] : shapes)
    entries.push_back({name, theirs(shape.dtype), {shape.dims.begin(), shape.dims.begin() + shape.rank}});
  return formats::encode_safetensors_header(entries);
}

}  // namespace

TensorStream stream_tensors(const TensorRefs& tensors, LateTensors late) {
  struct Piece {
    std::string name;
    ByteView bytes;
    std::size_t size = 0;  // also of one that is still to be made
  };
  struct State {
    LateTensors late;
    Bytes header, made;
    std::vector<Piece> pieces;
    std::size_t piece = 0, at = 0;
  };
  auto state = std::make_shared<State>();
  state->late = std::move(late);
  Shapes shapes = state->late.shapes;
  for (const auto& [name, tensor] : tensors) {
    CHECK(tensor.data.size() == tensor.shape.bytes());
    CHECK(shapes.emplace(name, tensor.shape).second);
  }
  state->header = header_of(shapes);
  state->pieces.push_back({"", state->header, state->header.size()});
  for (const auto& [name, shape] : shapes) {
    const auto there = tensors.find(name);
    state->pieces.push_back({name, there == tensors.end() ? ByteView{} : there->second.data, shape.bytes()});
  }
  TensorStream stream;
  for (const Piece& piece : state->pieces) stream.size += piece.size;
  stream.read = [state](void* to, std::size_t count) {
    std::size_t done = 0;
    while (done < count && state->piece < state->pieces.size()) {
      Piece& piece = state->pieces[state->piece];
      if (piece.bytes.size() < piece.size) {
        state->made = state->late.make(piece.name);
        CHECK(state->made.size() == piece.size);
        piece.bytes = state->made;
      }
      const std::size_t length = std::min(count - done, piece.size - state->at);
      if (length > 0) std::memcpy(static_cast<std::uint8_t*>(to) + done, piece.bytes.data() + state->at, length);
      done += length;
      state->at += length;
      if (state->at == piece.size) ++state->piece, state->at = 0;
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

namespace {

formats::SafetensorsHeader header_of(ByteView head, std::uint64_t size, std::string_view what) {
  try {
    return formats::parse_safetensors(head, size);
  } catch (Error& error) {
    error.message = fmt::format("{}: {}", what, error.message);
    throw;
  }
}

}  // namespace

LateTensors late_tensors(std::uint64_t size, std::function<void(std::uint64_t, void*, std::size_t)> read,
                         std::string_view what) {
  Bytes head(std::min<std::size_t>(8, size));  // the length of the header
  read(0, head.data(), head.size());
  const std::uint64_t length = formats::safetensors_header_size(head, size), begun = head.size();
  if (length < begun) fail(ErrorKind::kCorrupt, "{}: not a safetensors file", what);
  head.resize(length);
  read(begun, head.data() + begun, length - begun);
  LateTensors late;
  std::map<std::string, std::pair<std::uint64_t, std::size_t>> places;
  for (const formats::SafetensorsEntry& entry : header_of(head, size, what).tensors) {
    late.shapes[entry.name] = shape_of(entry, what);
    places[entry.name] = {entry.begin, entry.end - entry.begin};
  }
  late.make = [places = std::move(places), read = std::move(read)](const std::string& name) {
    const auto [begin, bytes] = places.at(name);
    Bytes out(bytes);
    read(begin, out.data(), out.size());
    return out;
  };
  return late;
}

TensorRefs view_tensors(ByteView bytes, std::string_view what) {
  TensorRefs tensors;
  for (const formats::SafetensorsEntry& entry : header_of(bytes, bytes.size(), what).tensors)
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
