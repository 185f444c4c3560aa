// Cuts tensors into pieces of fixed size, compares the pieces in parallel, and adds up the results.
#include "diff/diff_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "diff/tensor_elements.h"
#include "formats/npy.h"

namespace mlx::diff {
namespace {

using formats::SafetensorsEntry;

constexpr std::uint64_t kPieceElements = std::uint64_t{1} << 20;
constexpr std::uint64_t kJobElements = std::uint64_t{8} << 20;  // for one opening of the files
constexpr std::size_t kBlockElements = 16384;

struct Scales {
  std::vector<float> values;  // one a row; none: elements count as they are
  std::uint64_t row_elements = 1;
};

struct Pair {
  const SafetensorsEntry *before, *after;
  std::size_t index;  // in TensorsDiff::tensors
  Scales scales_before, scales_after;
};

struct Piece {
  std::size_t pair = 0;
  std::uint64_t first = 0, count = 0;  // elements
  bool same = false;                   // the same chunks in both
  std::uint64_t changed = 0, not_finite = 0;
  double squares_before = 0, squares_difference = 0, largest = 0;
};

std::uint64_t elements_of(const SafetensorsEntry& entry) {
  const std::size_t size = element_size(entry.dtype);
  if (size > 0) return (entry.end - entry.begin) / size;
  std::uint64_t count = 1;
  for (const std::int64_t dim : entry.shape) count *= static_cast<std::uint64_t>(dim);
  return count;
}

bool same_bytes(const Source& a, const SafetensorsEntry& before, const Source& b, const SafetensorsEntry& after) {
  const std::uint64_t size = before.end - before.begin;
  if (size != after.end - after.begin) return false;
  const std::vector<Digest> here = a.chunks(before.begin, before.end);
  if (!here.empty() && here == b.chunks(after.begin, after.end)) return true;
  Bytes left(kBlockElements * 8), right(left.size());
  for (std::uint64_t at = 0; at < size;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left.size(), size - at));
    const std::size_t got = a.read_at(before.begin + at, left.data(), wanted);
    if (got != wanted || b.read_at(after.begin + at, right.data(), wanted) != wanted) return false;
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(got), right.begin())) return false;
    at += got;
  }
  return true;
}

void read_block(const Source& source, const SafetensorsEntry& entry, std::uint64_t first, std::size_t count,
                Bytes& bytes) {
  const std::size_t size = element_size(entry.dtype);
  bytes.resize(count * size);
  if (source.read_at(entry.begin + first * size, bytes.data(), bytes.size()) != bytes.size())
    fail(ErrorKind::kConflict, "tensor '{}': the file became shorter while it was read", entry.name);
}

void scale(const Scales& scales, std::uint64_t first, std::vector<double>& values, std::size_t count) {
  if (scales.values.empty()) return;
  for (std::size_t i = 0; i < count; ++i)
    values[i] *= static_cast<double>(scales.values[(first + i) / scales.row_elements]);
}

void compare_block(const std::vector<double>& a, const std::vector<double>& b, std::size_t count, Piece& piece) {
  for (std::size_t i = 0; i < count; ++i) {
    const double x = a[i], y = b[i];
    const bool finite = std::isfinite(x) && std::isfinite(y);
    if (std::isfinite(x)) piece.squares_before += x * x;
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ++piece.changed;
    if (!finite) {
      ++piece.not_finite;
      continue;
    }
    piece.squares_difference += (y - x) * (y - x);
    piece.largest = std::max(piece.largest, std::abs(y - x));
  }
}

void compare_piece(const Source& a, const Source& b, const Pair& pair, Piece& piece) {
  Bytes left, right;
  std::vector<double> x(kBlockElements), y(kBlockElements);
  const bool comparable =
      pair.before->dtype == pair.after->dtype && pair.scales_before.values.empty() && pair.scales_after.values.empty();
  for (std::uint64_t done = 0; done < piece.count;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(kBlockElements, piece.count - done));
    const std::uint64_t first = piece.first + done;
    read_block(a, *pair.before, first, count, left);
    decode_elements(pair.before->dtype, left, x.data());
    scale(pair.scales_before, first, x, count);
    if (!piece.same) read_block(b, *pair.after, first, count, right);
    if (piece.same || (comparable && left == right)) {
      compare_block(x, x, count, piece);
    } else {
      decode_elements(pair.after->dtype, right, y.data());
      scale(pair.scales_after, first, y, count);
      compare_block(x, y, count, piece);
    }
    done += count;
  }
}

