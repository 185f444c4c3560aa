// Tar shards as a source of photos: names of splits, the bits of a class folder, many shards read from many threads.

#include <fmt/format.h>

#include "data/dataset.h"
#include "data/kinds/photo_files.h"
#include "data/kinds/photo_shards.h"
#include "data/kinds/photos.h"
#include "stored_dataset.h"
#include "tests/made_tar.h"

using namespace mlx;
using namespace mlx::data;

namespace {

Bytes grey(int side, int value) {
  Bytes out = to_bytes(fmt::format("P5 {} {} 255\n", side, side));
  for (int i = 0; i < side * side; ++i) out.push_back(static_cast<std::uint8_t>(value * 7 + i));
  return out;
}

Images load_split(StoredDataset& dataset, const Digest& id, std::int64_t budget, const std::string& split = "train") {
  Reading reading;
  reading.photos.height = reading.photos.width = 4;
  if (budget >= 0) reading.budget = MemoryBudget(budget, dataset.folder.path());
  NoProgress progress;
  return load_photos(stored_split(*dataset.store, id, split), reading, progress);
}

}  // namespace

TEST_CASE("shards: names say the split") {
  CHECK(split_of_shard("train.tar") == "train");
  CHECK(split_of_shard("a/imagenet-train-000012.tar") == "train");
  CHECK(split_of_shard("val_00001-of-00128.tar") == "valid");
  CHECK(split_of_shard("test/000.tar") == "test");
  CHECK(split_of_shard("shards/000.tar") == "");
  CHECK(split_of_shard("training.tar") == "");
  CHECK(is_shard("a/b.tar"));
  CHECK(is_shard("a.tgz"));
  CHECK(is_shard("a.tar.zst"));
  CHECK_FALSE(is_shard("a/.b.tar"));
  CHECK_FALSE(is_shard("a.tar.xz"));
  StoredDataset dataset;
  const Bytes shard = MadeTar().add("a.pgm", grey(4, 1)).add("a.cls", "x").ended();
  CHECK(splits(*dataset.store, dataset.add({{"1.tar", shard}, {"2.tar", shard}})) == std::vector<std::string>{"train"});
  // A tar file beside other data is not taken for it.
  const Digest rows = dataset.add({{"train.csv", to_bytes("a,b\n1,2\n")}, {"train.tar", shard}});
  CHECK(std::string(kind_of(*dataset.store, rows, "train").name) == "rows");
}

TEST_CASE("shards: photos have the bits of a class folder, from memory or decoded again, on any thread") {
  StoredDataset dataset;
  std::vector<std::pair<std::string, Bytes>> folder, shards;
  for (int label = 0; label < 2; ++label)
    for (int i = 0; i < 100; ++i) {
      const Bytes photo = grey(4 + i % 3, label * 100 + i);
      const std::string name = fmt::format("{}/{:03}", label == 0 ? "cat" : "dog", i);
      folder.emplace_back("train/" + name + ".pgm", photo);
      shards.emplace_back(fmt::format("train-{:04}.tar", label * 100 + i),  // more shards than stay open
                          MadeTar().add(name + ".pgm", photo).add(name + ".cls", label == 0 ? "cat\n" : "dog").ended());
    }
  const Images expected = load_split(dataset, dataset.add(folder), -1);
  const Digest id = dataset.add(shards);
  for (const std::int64_t budget : {-1, 0}) {
    const Images images = load_split(dataset, id, budget);
    REQUIRE(images.count == 200);
    CHECK(images.labels == expected.labels);
    CHECK(images.class_names == expected.class_names);
    for (std::int64_t i = 0; i < images.count; ++i) CHECK(images.source->content(i) == expected.source->content(i));
    std::vector<int> same(200);
    dataset.pool.run(200, [&](std::int64_t i) {
      Bytes one, other;
      same[static_cast<std::size_t>(i)] =
          std::equal(images.at(i, one), images.at(i, one) + images.image_bytes(), expected.at(i, other));
    });
    CHECK(std::ranges::count(same, 1) == 200);
  }
  // The parts of a division are the same photos, by which columns do not count.
  const Division division{{.by = DivideBy::kStratified, .test = 0.25, .seed = 9}};
  const auto names = [&](const std::vector<std::pair<std::string, Bytes>>& files) {
    std::vector<std::string> out;
    for (const PhotoFile& photo : photos_of(stored_split(*dataset.store, dataset.add(files), "test", &division)))
      out.push_back(photo.path.substr(photo.path.find_last_of('/') - 3));
    return out;
  };
  CHECK(names(folder).size() == 50);
  CHECK(names(folder) == names(shards));
}

