// Walks from header to header. Long names, and names and sizes in pax records, stand in members of their own before the
// member that they describe.
#include "formats/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/path.h"

namespace mlx::formats {
namespace {

constexpr std::size_t kLongestMemberName = 4096;
constexpr std::uint64_t kLongestRecords = 1 << 20;  // of a pax header
constexpr std::uint64_t kLongestPadding = 1 << 20;  // zeros that fill a tape's record
constexpr std::uint64_t kLargest = INT64_MAX;

using Block = std::array<std::uint8_t, kTarBlock>;

// Fields of a header, by their place.
struct Field {
  std::size_t begin, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 6}, kPrefix{345, 155};

ByteView bytes_of(const Block& block, Field field) {
  return ByteView(block).subspan(field.begin, field.size);
}
std::string_view text_of(const Block& block, Field field) {
  const std::string_view text = as_text(bytes_of(block, field));
  return text.substr(0, text.find('\0'));
}

// Octal digits between spaces and NULs, or a big-endian number behind a byte of 0x80; nullopt for anything else, and
// for what 63 bits do not hold.
std::optional<std::uint64_t> number_of(ByteView field) {
  std::uint64_t value = 0;
  if (field[0] & 0x80) {
    if (field[0] != 0x80) return {};
    for (const std::uint8_t byte : field.subspan(1)) {
      if (value > kLargest >> 8) return {};
      value = value << 8 | byte;
    }
    return value;
  }
  std::string_view text = as_text(field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_first_of(std::string_view(" \0", 2)));
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return {};
    value = value << 3 | static_cast<std::uint64_t>(digit - '0');
  }
  return value;
}

// The sum of the header's bytes with spaces in place of the checksum; old programs added them up as signed.
bool has_checksum(const Block& block) {
  std::int64_t plain = 0, with_signs = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool inside = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.size;
    const std::uint8_t byte = inside ? ' ' : block[i];
    plain += byte;
    with_signs += static_cast<std::int8_t>(byte);
  }
  const std::optional<std::uint64_t> stored = number_of(bytes_of(block, kChecksum));
  return stored && (*stored == static_cast<std::uint64_t>(plain) || static_cast<std::int64_t>(*stored) == with_signs);
}

