// Strict, line by line: an accepted pointer encodes back to the same bytes.
#include "formats/lfs_pointer.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace mlx::formats {
namespace {

constexpr std::string_view kAnyVersion = "version https://git-lfs.github.com/spec/";
constexpr std::string_view kVersion = "version https://git-lfs.github.com/spec/v1";

class Lines {
 public:
  Lines(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  bool at_end() const { return text_.empty(); }
  std::string_view next() {
    number_ += 1;
    const std::size_t end = text_.find('\n');
    if (end == std::string_view::npos) refuse("the line has no end");
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return line;
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}:{}: not a pointer of Git LFS: {}", what_, number_, why),
                "restore it from git, or add the file again with git-lfs");
  }

 private:
  std::string_view text_, what_;
  std::size_t number_ = 0;
};

bool is_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
  });
}

std::uint64_t parse_size(std::string_view text, const Lines& lines) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(size) != text ||
      size > std::uint64_t{INT64_MAX}) {
    lines.refuse("the size is not a number");
  }
  return size;
}

Digest parse_oid(std::string_view text, const Lines& lines) {
  if (!text.starts_with("sha256:")) lines.refuse("the oid is not sha256: and 64 hex digits");
  try {
    return Digest::parse(text);
  } catch (const Error&) {
    lines.refuse("the oid is not sha256: and 64 hex digits");
  }
}

}  // namespace

std::optional<LfsPointer> parse_lfs_pointer(std::string_view text, std::string_view what) {
  if (!text.starts_with(kAnyVersion) || text.size() >= kLfsPointerLimit) return std::nullopt;
  Lines lines(text, what);
  if (lines.next() != kVersion) lines.refuse("its version is not spec/v1");
  LfsPointer pointer;
  std::string last;
  bool has_oid = false, has_size = false;
  while (!lines.at_end()) {
    const std::string_view line = lines.next();
    const std::size_t space = line.find(' ');
    const std::string_view key = line.substr(0, space);
    if (space == std::string_view::npos || !is_key(key)) lines.refuse("expected 'KEY VALUE'");
    const std::string_view value = line.substr(space + 1);
    if (key <= last) lines.refuse("the keys are not sorted, or one occurs twice");
    if (!is_utf8(value) || value.find_first_of(std::string_view("\r\0", 2)) != std::string_view::npos)
      lines.refuse("the value is not text");
    last = key;
    if (key == "oid") {
      pointer.oid = parse_oid(value, lines), has_oid = true;
    } else if (key == "size") {
      pointer.size = parse_size(value, lines), has_size = true;
    } else if (key.starts_with("ext-")) {
      pointer.extensions.emplace_back(key, value);
    } else {
      lines.refuse(fmt::format("the key '{}' is unknown", key));
    }
  }
  if (!has_oid) lines.refuse("the oid is missing");
  if (!has_size) lines.refuse("the size is missing");
  return pointer;
}

std::string encode_lfs_pointer(const LfsPointer& pointer) {
  std::string text = fmt::format("{}\n", kVersion);
  for (const auto& [key, value] : pointer.extensions) text += fmt::format("{} {}\n", key, value);
  return text + fmt::format("oid {}\nsize {}\n", pointer.oid.text(), pointer.size);
}

}  // namespace mlx::formats
