// Tar headers: names and sizes in every form, and what is refused with its offset.
#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "formats/tar.h"
#include "tests/made_tar.h"

using namespace mlx;

namespace {

std::string shown(const Bytes& bytes) {
  const auto read = [&](std::uint64_t offset, void* to, std::size_t count) -> std::size_t {
    const ByteView rest = ByteView(bytes).subspan(static_cast<std::size_t>(offset));
    std::ranges::copy(rest.first(std::min(count, rest.size())), static_cast<std::uint8_t*>(to));
    return std::min(count, rest.size());
  };
  std::string out;
  try {
    formats::read_tar(read, bytes.size(), "t.tar", [&](formats::TarMember&& member) {
      REQUIRE(member.begin + member.size <= bytes.size());
      out += fmt::format("{}={};", member.name, as_text(ByteView(bytes).subspan(member.begin, member.size)));
    });
  } catch (const Error& error) {
    return out + error.message;
  }
  return out;
}

// The size of the first member, written as it is.
Bytes with_size(std::string_view size) {
  Bytes bytes = MadeTar().add("a.cls", "cat").ended();
  std::ranges::copy(size, bytes.begin() + 124);
  set_checksum(bytes.data());
  return bytes;
}

}  // namespace

TEST_CASE("tar: names and sizes in the header, of GNU and of pax") {
  const std::string deep = std::string(90, 'd') + "/" + std::string(150, 'e') + ".cls";
  CHECK(shown(MadeTar().add("a.cls", "cat").add("b.cls", "").add("./c/", "", '5').add("./c/d", "x", '\0').ended()) ==
        "a.cls=cat;b.cls=;c/d=x;");
  CHECK(
      shown(MadeTar().add("././@LongLink", deep + std::string(1, '\0'), 'L').add("short", "1").add("b", "2").ended()) ==
      deep + "=1;b=2;");
  const std::string records =
      MadeTar::record("mtime=1.5") + MadeTar::record("path=" + deep) + MadeTar::record("size=3");
  Bytes pax = MadeTar().add("x", records, 'x').add("b", "dog").add("c", "2").ended();
  std::ranges::copy(std::string_view("00000000000"), pax.begin() + 1024 + 124);  // the header's own size does not count
  set_checksum(pax.data() + 1024);
  CHECK(shown(pax) == deep + "=dog;c=2;");
  CHECK(shown(MadeTar().add("g", MadeTar::record("comment=x"), 'g').add("a", "1").ended()) == "a=1;");
  Bytes prefixed = MadeTar().add("a.cls", "cat").ended();
  std::ranges::copy(std::string_view("in/a/folder"), prefixed.begin() + 345);
  set_checksum(prefixed.data());
  CHECK(shown(prefixed) == "in/a/folder/a.cls=cat;");
  CHECK(shown(with_size(std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12))) == "a.cls=cat;");
  CHECK(shown(with_size("         3 \0")) == "a.cls=cat;");
}

TEST_CASE("tar: sizes that no file has, and files that are cut off") {
  const std::string beyond = "t.tar: offset 0: member 'a.cls' of ";
  CHECK(shown(with_size("77777777777")).starts_with(beyond + "8589934591 bytes does not end inside"));
  CHECK(shown(with_size(std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12))).starts_with(beyond));
  const std::string none = "t.tar: offset 0: the size of a member is no number below 2^63";
  CHECK(shown(with_size(std::string("\x80\0\0\0\x80\0\0\0\0\0\0\0", 12))) == none);
  CHECK(shown(with_size(std::string(12, '\xff'))) == none);
  CHECK(shown(with_size("9")) == none);
  CHECK(shown(MadeTar().add("x", MadeTar::record("size=18446744073709551616"), 'x').ended()) == none);
  CHECK(shown(MadeTar().add("x", "99999 path=a\n", 'x').ended()).find("a record of a pax header is damaged") !=
        std::string::npos);
  const Bytes whole = MadeTar().add("a", std::string(600, 'x')).add("b", "1").ended();
  for (std::size_t size = 0; size + 512 < whole.size(); size += 64) {
    const std::string text = shown(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    CHECK_MESSAGE(text.find("t.tar: offset ") != std::string::npos, size, ": ", text);
  }
  CHECK(shown(Bytes(whole.begin(), whole.end() - 512)) == shown(whole));  // one block of zeros is an end
}

TEST_CASE("tar: what is refused") {
  for (const char* name : {"../a", "a/../b", "/a", "a//b", "a/.."})
    CHECK(shown(MadeTar().add(name, "1").ended()) ==
          fmt::format("t.tar: offset 0: member '{}': a name is relative, without '..'", name));
  CHECK(shown(MadeTar().add("", "1").ended()) == "t.tar: offset 0: member '': a name is relative, without '..'");
  CHECK(shown(MadeTar().add("\xff", "1").ended()) == "t.tar: offset 0: the name of a member is not UTF-8");
  CHECK(shown(MadeTar().add("a", "1").add("l", "", '2').ended()) == "a=1;t.tar: offset 1024: member 'l' is a link");
  CHECK(shown(MadeTar().add("s", "", 'S').ended()) == "t.tar: offset 0: member 's' is a sparse file");
  CHECK(shown(MadeTar().add("x", MadeTar::record("GNU.sparse.major=1"), 'x').ended()) ==
        "t.tar: offset 0: member '' is a sparse file");
  CHECK(shown(MadeTar().add("p", "", '6').ended()) == "t.tar: offset 0: member 'p' is neither a file nor a folder");
  Bytes joined = MadeTar().add("a", "1").ended(), second = MadeTar().add("b", "2").ended();
  joined.insert(joined.end(), second.begin(), second.end());
  CHECK(shown(joined) == "a=1;t.tar: offset 1536: other bytes follow the end of the tar file");
  Bytes flipped = MadeTar().add("a", "1").ended();
  flipped[3] ^= 1;
  CHECK(shown(flipped) == "t.tar: offset 0: this is no header of a tar file: its checksum is another");
}

TEST_CASE("tar: more members than a shard may have are refused, and none of them is kept") {
  const Bytes one = MadeTar().add("a", "").bytes;
  const auto read = [&](std::uint64_t, void* to, std::size_t count) {
    std::ranges::copy(ByteView(one).first(count), static_cast<std::uint8_t*>(to));
    return count;
  };
  std::uint64_t seen = 0;
  try {
    formats::read_tar(read, std::uint64_t{1} << 40, "t.tar", [&](formats::TarMember&&) { ++seen; });
    FAIL("read a terabyte of members");
  } catch (const Error& error) {
    CHECK(error.message == "t.tar: offset 536870912: more than 1048576 members");
  }
  CHECK(seen == formats::kMostTarMembers);
}

TEST_CASE("tar: damage anywhere is an error or another reading, never more") {
  const Bytes whole =
      MadeTar().add("x", MadeTar::record("path=q"), 'x').add("a", "1").add("L", "n", 'L').add("b", "2").ended();
  std::mt19937 random(4);
  for (int i = 0; i < 3000; ++i) {
    Bytes damaged = whole;
    for (int change = 0; change < 1 + i % 4; ++change)
      damaged[random() % damaged.size()] = static_cast<std::uint8_t>(random());
    for (std::size_t header = 0; header + 512 <= damaged.size() && i % 2; header += 1024)
      set_checksum(damaged.data() + header);
    (void)shown(damaged);
  }
}