std::string name_in(const Block& block) {
  const std::string name(text_of(block, kName));
  const bool posix = as_text(bytes_of(block, kMagic)) == std::string_view("ustar\0", 6);
  const std::string_view prefix = posix ? text_of(block, kPrefix) : std::string_view();
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

// What headers say about the member that follows.
struct Said {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

class TarWalk {
 public:
  TarWalk(const TarRead& read, std::uint64_t size, const std::string& file) : read_(read), size_(size), file_(file) {}

  void run(const std::function<void(TarMember&&)>& visit) {
    for (std::uint64_t count = 0;; ++count) {
      if (at_ == size_) bad("there are no blocks of zeros, which end a tar file");
      read_exactly(at_, block_.data(), kTarBlock);
      if (is_zero(block_)) return check_end();
      if (count == kMostTarMembers)
        bad(fmt::format("more than {} members", kMostTarMembers), "write several shards instead");
      take_member(visit);
    }
  }

 private:
  [[noreturn]] void bad(const std::string& why, const char* hint = "the file may be damaged or cut off: write it again",
                        ErrorKind kind = ErrorKind::kCorrupt) const {
    throw Error(kind, fmt::format("{}: offset {}: {}", file_, at_, why), hint);
  }
  static bool is_zero(ByteView bytes) {
    return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
  }
  void read_exactly(std::uint64_t offset, std::uint8_t* to, std::size_t count) const {
    if (offset > size_ || count > size_ - offset || read_(offset, to, count) != count)
      bad("the file ends inside of a member");
  }

  void take_member(const std::function<void(TarMember&&)>& visit) {
    if (!has_checksum(block_)) bad("this is no header of a tar file: its checksum is another");
    const auto type = static_cast<char>(block_[kType.begin]);
    const bool describes = type == 'L' || type == 'K' || type == 'x' || type == 'g';  // another member
    const std::optional<std::uint64_t> size =
        said_.size && !describes ? said_.size : number_of(bytes_of(block_, kSize));
    if (!size) bad("the size of a member is no number below 2^63");
    TarMember member{said_.name && !describes ? *said_.name : name_in(block_), at_, at_ + kTarBlock, *size};
    switch (type) {
      case 'L':
        said_.name = long_name(member);
        return pass(member);
      case 'x':
        read_records(member);
        return pass(member);
      case 'K':  // a long name of a link's target
      case 'g':  // for all members, of which nothing concerns data
        return pass(member);
      case '\0':
      case '0':
      case '5':
      case '7':
        if (type == '5' || member.name.ends_with('/'))
          member.size = 0;
        else
          visit(checked(member));
        said_ = {};
        return pass(member);
      default:
        refuse(member, type);
    }
  }

  void pass(const TarMember& member) {
    check_inside(member);
    at_ = member.begin + member.size;
    const std::uint64_t padding = (kTarBlock - member.size % kTarBlock) % kTarBlock;
    if (padding > size_ - at_) bad("the file ends inside of a member");
    at_ += padding;
  }
  void check_inside(const TarMember& member) const {
    if (member.size > size_ - member.begin)
      bad(fmt::format("member '{}' of {} bytes does not end inside of the file of {} bytes", shortened(member.name),
                      member.size, size_));
  }

  TarMember checked(TarMember member) const {
    check_inside(member);
    while (member.name.starts_with("./")) member.name.erase(0, member.name.find_first_not_of('/', 1));
    if (member.name.size() > kLongestMemberName) bad(fmt::format("a name of {} bytes", member.name.size()));
    if (!is_utf8(member.name)) bad("the name of a member is not UTF-8", "write the shard with names in UTF-8");
    if (!is_safe_relative(member.name))
      bad(fmt::format("member '{}': a name is relative, without '..'", shortened(member.name)),
          "rename the member: names of samples stay inside of their shard");
    return member;
  }

  Bytes data_of(const TarMember& member, std::uint64_t most) const {
    check_inside(member);
    if (member.size > most) bad(fmt::format("a header of {} is too much", format_bytes(member.size)));
    Bytes data(static_cast<std::size_t>(member.size));
    read_exactly(member.begin, data.data(), data.size());
    return data;
  }
  std::string long_name(const TarMember& member) const {
    const Bytes data = data_of(member, kLongestMemberName + 1);
    const std::string_view text = as_text(data);
    return std::string(text.substr(0, text.find('\0')));
  }

  // Records "LENGTH KEY=VALUE\n", where LENGTH counts all of the record.
  void read_records(const TarMember& member) {
    const Bytes data = data_of(member, kLongestRecords);
    for (std::string_view rest = as_text(data); !rest.empty();) {
      std::size_t length = 0;
      const auto [end, wrong] =
          std::from_chars(rest.data(), rest.data() + std::min<std::size_t>(rest.size(), 8), length);
      const auto digits = static_cast<std::size_t>(end - rest.data());
      if (wrong != std::errc() || length > rest.size() || length < digits + 2 || rest[digits] != ' ' ||
          rest[length - 1] != '\n')
        bad("a record of a pax header is damaged");
      take_record(rest.substr(digits + 1, length - digits - 2));
      rest.remove_prefix(length);
    }
  }
  void take_record(std::string_view record) {
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) bad("a record of a pax header has no '='");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") said_.name = std::string(value);
    if (key.starts_with("GNU.sparse.")) refuse({"", at_, 0, 0}, 'S');
    if (key != "size") return;
    std::uint64_t size = 0;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (wrong != std::errc() || end != value.data() + value.size() || size > kLargest)
      bad("the size of a member is no number below 2^63");
    said_.size = size;
  }

  [[noreturn]] void refuse(const TarMember& member, char type) const {
    const bool link = type == '1' || type == '2';
    const char* const what = link ? "a link" : type == 'S' ? "a sparse file" : "neither a file nor a folder";
    bad(fmt::format("member '{}' is {}", shortened(member.name), what),
        link ? "write the files themselves: tar --dereference --hard-dereference" : "write plain files into the shard",
        ErrorKind::kUsage);
  }
  static std::string shortened(const std::string& name) {
    std::string out;
    for (const char c : name.substr(0, 200)) out += c >= 0x20 && c < 0x7f ? c : '?';
    return out;
  }

  // Behind the first block of zeros are only zeros; a second tar file there would be left out without a word.
  void check_end() {
    at_ += kTarBlock;
    if (size_ - at_ > kLongestPadding)
      bad(fmt::format("{} bytes follow the end of the tar file", size_ - at_), kJoined);
    Bytes rest(static_cast<std::size_t>(size_ - at_));
    read_exactly(at_, rest.data(), rest.size());
    if (!is_zero(rest)) bad("other bytes follow the end of the tar file", kJoined);
  }
  static constexpr const char* kJoined = "tar files are not joined by cat: keep them as shards of their own";

  const TarRead& read_;
  std::uint64_t size_, at_ = 0;
  const std::string& file_;
  Block block_{};
  Said said_;
};

}  // namespace

void read_tar(const TarRead& read, std::uint64_t file_size, const std::string& file,
              const std::function<void(TarMember&& member)>& visit) {
  TarWalk(read, file_size, file).run(visit);
}

}  // namespace mlx::formats
