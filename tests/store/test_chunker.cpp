// Cutting: sizes within bounds, resynchronised after a change, and at the tensors of formats that are known.
#include <algorithm>
#include <set>

#include "fixture.h"
#include "formats/safetensors.h"
#include "store/format/chunker.h"

using namespace mlx;
using namespace mlx::store;

namespace {

std::vector<std::size_t> cuts_of(ByteView data, std::vector<Stretch> stretches = {}) {
  Cutter cutter(std::move(stretches));
  std::vector<std::size_t> ends;
  std::size_t offset = 0;
  while (offset < data.size()) {
    std::size_t length = cutter.next(offset, data.subspan(offset), true);
    REQUIRE(length > 0);
    offset += length;
    ends.push_back(offset);
  }
  return ends;
}

}  // namespace

TEST_CASE("chunks keep to their bounds and near the target") {
  Bytes data = random_bytes(20'000'000, 1);
  auto ends = cuts_of(data);
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    CHECK(ends[i] - begin > kMinChunk);
    CHECK(ends[i] - begin <= kMaxChunk);
    begin = ends[i];
  }
  double mean = 20e6 / static_cast<double>(ends.size());
  CHECK(mean > 45'000);
  CHECK(mean < 90'000);
  CHECK(cuts_of(Bytes(1'000'000)).size() == (1'000'000 + kMaxChunk - 1) / kMaxChunk);  // no content to cut by
}

TEST_CASE("the gear table and masks stay as the format page says: cuts of fixed bytes") {
  // With other cuts, new versions would share no chunks with stored ones.
  Bytes data(600'000);
  std::uint32_t state = 12345;
  for (auto& byte : data) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  auto plain = [&](std::size_t begin) {
    // The definition, one byte at a time.
    std::uint64_t seed = 0x6d6c782d67656172, gear[256];
    for (auto& value : gear) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t z = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      value = z ^ (z >> 31);
    }
    std::uint64_t h = 0;
    std::size_t limit = std::min<std::size_t>(data.size() - begin, 131072);
    if (limit <= 8192) return begin + limit;
    for (std::size_t i = 8192; i < limit; ++i) {
      h = 2 * h + gear[data[begin + i]];
      if ((h >> (i < 65536 ? 64 - 17 : 64 - 15)) == 0) return begin + i + 1;
    }
    return begin + limit;
  };
  std::size_t begin = 0;
  for (std::size_t end : cuts_of(data)) {
    CHECK(end == plain(begin));
    begin = end;
  }
}

TEST_CASE("cuts find back behind an insertion") {
  Bytes data = random_bytes(5'000'000, 2);
  auto before = cuts_of(data);
  data.insert(data.begin() + 2'000'000, 64, 7);
  auto after = cuts_of(data);
  std::set<std::size_t> shifted;
  for (std::size_t end : before) shifted.insert(end > 2'000'000 ? end + 64 : end);
  auto kept = std::count_if(after.begin(), after.end(), [&](std::size_t end) { return shifted.contains(end); });
  CHECK(kept > static_cast<std::ptrdiff_t>(after.size()) - 8);
}

TEST_CASE("safetensors are cut behind the header, at every tensor and every 64 KiB of it") {
  std::vector<formats::SafetensorsEntry> tensors{{"a", "U8", {200'000}}, {"b", "U8", {1000}}, {"c", "U8", {65'536}}};
  Bytes file = formats::encode_safetensors_header(tensors);
  std::size_t data_begin = file.size();
  Bytes data = random_bytes(266'536, 3);
  file.insert(file.end(), data.begin(), data.end());
  auto ends = cuts_of(file, cut_points(file, file.size()));
  std::vector<std::size_t> expected{data_begin,           data_begin + 65'536,  data_begin + 131'072,
                                    data_begin + 196'608, data_begin + 200'000, data_begin + 201'000,
                                    data_begin + 266'536};
  CHECK(ends == expected);

  SUBCASE("a damaged header is cut by content") {
    file[9] = 0xff;
    CHECK(cut_points(file, file.size()).empty());
  }
  SUBCASE("tensors in another order are stored once") {
    TestStore t;
    t.add_blob(file);
    std::uint64_t before = t.store->stat().stored_bytes;
    std::vector<formats::SafetensorsEntry> turned{
        {"c", "U8", {65'536}}, {"other", "U8", {200'000}}, {"b", "U8", {1000}}};
    Bytes second = formats::encode_safetensors_header(turned);
    second.insert(second.end(), data.begin() + 201'000, data.end());
    second.insert(second.end(), data.begin(), data.begin() + 201'000);
    Digest id = t.add_blob(second);
    CHECK(t.store->stat().stored_bytes - before < 2000);
    CHECK(t.store->read_blob(id) == second);
  }
}

TEST_CASE("npy files are cut behind the header") {
  Bytes file = to_bytes(std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  file.resize(128, ' ');
  Bytes data = random_bytes(100'000, 4);
  file.insert(file.end(), data.begin(), data.end());
  CHECK(cuts_of(file, cut_points(file, file.size())) == std::vector<std::size_t>{128, 65'664, 100'128});
}
