// Photos as a dataset: splits, labels and order out of folders and tables, bad photos, and the same bytes with and
// without the cache.

#include <fmt/format.h>

#include <algorithm>

#include "base/toml.h"
#include "data/dataset.h"
#include "data/kinds/photos.h"
#include "stored_dataset.h"

using namespace mlx;
using namespace mlx::data;

namespace {

// A photo of one colour.
Bytes ppm(int height, int width, std::uint8_t value) {
  Bytes out = to_bytes(fmt::format("P6 {} {} 255\n", width, height));
  out.insert(out.end(), static_cast<std::size_t>(height * width * 3), value);
  return out;
}

Reading sized(std::int64_t size) {
  Reading reading;
  reading.photos.height = reading.photos.width = size;
  return reading;
}

Images load_train(StoredDataset& dataset, const Digest& id, const Reading& reading) {
  NoProgress progress;
  return load_photos(stored_split(*dataset.store, id, "train"), reading, progress);
}

std::string failure(StoredDataset& dataset, const Digest& id, const Reading& reading) {
  try {
    (void)load_train(dataset, id, reading);
  } catch (const Error& error) {
    return error.message;
  }
  return "no error";
}

}  // namespace

TEST_CASE("photos: class folders, with folders around them, sorted; hidden files are left out") {
  StoredDataset dataset;
  const Digest id = dataset.add({{"pets/train/dog/b/2.ppm", ppm(4, 4, 20)},
                                 {"pets/train/cat/9.PPM", ppm(4, 4, 10)},
                                 {"pets/train/cat/._9.ppm", to_bytes("none")},
                                 {"pets/val/dog/1.ppm", ppm(4, 4, 30)},
                                 {"train.csv", to_bytes("a,b\n1,2\n")}});
  CHECK(splits(*dataset.store, id) == std::vector<std::string>{"train", "valid"});
  const Images images = load_train(dataset, id, {});
  CHECK(images.count == 2);
  CHECK(images.class_names == std::vector<std::string>{"cat", "dog"});
  CHECK(images.labels == std::vector<std::int32_t>{0, 1});
  Bytes scratch;
  CHECK(images.at(1, scratch)[0] == 20);
  // The valid split has the numbers of the training's classes, also where it lacks some.
  Reading reading;
  reading.classes = images.class_names;
  CHECK(describe_photos(stored_split(*dataset.store, id, "valid"), reading).labels == std::vector<std::int32_t>{1});
}

TEST_CASE("photos: most files decide whether a table is one of labels and folders are classes") {
  StoredDataset dataset;
  const Digest rows = dataset.add({{"train.csv", to_bytes("a,b\n1,2\n")}, {"plots/a.ppm", ppm(2, 2, 0)}});
  CHECK(std::string(kind_of(*dataset.store, rows, "train").name) == "rows");
  const Digest labels = dataset.add({{"train.csv", to_bytes("file,class\nb.ppm,10\na.ppm,9\n")},
                                     {"p/a.ppm", ppm(2, 2, 1)},
                                     {"p/b.ppm", ppm(2, 2, 2)},
                                     {"p/c.ppm", ppm(2, 2, 3)}});
  const Images images = load_train(dataset, labels, {});
  CHECK(images.class_names == std::vector<std::string>{"9", "10"});
  CHECK(images.labels == std::vector<std::int32_t>{1, 0});
  const Digest folders = dataset.add({{"x/a/1.ppm", ppm(2, 2, 1)}, {"x/b/1.ppm", ppm(2, 2, 2)}});
  CHECK(load_train(dataset, folders, {}).class_names == std::vector<std::string>{"a", "b"});
}

TEST_CASE("photos: the cache and bad photos change no bit of the others") {
  StoredDataset dataset;
  std::vector<std::pair<std::string, Bytes>> files;
  for (int i = 0; i < 20; ++i)
    files.push_back({fmt::format("train/c{}/{:02}.ppm", i % 2, i), ppm(6, 9, static_cast<std::uint8_t>(11 * i))});
  files[7].second.resize(30);
  std::ranges::sort(files);
  const Digest id = dataset.add(files);
  Reading reading = sized(4);
  CHECK(failure(dataset, id, reading).find("train/c1/07.ppm") == 0);
  reading.photos.skip_share = 0.04;  // of 20: none
  CHECK(failure(dataset, id, reading).find("skip_bad allows 0") != std::string::npos);
  reading.photos.skip_count = 1;
  reading.photos.skip_share = 0;
  const Images cached = load_train(dataset, id, reading);
  reading.budget = {3 * 4 * 4 * 3, ""};  // three images
  const Images decoded = load_train(dataset, id, reading);
  CHECK(cached.count == 19);
  CHECK(cached.photos.skipped.size() == 1);
  CHECK(cached.labels == decoded.labels);
  Bytes a, b;
  for (std::int64_t i = 0; i < cached.count; ++i)
    CHECK(std::equal(cached.at(i, a), cached.at(i, a) + 48, decoded.at(i, b)));
  CHECK(measure(cached, IndexSet(0, 19)).mean == measure(decoded, IndexSet(0, 19)).mean);
}

TEST_CASE("photos: errors name the files") {
  StoredDataset dataset;
  const Digest sizes = dataset.add({{"train/a/1.ppm", ppm(2, 3, 1)}, {"train/b/2.ppm", ppm(3, 2, 1)}});
  CHECK(failure(dataset, sizes, {}) ==
        "photos have different sizes: train/a/1.ppm is 2x3, train/b/2.ppm is 3x2 (height x width)");
  const Digest loose = dataset.add({{"train/a/1.ppm", ppm(2, 2, 1)}, {"train/2.ppm", ppm(2, 2, 1)}});
  CHECK(failure(dataset, loose, {}) == "train/2.ppm: this photo is in no class folder");
  const Digest twice = dataset.add(
      {{"labels.csv", to_bytes("image,label\n1.ppm,x\n1.ppm,y\n")}, {"1.ppm", ppm(2, 2, 1)}, {"2.ppm", ppm(2, 2, 1)}});
  CHECK(failure(dataset, twice, {}) == "labels.csv: line 3: '1.ppm' occurs twice");
}
