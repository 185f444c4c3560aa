// A store in a temporary folder and IDX files made in memory: the fixtures of the readers' tests.
#pragma once

#include <doctest/doctest.h>
#include <zlib.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/path.h"
#include "data/kinds/images.h"
#include "formats/idx.h"
#include "store/pack/store.h"

namespace mlx::data {

struct StoredDataset {
  TempFolder folder;
  std::unique_ptr<store::Disk> disk = store::real_disk();
  Pool pool{2};
  std::unique_ptr<store::Store> store;

  StoredDataset() {
    store::Store::create(folder.path() + "/.mlx", *disk);
    store = std::make_unique<store::Store>(folder.path() + "/.mlx", *disk, pool);
  }
  Digest add(const std::vector<std::pair<std::string, Bytes>>& files) {
    const auto batch = store->begin();
    std::vector<store::Entry> entries;
    for (const auto& [path, bytes] : files) {
      entries.push_back({path, store::kModeFile, bytes.size(), batch->add_blob(bytes)});
    }
    const Digest id = batch->add_manifest(entries).id;
    batch->commit();
    return id;
  }
};

inline Bytes idx(std::vector<std::uint32_t> dims, const Bytes& elements) {
  Bytes out = formats::encode_idx_header(formats::IdxType::kU8, dims);
  out.insert(out.end(), elements.begin(), elements.end());
  return out;
}

inline Bytes ramp(std::size_t count, unsigned factor = 37) {
  Bytes out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(i * factor + i / 251);
  return out;
}

inline Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(deflateBound(&stream, plain.size()) + 32);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  const auto end = out.begin() + (stream.next_out - out.data());
  deflateEnd(&stream);
  return {out.begin(), end};
}

}  // namespace mlx::data
