// A file that is still to be written, in pieces that are made one after the other: a model's file may be larger than
// the memory that is left. Used by what writes models for other programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace mlx::convert {

struct FilePiece {
  std::uint64_t size = 0;
  std::function<Bytes()> make;  // of `size` bytes, the same each time
};

struct OutsideFile {
  std::string name;
  std::vector<FilePiece> pieces;

  std::uint64_t size() const {
    std::uint64_t sum = 0;
    for (const FilePiece& piece : pieces) sum += piece.size;
    return sum;
  }
};

inline FilePiece piece_of(Bytes bytes) {
  const std::uint64_t size = bytes.size();
  return {size, [bytes = std::move(bytes)] { return bytes; }};
}
inline OutsideFile text_file(std::string name, std::string_view text) {
  return {std::move(name), {piece_of(to_bytes(text))}};
}

}  // namespace mlx::convert