// The scales of an 8-bit tensor, if the file has them.
Scales scales_of(const TensorFile& file, const SafetensorsEntry& entry,
                 const std::unordered_map<std::string_view, const SafetensorsEntry*>& by_name) {
  Scales scales;
  if (entry.dtype != "I8" || entry.shape.empty() || entry.shape[0] == 0) return scales;
  const std::string name = entry.name + "_scale";
  const auto found = by_name.find(name);
  if (found == by_name.end() || found->second->dtype != "F32" || found->second->shape != std::vector{entry.shape[0]})
    return scales;
  Bytes bytes;
  const auto rows = static_cast<std::size_t>(entry.shape[0]);
  read_block(*file.open(), *found->second, 0, rows, bytes);
  scales.values.resize(rows);
  std::memcpy(scales.values.data(), bytes.data(), bytes.size());
  scales.row_elements = std::max<std::uint64_t>(1, elements_of(entry) / rows);
  return scales;
}

std::vector<Piece> cut(const std::vector<Pair>& pairs) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::uint64_t count = elements_of(*pairs[i].before);
    for (std::uint64_t first = 0; first < count; first += kPieceElements) {
      Piece piece;
      piece.pair = i, piece.first = first, piece.count = std::min(kPieceElements, count - first);
      pieces.push_back(piece);
    }
  }
  return pieces;
}

// Calls `work` for the pieces; adjacent ones form jobs of about kJobElements.
template <typename Work>
void in_jobs(std::vector<Piece>& pieces, const TensorFile& before, const TensorFile& after, Pool& pool, Work work) {
  std::vector<std::size_t> starts;
  std::uint64_t elements = kJobElements;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (elements >= kJobElements) starts.push_back(i), elements = 0;
    elements += pieces[i].count;
  }
  starts.push_back(pieces.size());
  pool.run(static_cast<std::int64_t>(starts.size()) - 1, [&](std::int64_t job) {
    const std::unique_ptr<Source> a = before.open(), b = after.open();
    const auto index = static_cast<std::size_t>(job);
    for (std::size_t i = starts[index]; i < starts[index + 1]; ++i) work(*a, *b, pieces[i]);
  });
}

void add_up(const std::vector<Pair>& pairs, const std::vector<Piece>& pieces, TensorsDiff& diff) {
  for (const Piece& piece : pieces) {
    TensorChange& tensor = diff.tensors[pairs[piece.pair].index];
    tensor.changed += piece.changed;
    tensor.not_finite += piece.not_finite;
    tensor.norm_before += piece.squares_before;
    tensor.norm_difference += piece.squares_difference;
    tensor.largest = std::max(tensor.largest, piece.largest);
  }
  for (const Pair& pair : pairs) {
    TensorChange& tensor = diff.tensors[pair.index];
    tensor.norm_before = std::sqrt(tensor.norm_before);
    tensor.norm_difference = std::sqrt(tensor.norm_difference);
  }
}

void measure(std::vector<Pair>& pairs, const TensorFile& before, const TensorFile& after, Pool& pool,
             Progress& progress, TensorsDiff& diff) {
  std::vector<Piece> pieces = cut(pairs);
  std::uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.count;
  progress.begin("comparing tensors", total, "elements");
  in_jobs(pieces, before, after, pool, [&](const Source& a, const Source& b, Piece& piece) {
    const Pair& pair = pairs[piece.pair];
    const std::size_t size = element_size(pair.before->dtype);
    const auto chunks = [&](const Source& source, const SafetensorsEntry& entry) {
      const std::uint64_t begin = entry.begin + piece.first * size;
      return source.chunks(begin, begin + piece.count * size);
    };
    if (pair.before->dtype == pair.after->dtype && pair.scales_before.values.empty()) {
      const std::vector<Digest> ids = chunks(a, *pair.before);
      piece.same = !ids.empty() && ids == chunks(b, *pair.after);
    }
    compare_piece(a, b, pair, piece);
    progress.advance(piece.count);
  });
  progress.end();
  add_up(pairs, pieces, diff);
}

}  // namespace

