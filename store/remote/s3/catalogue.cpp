// Strict: a line that is not exactly what encode_catalogue() would write is an error with its number.
#include "store/remote/s3/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "store/format/pack_format.h"

namespace mlx::store::s3 {

namespace {

constexpr std::string_view kMagic = "mlx catalogue 1";

// Takes the number and the character behind it off the front of `text`; false if none stands there.
bool take_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || (text[0] == '0' && end != text.data() + 1)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool is_hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool parse_head(std::string_view line, Digest& head) {
  if (!line.starts_with("sha256:") || !is_hex(line.substr(7))) return false;
  head = Digest::parse(line);
  return true;
}

bool parse_pack(std::string_view line, PackEntry& pack) {
  if (!is_hex(line.substr(0, 64))) return false;
  pack.id = Digest::parse(line.substr(0, 64));
  line.remove_prefix(64);
  if (!line.starts_with(' ')) return false;
  line.remove_prefix(1);
  if (line.empty() || !take_number(line, pack.size) || !line.starts_with(' ')) return false;
  line.remove_prefix(1);
  if (line.empty() || !take_number(line, pack.records) || !line.empty()) return false;
  const std::uint64_t frame = kPackHeaderSize + kFanoutSize + kFooterSize;
  return pack.size <= kMaxPackSize && pack.size >= frame &&
         pack.records <= (pack.size - frame) / (kEntryHeaderSize + kRecordSize);
}

}  // namespace

std::uint64_t PackEntry::tail_size() const {
  return kFanoutSize + records * kRecordSize + kFooterSize;
}

void Catalogue::add(const std::vector<PackEntry>& more) {
  packs.insert(packs.end(), more.begin(), more.end());
  std::ranges::sort(packs);
  packs.erase(std::unique(packs.begin(), packs.end()), packs.end());
}

std::string encode_catalogue(const Catalogue& catalogue) {
  std::string text = fmt::format("{}\n", kMagic);
  for (const Digest& head : catalogue.heads) text += "head " + head.text() + "\n";
  for (const PackEntry& pack : catalogue.packs)
    text += fmt::format("pack {} {} {}\n", pack.id.hex(), pack.size, pack.records);
  return text;
}

Catalogue decode_catalogue(std::string_view text, const std::string& where) {
  Catalogue catalogue;
  for (int number = 1; number == 1 || !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) fail(ErrorKind::kCorrupt, "{}:{}: line is cut short", where, number);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    Digest head;
    PackEntry pack;
    if (number == 1) {
      if (line != kMagic) fail(ErrorKind::kCorrupt, "{}:1: not a catalogue that this mlx knows", where);
    } else if (line.starts_with("head ") && catalogue.packs.empty() && parse_head(line.substr(5), head)) {
      if (!catalogue.heads.empty() && !(catalogue.heads.back() < head))
        fail(ErrorKind::kCorrupt, "{}:{}: heads are not sorted", where, number);
      catalogue.heads.push_back(head);
    } else if (line.starts_with("pack ") && parse_pack(line.substr(5), pack)) {
      if (!catalogue.packs.empty() && !(catalogue.packs.back().id < pack.id))
        fail(ErrorKind::kCorrupt, "{}:{}: packs are not sorted", where, number);
      catalogue.packs.push_back(pack);
    } else {
      fail(ErrorKind::kCorrupt, "{}:{}: neither a head nor a pack", where, number);
    }
  }
  return catalogue;
}

}  // namespace mlx::store::s3
