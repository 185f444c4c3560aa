// Text on its way to tokens, each byte of which knows the bytes of the original that it came from. Used by normalisers
// and pre-tokenisers (normalizer.h, pre_tokenizer.h).
//
// What becomes of the places follows the reference implementation (the package `tokenizers`), so that offsets agree.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/utf8.h"

namespace mlx::data::subword {

// Bytes of the original text.
struct Span {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// One character of a new text. 0: it replaces the next one of the old text; n > 0: it is inserted; -n: it replaces the
// next one, and the n behind it are removed.
struct Changed {
  char32_t code = 0;
  std::int32_t change = 0;
};

// Throws kUsage if a step makes so much of a text: a file from anywhere must not fill the memory.
void check_growth(std::size_t before, std::size_t now);

// What characters become, each by itself: `map(code, put)` puts it. What it makes of ASCII is kept, because most of
// most texts is ASCII.
class CharacterMap {
 public:
  using Map = void (*)(char32_t, std::string&);
  explicit CharacterMap(Map map);

  static constexpr char32_t kAscii = 128;
  // The one ASCII character that `byte` becomes, or -1 if it is none, or becomes another number of them.
  int single(unsigned char byte) const { return byte < kAscii ? ascii_[byte] : -1; }
  void operator()(char32_t code, std::string& put) const { map_(code, put); }

 private:
  Map map_;
  std::array<std::int8_t, kAscii> ascii_{};
};

class AlignedText {
 public:
  // Starts from bytes of the original at `base`. Without `aligned` no places are kept.
  void assign(std::string_view text, std::uint32_t base, bool aligned);
  // A part of another text.
  void assign(const AlignedText& whole, std::size_t begin, std::size_t end);
  void append(const AlignedText& part);
  void append_original(std::string_view text, std::uint32_t base);
  void clear(bool aligned);

  const std::string& text() const { return text_; }
  bool aligned() const { return aligned_; }
  std::uint32_t base() const { return base_; }
  Span span(std::size_t byte) const { return from_[byte]; }

  // The whole text becomes this one, with the place of each of its bytes.
  void become(std::string text, std::vector<Span> from);
  // The whole text becomes these characters.
  void transform(const std::vector<Changed>& changes);
  // All that a character becomes came from where it did.
  void map_characters(const CharacterMap& map);
  // The bytes [begin, end) alone stay.
  void keep(std::size_t begin, std::size_t end);
  // What is put before the text comes from where its first character does.
  void prepend(std::string_view text);

  // A new text out of parts of the old one and other text, which comes from where byte `as` of the old one does.
  // Throws kUsage where it gets too long.
  class Rewriting {
   public:
    explicit Rewriting(AlignedText& text) : text_(text) {}
    void copy(std::size_t begin, std::size_t end);
    void insert(std::string_view text, std::size_t as);
    // Takes the bytes [begin, end), each as what map.single() makes of it.
    void insert_singles(const CharacterMap& map, std::size_t begin, std::size_t end);
    void finish();

   private:
    AlignedText& text_;
    std::string out_;
    std::vector<Span> from_;
  };

 private:
  std::string text_;
  std::vector<Span> from_;  // by byte, if aligned
  std::uint32_t base_ = 0;  // where it begins in the original
  bool aligned_ = false;
};

}  // namespace mlx::data::subword