TEST_CASE("shards: the first bad shard is named, whatever the threads") {
  StoredDataset dataset;
  std::vector<std::pair<std::string, Bytes>> shards;
  shards.reserve(20);
  for (int i = 0; i < 20; ++i)
    shards.emplace_back(fmt::format("train-{:02}.tar", i),
                        MadeTar().add("a.pgm", grey(4, i)).add("a.cls", i % 7 == 3 ? "" : "x").ended());
  const Digest id = dataset.add(shards);
  for (int again = 0; again < 5; ++again)
    CHECK_THROWS_WITH_AS((void)load_split(dataset, id, -1),
                         "train-03.tar:a.cls: the label is empty (offset 1024 of the shard)", Error);
}

TEST_CASE("shards: samples that are refused name shard, member and offset") {
  StoredDataset dataset;
  const auto refused = [&](const Bytes& shard) -> std::string {
    try {
      (void)load_split(dataset, dataset.add({{"train.tar", shard}}), -1);
    } catch (const Error& error) {
      return error.message;
    }
    return "no error";
  };
  const Bytes photo = grey(4, 1);
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.PGM", photo).ended()) ==
        "train.tar:a.PGM: the sample has two members .pgm (offset 1024 of the shard)");
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.seg.pgm", photo).ended()) ==
        "train.tar:a.seg.pgm: the sample has two photos, this and 'a.pgm' (offset 1024 of the shard)");
  CHECK(refused(MadeTar().add("a.pgm", photo).add("b.pgm", photo).add("a.cls", "x").ended()) ==
        "train.tar:a.cls: sample 'a' occurs again (offset 2048 of the shard)");
  CHECK(refused(MadeTar().add("a.cls", "x").add("b.pgm", photo).ended()) ==
        "train.tar:a.cls: the sample has no photo (offset 0 of the shard)");
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.cls", "x").add("b.pgm", photo).ended()) ==
        "train.tar:b.pgm: the sample has no label");
  CHECK(refused(MadeTar().add("a.pgm", photo).add("b.pgm", photo).ended()) ==
        "train.tar:a.pgm: the sample has no label");
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.txt", "two\nlines").ended()).find("is not one line of text") !=
        std::string::npos);
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.cls", std::string(4097, 'x')).ended())
            .find("too much for a label") != std::string::npos);
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.json", R"({"label": [1, 2]})").ended()) ==
        "train.tar:a.json: 'label': expected a name or a whole number, got array (offset 1024 of the shard)");
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.json", R"({"label": 1.5})").ended()).find("got number") !=
        std::string::npos);
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.json", "[1]").ended()).find("expected an object, got array") !=
        std::string::npos);
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.json", "{").ended()).starts_with("train.tar:a.json: line 1"));
  CHECK(refused(MadeTar().add("a.pgm", photo).add("a.json", R"({"boxes": 1})").ended()) ==
        "train.tar:a.pgm: the sample has no label");
  CHECK(refused(MadeTar().add("README", "x").add("__info__.json", "x").add("a/.b.pgm", "x").ended()) ==
        "train.tar: there is no sample in the shards");
  MadeTar many;
  many.add("a.pgm", photo);
  for (int i = 0; i < 64; ++i) many.add(fmt::format("a.{}", i), "");
  CHECK(refused(many.ended()) == "train.tar:a.63: the sample has more than 64 members (offset 33280 of the shard)");
}
