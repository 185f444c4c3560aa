// multi.idx: one sorted table over many packs (mlx-format-pack(5)), so that a store with thousands of packs opens and
// answers like one with a few. It is a cache: a damaged or outdated one is ignored, and a writer makes a new one once
// enough packs stand outside it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/interruption.h"
#include "store/format/pack_format.h"

namespace mlx::store {

struct Location;

// A mapped multi.idx.
struct MultiIndex {
  MappedFile file;
  std::vector<Digest> ids;  // of the packs
  RecordTable table;
  ByteView pack_numbers;  // of each record's pack in `ids`
  std::uint32_t pack_number(std::uint64_t record) const;
};
// nullptr if the file is absent or damaged.
std::shared_ptr<const MultiIndex> open_multi_index(const std::string& path);
// The file's bytes. Where an object stands in several packs, the first one counts.
Bytes encode_multi_index(const std::vector<Digest>& packs, std::vector<Location> locations);
// Reads every byte of multi.idx in `folder`; the problems, one line each. A file that names an absent pack is only
// outdated, which is no problem.
std::vector<std::string> verify_multi_index(const std::string& folder, const Interruption& interruption);

}  // namespace mlx::store
