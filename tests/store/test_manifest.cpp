// Manifests: one set of files has one encoding and its shards depend on the files alone; nothing else is accepted.
#include "base/foreign_files.h"
#include "fixture.h"
#include "store/format/manifest.h"

using namespace mlx;
using namespace mlx::store;

namespace {

std::vector<Entry> make_entries(int count) {
  std::vector<Entry> entries;
  for (int i = 0; i < count; ++i) {
    std::string path = fmt::format("folder{:03}/file{:06}", i / 100, i);
    entries.push_back({path, i % 3 ? kModeFile : kModeExecutable, static_cast<std::uint64_t>(i), Digest::of(path)});
  }
  return entries;
}

Bytes shard_with(std::string_view path, std::uint64_t mode, std::uint64_t count = 1) {
  ByteWriter out;
  out.raw(as_bytes("MLXS"));
  out.u16(1);
  out.u8(1);
  out.u8(0);
  out.varint(count);
  out.sized(as_bytes(path));
  out.varint(mode);
  out.varint(5);
  out.raw(Digest::of("x").bytes);
  return out.take();
}

}  // namespace

TEST_CASE("shards and roots read back") {
  std::vector<Entry> entries = make_entries(20'000);
  auto shards = cut_shards(entries);
  CHECK(shards.size() > 5);
  CHECK(shards.size() < 60);
  std::vector<Entry> together;
  std::vector<ShardRef> refs;
  for (const auto& shard : shards) {
    std::vector<Entry> decoded = decode_shard(encode_shard(shard));
    CHECK(std::ranges::equal(decoded, shard));
    together.insert(together.end(), decoded.begin(), decoded.end());
    refs.push_back({shard.front().path, Digest::of(encode_shard(shard)), shard.size(), 7});
  }
  CHECK(together == entries);
  std::vector<ShardRef> decoded = decode_root(encode_root(refs));
  REQUIRE(decoded.size() == refs.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    CHECK(decoded[i].first_path == refs[i].first_path);
    CHECK(decoded[i].id == refs[i].id);
    CHECK(decoded[i].files == refs[i].files);
  }
  CHECK(decode_root(encode_root({})).empty());
}

TEST_CASE("one changed file changes one shard") {
  const std::vector<Entry> entries = make_entries(20'000);
  std::vector<Entry> edited = entries;
  edited[7777].content = Digest::of("changed");
  auto before = cut_shards(entries);
  auto after = cut_shards(edited);
  REQUIRE(before.size() == after.size());
  int changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) changed += !std::ranges::equal(before[i], after[i]);
  CHECK(changed == 1);
}

TEST_CASE("what encoding would not have written is kCorrupt") {
  auto shard = [](const Bytes& bytes) { return error_of([&] { decode_shard(bytes); }); };
  CHECK(shard(shard_with("good/path", kModeFile)) == std::nullopt);
  for (const char* path :
       {"", "/absolute", "../up", "a/../b", "a//b", "./a", "a/", ".", ".git/hooks/x", "a/.GIT/config", "a/.mlx"}) {
    CAPTURE(path);
    CHECK(shard(shard_with(path, kModeFile)) == ErrorKind::kCorrupt);
  }
  CHECK(shard(shard_with(std::string_view("nul\0", 4), kModeFile)) == ErrorKind::kCorrupt);
  CHECK(shard(shard_with("a", 0100666)) == ErrorKind::kCorrupt);
  CHECK(shard(shard_with("a", kModeFile + (std::uint64_t{1} << 32))) == ErrorKind::kCorrupt);
  CHECK(shard(shard_with("a", kModeFile, 0)) == ErrorKind::kCorrupt);
  CHECK(shard(shard_with("a", kModeFile, 2)) == ErrorKind::kCorrupt);
  CHECK(shard(shard_with("a", kModeFile, ~std::uint64_t{0})) == ErrorKind::kCorrupt);
  Bytes more = shard_with("a", kModeFile);
  more.push_back(0);
  CHECK(shard(more) == ErrorKind::kCorrupt);
  Entry a{"a", kModeFile, 1, {}}, b{"b", kModeFile, 1, {}};
  CHECK(shard(encode_shard(std::vector{b, a})) == ErrorKind::kCorrupt);
  CHECK(shard(encode_shard(std::vector{a, a})) == ErrorKind::kCorrupt);
  Entry huge{"c", kModeFile, ~std::uint64_t{0}, {}};
  CHECK(shard(encode_shard(std::vector{a, huge})) == ErrorKind::kCorrupt);
}

TEST_CASE("a shard that goes on behind its end is kCorrupt") {
  std::vector<Entry> entries = make_entries(20'000);
  auto shards = cut_shards(entries);
  std::vector<Entry> joined(shards[0].begin(), shards[0].end());
  joined.insert(joined.end(), shards[1].begin(), shards[1].end());
  CHECK(error_of([&] { decode_shard(encode_shard(joined)); }) == ErrorKind::kCorrupt);
}

TEST_CASE("a path that is a file and a folder is found") {
  auto entries = [](const std::vector<std::string>& paths) {
    std::vector<Entry> list;
    list.reserve(paths.size());
    for (const auto& path : paths) list.push_back({path, kModeFile, 0, {}});
    return list;
  };
  CHECK(find_path_clash(entries({"a", "a-b", "a/b"})) == "a");
  CHECK(find_path_clash(entries({"a/b", "a/b/c/d"})) == "a/b");
  CHECK_FALSE(find_path_clash(entries({"a-b", "a/b", "ab", "b"})).has_value());
}

TEST_CASE("summarize says what storing says") {
  TestStore t;
  std::vector<Entry> entries;
  for (int i = 0; i < 5000; ++i) {
    const std::string content = std::to_string(i);
    entries.push_back({fmt::format("folder/{:05}", i), kModeFile, content.size(), Digest::of(content)});
  }
  const auto batch = t.store->begin();
  CHECK(batch->add_manifest(entries) == summarize(entries));
  CHECK(batch->add_manifest({}) == summarize({}));
}

TEST_CASE("bug: paths of any length came in with a manifest, and deep ones took hours to look through") {
  CHECK(is_too_long(std::string(256, 'a')));
  CHECK_FALSE(is_too_long(std::string(255, 'a') + "/" + std::string(255, 'b')));
  std::string deep = "f";
  while (deep.size() < 4095) deep.insert(0, "a/");
  CHECK_FALSE(is_too_long(deep));
  CHECK(is_too_long("a/" + deep));
  CHECK(decode_shard(shard_with(deep, kModeFile)).size() == 1);
  CHECK(error_of([&] { decode_shard(shard_with("a/" + deep, kModeFile)); }) == ErrorKind::kCorrupt);
  CHECK(error_of([&] { decode_shard(shard_with(std::string(256, 'a'), kModeFile)); }) == ErrorKind::kCorrupt);
  TestStore t;
  const auto batch = t.store->begin();
  CHECK(error_of([&] { batch->add_manifest({{"a/" + deep, kModeFile, 0, Digest::of("")}}); }) == ErrorKind::kUsage);
  // 80 MB of folders that no other path shares: far too many for a search that looks up each of them.
  std::vector<Entry> entries;
  for (int i = 0; i < 20'000; ++i) entries.push_back({fmt::format("{:06}/{}", i, deep.substr(8)), kModeFile, 0, {}});
  CHECK_FALSE(find_path_clash(entries).has_value());
  entries.push_back({entries.back().path + "/x", kModeFile, 0, {}});
  CHECK(find_path_clash(entries) == entries[19'999].path);
}
