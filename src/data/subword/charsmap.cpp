// Walks the double array. A unit has its child's offset in bits 10 and up (shifted by eight more if bit 9 is set), its
// label in the low byte, bit 8 if it has a value; a unit with bit 31 is a value.

#include "data/subword/charsmap.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/subword/unicode.h"

namespace mlx::data::subword {
namespace {

// A trie from anywhere may have circles.
constexpr std::size_t kLongestEntry = 256, kLongestReplacement = 256;

std::size_t child_of(std::uint32_t unit) {
  return (unit >> 10) << ((unit & (1U << 9)) >> 6);
}

// Whether two characters stand in one grapheme cluster (UAX 29), given those before; rule GB9c is left out, whose
// clusters are longer than six bytes.
class GraphemeEnds {
 public:
  bool ends_before(char32_t next) {
    using enum GraphemeBreak;
    const GraphemeBreak now = grapheme_break_of(next), before = before_;
    const bool picture = now == kPicture && joined_picture_;
    const bool pair = now == kRegional && before == kRegional && regional_ % 2 == 1;
    regional_ = now == kRegional ? regional_ + 1 : 0;
    joined_picture_ = now == kZwj && in_picture_;
    in_picture_ = now == kPicture || (now == kExtend && in_picture_);
    before_ = now;
    if (begins_) {
      begins_ = false;
      return true;
    }
    const auto is_control = [](GraphemeBreak one) { return one == kControl || one == kCr || one == kLf; };
    if (before == kCr && now == kLf) return false;
    if (is_control(before) || is_control(now)) return true;
    const bool hangul = (before == kL && (now == kL || now == kV || now == kLv || now == kLvt)) ||
                        ((before == kLv || before == kV) && (now == kV || now == kT)) ||
                        ((before == kLvt || before == kT) && now == kT);
    return !(hangul || now == kExtend || now == kZwj || now == kSpacing || before == kPrepend || picture || pair);
  }

 private:
  GraphemeBreak before_ = GraphemeBreak::kOther;
  bool begins_ = true, in_picture_ = false, joined_picture_ = false;
  int regional_ = 0;
};

std::int32_t characters_in(std::string_view text) {
  std::int32_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) at += character_at(text, at).bytes;
  return count;
}

void replace(std::vector<Changed>& out, std::string_view old_part, std::string_view new_part) {
  for (std::size_t at = 0; at < new_part.size();) {
    const Character character = character_at(new_part, at);
    out.push_back({character.code, 0});
    at += character.bytes;
  }
  const std::int32_t more = characters_in(new_part) - characters_in(old_part);
  for (std::int32_t i = 0; i < more; ++i) out[out.size() - 1 - static_cast<std::size_t>(i)].change = 1;
  if (more < 0 && !out.empty()) out.back().change += more;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view what) {
  if (bytes.empty()) return;
  std::uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (bytes.size() < sizeof size || size % 4 != 0 || size == 0 || size > bytes.size() - sizeof size)
    fail(ErrorKind::kCorrupt, "{}: the precompiled table of characters is damaged", what);
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  replacements_ = bytes.substr(sizeof size + size);
}

std::optional<Charsmap::Found> Charsmap::find(std::string_view text, bool longest) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Found> found;
  std::size_t node = child_of(units_[0]);
  for (std::size_t i = 0; i < std::min(text.size(), kLongestEntry); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    node ^= label;
    if (label == 0 || node >= units_.size() || (units_[node] & 0x800000FFU) != label) return found;
    const bool has_value = (units_[node] >> 8 & 1) != 0;
    node ^= child_of(units_[node]);
    if (!has_value || node >= units_.size()) continue;
    const std::size_t at = units_[node] & 0x7FFFFFFFU;
    if (at >= replacements_.size()) continue;
    const std::string_view rest = std::string_view(replacements_).substr(at);
    found = {rest.substr(0, std::min(rest.find('\0'), kLongestReplacement)), i + 1};
    if (!longest) return found;
  }
  return found;
}

std::optional<Charsmap::Found> Charsmap::longest(std::string_view text) const {
  return find(text, true);
}

std::optional<Charsmap::Found> Charsmap::shortest(std::string_view text) const {
  return find(text, false);
}

void Charsmap::apply(AlignedText& aligned) const {
  constexpr std::size_t kLongestCluster = 5;
  const std::string_view text = aligned.text();
  std::vector<Changed> out;
  out.reserve(text.size());
  bool modified = false;
  const auto add_cluster = [&](std::size_t begin, std::size_t end) {
    const std::string_view cluster = text.substr(begin, end - begin);
    if (cluster.size() <= kLongestCluster) {
      if (const std::optional<Found> found = shortest(cluster)) {
        modified = true;
        return replace(out, cluster, found->replacement);
      }
    }
    for (std::size_t at = 0; at < cluster.size();) {
      const Character character = character_at(cluster, at);
      const std::string_view part = cluster.substr(at, character.bytes);
      if (const std::optional<Found> found = shortest(part)) {
        modified = true;
        replace(out, part, found->replacement);
      } else {
        out.push_back({character.code, 0});
      }
      at += character.bytes;
    }
  };
  GraphemeEnds ends;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (ends.ends_before(character.code) && at > begin) {
      add_cluster(begin, at);
      begin = at;
    }
    at += character.bytes;
  }
  if (begin < text.size()) add_cluster(begin, text.size());
  if (modified) aligned.transform(out);
}

}  // namespace mlx::data::subword