bool holds_tensors(std::string_view path) {
  return path.ends_with(".safetensors") || path.ends_with(".npy");
}

TensorFile read_tensor_file(const OpenSource& open, std::string_view path, std::uint64_t size) {
  TensorFile file{open, {}};
  const std::unique_ptr<Source> source = open();
  const Bytes first = read_head(*source, 16);
  if (path.ends_with(".npy")) {
    const formats::NpyHeader header = formats::parse_npy(read_head(*source, formats::npy_header_size(first)));
    SafetensorsEntry entry{"array", dtype_of_npy(header.descr), header.shape, header.data_begin, size};
    std::uint64_t bytes = element_size(entry.dtype);
    for (const std::int64_t dim : header.shape)
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes))
        fail(ErrorKind::kCorrupt, "npy header: the shape has more elements than 64 bits can count");
    if (element_size(entry.dtype) > 0 && size - header.data_begin != bytes)
      fail(ErrorKind::kCorrupt, "npy: {} bytes of data, the header promises {}", size - header.data_begin, bytes);
    file.tensors.push_back(std::move(entry));
    return file;
  }
  const std::uint64_t header_size = formats::safetensors_header_size(first, size);
  const Bytes head = read_head(*source, std::max<std::uint64_t>(header_size, first.size()));
  file.tensors = formats::parse_safetensors(head, size).tensors;
  return file;
}

TensorsDiff diff_tensors(const TensorFile& before, const TensorFile& after, Pool& pool, Progress& progress) {
  using Kind = TensorChange::Kind;
  using Names = std::unordered_map<std::string_view, const SafetensorsEntry*>;
  const auto names_of = [](const TensorFile& file) {
    Names names;
    for (const SafetensorsEntry& entry : file.tensors) names.emplace(entry.name, &entry);
    return names;
  };
  const Names old_names = names_of(before), new_names = names_of(after);
  const std::unique_ptr<Source> a = before.open(), b = after.open();
  TensorsDiff diff;
  std::vector<Pair> pairs;
  for (const SafetensorsEntry& entry : before.tensors) {
    diff.elements_before += elements_of(entry);
    if (new_names.contains(entry.name)) continue;
    TensorChange gone;
    gone.kind = Kind::kRemoved, gone.name = entry.name, gone.dtype_before = entry.dtype;
    gone.shape_before = entry.shape;
    diff.tensors.push_back(std::move(gone));
  }
  for (const SafetensorsEntry& entry : after.tensors) {
    diff.elements_after += elements_of(entry);
    const auto old = old_names.find(entry.name);
    TensorChange change;
    change.kind = Kind::kAdded, change.name = entry.name, change.dtype_after = entry.dtype;
    change.shape_after = entry.shape;
    if (old != old_names.end()) {
      const SafetensorsEntry& was = *old->second;
      change.dtype_before = was.dtype, change.shape_before = was.shape;
      if (was.dtype == entry.dtype && was.shape == entry.shape && same_bytes(*a, was, *b, entry)) {
        ++diff.same;
        continue;
      }
      change.kind = was.shape == entry.shape ? Kind::kChanged : Kind::kReshaped;
      change.elements = elements_of(entry);
      change.compared = change.kind == Kind::kChanged && element_size(was.dtype) > 0 && element_size(entry.dtype) > 0;
      if (change.compared) {
        pairs.push_back(
            {&was, &entry, diff.tensors.size(), scales_of(before, was, old_names), scales_of(after, entry, new_names)});
      }
    }
    diff.tensors.push_back(std::move(change));
  }
  measure(pairs, before, after, pool, progress, diff);
  return diff;
}

}  // namespace mlx::diff
