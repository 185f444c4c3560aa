// The npy format of NumPy: one array, a text header and its elements. Bytes in, structure out. Source: "NEP 1, A Simple
// File Format for NumPy Arrays".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace mlx::formats {

struct NpyHeader {
  std::string descr;  // "<f4", "|u1" …
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::uint64_t data_begin = 0;
};

// How many bytes from the start of the file parse_npy needs, by the first 12 bytes; 0 if it is not a npy file.
std::uint64_t npy_header_size(ByteView first_bytes);
// kCorrupt if the header is not in the form that NumPy writes.
NpyHeader parse_npy(ByteView head);
// The header of a file of f32 in rows.
Bytes encode_npy_header(std::int64_t rows, std::int64_t columns);

}  // namespace mlx::formats
