// A part of a file that grows and moves on while rows are read from it. Used by the readers of tables.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/readers/source.h"

namespace mlx::data {

class Window {
 public:
  explicit Window(std::unique_ptr<Source> source);

  std::string_view bytes() const { return std::string_view(buffer_).substr(begin_, end_ - begin_); }
  std::uint64_t offset() const { return offset_; }   // of the first byte in the file
  bool ended() const { return ended_; }              // nothing follows bytes()
  bool has_high_byte() const { return high_byte_; }  // something that was read is not ASCII
  // How many bytes after bytes() may be read as well; they mean nothing.
  static constexpr std::size_t kPadding = 64;
  // Reads more after bytes(), which move. Throws kCorrupt if they are longer than a row may be, and for zero bytes.
  void grow();
  void skip(std::size_t count) { begin_ += count, offset_ += count; }  // the bytes do not move
  void seek(std::uint64_t offset);
  // Throws kCorrupt "line N: WHY" about the place `inside` after offset().
  [[noreturn]] void corrupt(std::string_view why, std::size_t inside = 0) const;

 private:
  std::unique_ptr<Source> source_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::size_t next_read_;
  std::uint64_t offset_ = 0;
  bool ended_ = false, high_byte_ = false;
};

}  // namespace mlx::data
