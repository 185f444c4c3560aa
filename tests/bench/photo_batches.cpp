// Reads a folder of JPEGs from a store as training does: read, decoded, augmented and normalised in batches, on two
// threads, none kept in memory. Prints photos, seconds and seconds of processor time of the best epoch, which images.py
// compares with other loaders:
// `bench_images FOLDER crop|middle|colours [EPOCHS]`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "base/path.h"
#include "data/dataset.h"
#include "data/kinds/photos.h"

using namespace mlx;
using namespace mlx::data;

namespace {

Digest store_folder(const std::filesystem::path& folder, store::Store& store) {
  const auto batch = store.begin();
  std::vector<store::Entry> entries;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    const Bytes bytes = read_file(file.path());
    const std::string path = "train/" + std::filesystem::relative(file.path(), folder).string();
    entries.push_back({path, store::kModeFile, bytes.size(), batch->add_blob(bytes)});
  }
  const Digest id = batch->add_manifest(entries).id;
  batch->commit();
  return id;
}

struct Taken {
  double seconds = 1e9, processor = 1e9;
  std::int64_t photos = 0;
};

Taken time_epoch(BatchSource& source, std::uint64_t epoch) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t before = std::clock();
  Taken taken;
  source.start(epoch);
  while (const BatchView* const batch = source.next()) taken.photos += batch->count;
  taken.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  taken.processor = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string_view change = argv[2];
  const int epochs = argc > 3 ? std::atoi(argv[3]) : 3;
  const TempFolder folder;
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  Pool pool(2);
  store::Store::create(folder.path() + "/.mlx", *disk);
  store::Store store(folder.path() + "/.mlx", *disk, pool);
  const Digest id = store_folder(argv[1], store);

  Reading reading;
  reading.photos = {.height = 224, .width = 224, .fit = Fit::kCrop};
  reading.budget = {1, ""};
  NoProgress silent;
  const DatasetPtr dataset = load(store, id, "train", reading, silent);
  BatchOptions options{.batch = 64, .seed = 1, .shuffle = true, .augment = {.flip = true}};
  Augment& augment = options.augment;
  if (change != "middle") augment.crop = 0.08;
  if (change == "colours") {
    augment.rand_operations = 2, augment.rand_magnitude = 9;
    augment.brightness = augment.contrast = augment.saturation = 0.4, augment.hue = 0.1;
  }
  const std::unique_ptr<BatchSource> source = dataset->batches(dataset->measure(nullptr), options, pool);
  Taken best;
  for (int i = 0; i < epochs; ++i) {
    const Taken taken = time_epoch(*source, static_cast<std::uint64_t>(i));
    best = {std::min(best.seconds, taken.seconds), std::min(best.processor, taken.processor), taken.photos};
  }
  fmt::print("{{\"seconds\": {}, \"processor\": {}, \"photos\": {}}}\n", best.seconds, best.processor, best.photos);
  return 0;
}
