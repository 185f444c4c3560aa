// A small learnable dataset: noisy 12x12 images of three bar patterns, as IDX files, added to a repository.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/path.h"
#include "data/kinds/images.h"
#include "kernels/philox.h"
#include "registry/sync/open_repository.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/pointers.h"
#include "store/worktree/scan.h"

namespace mlx::synthetic {

inline void put_big_endian(Bytes& out, std::uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::uint8_t>(v >> shift));
}

inline constexpr std::uint32_t kSide = 12;

inline data::Images make_examples(std::uint32_t count, std::uint64_t stream) {
  data::Images out;
  out.count = count;
  out.height = out.width = kSide;
  out.channels = 1;
  out.classes = 3;
  out.class_names = {"0", "1", "2"};
  Bytes pixels;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t label = i % 3;
    out.labels.push_back(static_cast<std::int32_t>(label));
    for (std::uint32_t y = 0; y < kSide; ++y) {
      for (std::uint32_t x = 0; x < kSide; ++x) {
        const std::uint32_t at = label == 0 ? x : label == 1 ? y : x + y;
        const std::uint32_t noise = kernels::random_u32(7, stream, i, y * kSide + x) % 90;
        pixels.push_back(static_cast<std::uint8_t>((at % 4 < 2 ? 140 : 10) + noise));
      }
    }
  }
  data::SpoolWriter writer(out.image_bytes(), {});
  writer.append(pixels.data(), out.count);
  out.pixels = writer.finish();
  return out;
}

inline void write_split(const std::string& folder, const std::string& name, std::uint32_t count, std::uint64_t stream) {
  const data::Images examples = make_examples(count, stream);
  Bytes images, labels;
  put_big_endian(images, 0x803);
  for (const std::uint32_t dim : {count, kSide, kSide}) put_big_endian(images, dim);
  const std::size_t header = images.size();
  images.resize(header + static_cast<std::size_t>(count) * kSide * kSide);
  examples.pixels->read(0, examples.count, images.data() + header);
  put_big_endian(labels, 0x801);
  put_big_endian(labels, count);
  labels.insert(labels.end(), examples.labels.begin(), examples.labels.end());
  make_folders(folder);
  write_file_atomically(join_path(folder, name + "-images-idx3-ubyte"), images);
  write_file_atomically(join_path(folder, name + "-labels-idx1-ubyte"), labels);
}

// A repository in `folder` with data/bars@v1 (300 train, 99 test) and its pointer.
inline void make_repository(const std::string& folder, store::Disk& disk, Pool& pool) {
  registry::Repository::init(folder, disk);
  const std::string data = join_path(folder, "data/bars");
  write_split(data, "train", 300, 1);
  write_split(data, "test", 99, 2);
  registry::Repository repository = registry::open_repository(folder, disk, pool);
  NoProgress silent;
  const store::ManifestSummary summary =
      store::add_folder(repository.store(), data, nullptr, &repository.stat_cache(), pool, silent);
  registry::write_pointer(repository,
                          {"data/bars", registry::ArtifactKind::kDataset, summary.id, summary.files, summary.bytes});
  registry::NewVersion version;
  version.artifact = "data/bars";
  version.manifest = summary;
  version.message = "bars";
  registry::create_version(repository, version);
}

inline const char* const kConfig = R"([data]
dataset = "data/bars"
hold_out = 44
augment = { shift = 1 }

[model]
name = "clf"
family = "cnn"
layers = [
  { conv = 8, kernel = 3, norm = "batch", activation = "relu" },
  { pool = "max", size = 2 },
  { conv = 16, kernel = 3, norm = "batch", activation = "relu" },
  { pool = "max", size = 2 },
  { dropout = 0.1 },
  { flatten = true },
  { dense = 32, activation = "relu" },
]

[train]
epochs = 3
batch = 32
seed = 5
learning_rate = 0.05
checkpoint_every = 0.5
)";

}  // namespace mlx::synthetic
