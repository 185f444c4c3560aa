// Keeps text and places together.

#include "data/subword/aligned_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mlx::data::subword {
namespace {

void append_places(std::vector<Span>& from, std::string_view text, std::uint32_t base) {
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t bytes = character_at(text, at).bytes;
    const auto begin = static_cast<std::uint32_t>(base + at);
    from.insert(from.end(), bytes, {begin, begin + bytes});
    at += bytes;
  }
}

}  // namespace

void check_growth(std::size_t before, std::size_t now) {
  constexpr std::size_t kMostGrowth = 64, kAnyway = 1 << 20;
  if (now > kMostGrowth * before + kAnyway)
    fail(ErrorKind::kUsage, "the tokenizer makes more than {} times as much of the text", kMostGrowth);
}

CharacterMap::CharacterMap(Map map) : map_(map) {
  std::string put;
  for (char32_t code = 0; code < kAscii; ++code) {
    put.clear();
    map(code, put);
    const bool single = put.size() == 1 && static_cast<unsigned char>(put[0]) < kAscii;
    ascii_[code] = static_cast<std::int8_t>(single ? put[0] : -1);
  }
}

void AlignedText::assign(std::string_view text, std::uint32_t base, bool aligned) {
  clear(aligned);
  base_ = base;
  append_original(text, base);
}

void AlignedText::assign(const AlignedText& whole, std::size_t begin, std::size_t end) {
  clear(whole.aligned_);
  text_.assign(whole.text_, begin, end - begin);
  if (!aligned_) return;
  const auto at = [&whole](std::size_t byte) { return whole.from_.begin() + static_cast<std::ptrdiff_t>(byte); };
  from_.assign(at(begin), at(end));
  base_ = from_.empty() ? 0 : from_[0].begin;
}

void AlignedText::append(const AlignedText& part) {
  text_ += part.text_;
  from_.insert(from_.end(), part.from_.begin(), part.from_.end());
}

void AlignedText::append_original(std::string_view text, std::uint32_t base) {
  text_ += text;
  if (aligned_) append_places(from_, text, base);
}

void AlignedText::clear(bool aligned) {
  text_.clear();
  from_.clear();
  base_ = 0;
  aligned_ = aligned;
}

void AlignedText::become(std::string text, std::vector<Span> from) {
  text_ = std::move(text);
  from_ = aligned_ ? std::move(from) : std::vector<Span>();
}

void AlignedText::transform(const std::vector<Changed>& changes) {
  std::string out;
  out.reserve(text_.size());
  if (!aligned_) {
    for (const Changed& changed : changes) append_utf8(out, changed.code);
    text_ = std::move(out);
    return;
  }
  std::vector<Span> from;
  from.reserve(from_.size());
  std::size_t at = 0;  // in the old text: behind what was replaced
  const auto skip = [&] { at += at < text_.size() ? character_at(text_, at).bytes : 0; };
  for (const auto& [code, change] : changes) {
    Span place{base_, base_};
    if (change > 0 && at > 0) place = from_[at - 1];
    if (change <= 0 && !from_.empty()) place = from_[std::min(at, from_.size() - 1)];
    for (std::int32_t i = change; i <= 0; ++i) skip();
    const std::size_t before = out.size();
    append_utf8(out, code);
    from.insert(from.end(), out.size() - before, place);
  }
  text_ = std::move(out);
  from_ = std::move(from);
}

void AlignedText::map_characters(const CharacterMap& map) {
  Rewriting out(*this);
  std::string put;
  const auto single = [&](std::size_t at) { return map.single(static_cast<unsigned char>(text_[at])) >= 0; };
  for (std::size_t at = 0, end = 0; at < text_.size(); at = end) {
    while (end < text_.size() && single(end)) ++end;
    if (end > at) {
      out.insert_singles(map, at, end);
      continue;
    }
    const Character character = character_at(text_, at);
    put.clear();
    map(character.code, put);
    if (!put.empty()) out.insert(put, at);
    end = at + character.bytes;
  }
  out.finish();
}

void AlignedText::keep(std::size_t begin, std::size_t end) {
  text_ = text_.substr(begin, end - begin);
  if (!aligned_) return;
  from_.erase(from_.begin() + static_cast<std::ptrdiff_t>(end), from_.end());
  from_.erase(from_.begin(), from_.begin() + static_cast<std::ptrdiff_t>(begin));
}

void AlignedText::prepend(std::string_view text) {
  text_.insert(0, text);
  if (aligned_) from_.insert(from_.begin(), text.size(), from_.empty() ? Span{base_, base_} : from_[0]);
}

void AlignedText::Rewriting::copy(std::size_t begin, std::size_t end) {
  out_.append(text_.text_, begin, end - begin);
  if (!text_.aligned_) return;
  const auto at = [this](std::size_t byte) { return text_.from_.begin() + static_cast<std::ptrdiff_t>(byte); };
  from_.insert(from_.end(), at(begin), at(end));
}

void AlignedText::Rewriting::insert(std::string_view text, std::size_t as) {
  out_ += text;
  check_growth(text_.text_.size(), out_.size());
  if (text_.aligned_) from_.insert(from_.end(), text.size(), text_.from_[as]);
}

void AlignedText::Rewriting::insert_singles(const CharacterMap& map, std::size_t begin, std::size_t end) {
  const std::size_t before = out_.size();
  copy(begin, end);
  for (std::size_t at = before; at < out_.size(); ++at)
    out_[at] = static_cast<char>(map.single(static_cast<unsigned char>(out_[at])));
}

void AlignedText::Rewriting::finish() {
  text_.text_ = std::move(out_);
  text_.from_ = std::move(from_);
}

}  // namespace mlx::data::subword
