// Tar files made in memory, member by member: for the tests of the parser and of shards.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "formats/tar.h"

namespace mlx {

inline void set_checksum(std::uint8_t* header) {
  std::fill_n(header + 148, 8, std::uint8_t{' '});
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < formats::kTarBlock; ++i) sum += header[i];
  std::ranges::copy(fmt::format("{:06o}", sum) + std::string("\0 ", 2), header + 148);
}

struct MadeTar {
  Bytes bytes;

  MadeTar& add(std::string_view name, std::string_view data, char type = '0') {
    const std::size_t header = bytes.size(), block = formats::kTarBlock;
    bytes.resize(header + block + (data.size() + block - 1) / block * block);
    std::uint8_t* const at = bytes.data() + header;
    std::ranges::copy(name.substr(0, 100), at);
    std::ranges::copy(std::string_view("0000644"), at + 100);
    std::ranges::copy(fmt::format("{:011o}", data.size()), at + 124);
    at[156] = static_cast<std::uint8_t>(type);
    std::ranges::copy(std::string_view("ustar\00000", 8), at + 257);
    set_checksum(at);
    std::ranges::copy(data, at + block);
    return *this;
  }
  MadeTar& add(std::string_view name, ByteView data) { return add(name, as_text(data)); }
  // "path=a/b" as a record of a pax header, which counts itself.
  static std::string record(std::string_view text) {
    std::size_t size = text.size() + 3;
    while (std::to_string(size).size() + text.size() + 2 != size) ++size;
    return fmt::format("{} {}\n", size, text);
  }
  Bytes ended() const {
    Bytes out = bytes;
    out.resize(out.size() + 2 * formats::kTarBlock);
    return out;
  }
};

}  // namespace mlx
