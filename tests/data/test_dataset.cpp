// Splits out of the store: which files form them, what is read, and what is said of files that are wrong.

#include <random>

#include "base/clock.h"
#include "base/fd.h"
#include "made_up.h"
#include "stored_dataset.h"

using namespace mlx;
using namespace mlx::data;

namespace {

const Bytes kPixels = ramp(5 * 4 * 3);
const Bytes kImages = idx({5, 4, 3}, kPixels);
const Bytes kLabels = idx({5}, {0, 2, 1, 0, 2});

Error failure(StoredDataset& dataset, const std::vector<std::pair<std::string, Bytes>>& files,
              const std::string& split = "train") {
  const Digest id = dataset.add(files);
  NoProgress progress;
  try {
    (void)load_images(*dataset.store, id, split, progress);
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  return Error(ErrorKind::kNo, "");
}

Error failure(StoredDataset& dataset, const Bytes& images, const Bytes& labels) {
  return failure(dataset, {{"train-images-idx3-ubyte", images}, {"train-labels-idx1-ubyte", labels}});
}

bool says(const Error& error, ErrorKind kind, const std::string& part) {
  const bool good = error.kind == kind && error.message.find(part) != std::string::npos;
  if (!good) MESSAGE("kind " << static_cast<int>(error.kind) << ": " << error.message << " | " << error.hint);
  return good;
}

}  // namespace

TEST_CASE("dataset: splits by names, plain and gzip, in folders, three and four dimensions") {
  StoredDataset dataset;
  const Digest id = dataset.add({{"a/train-images-idx3-ubyte.gz", gzip(kImages)},
                                 {"a/train-labels-idx1-ubyte.gz", gzip(kLabels)},
                                 {"emnist-t10k-images.idx4-ubyte", idx({5, 2, 2, 3}, ramp(60))},
                                 {"emnist-t10k-labels.idx1-ubyte", kLabels},
                                 {"val-images-idx3-ubyte", kImages},
                                 {"val-images-idx3-ubyte.gz", to_bytes("never read: the plain one is")},
                                 {"val-labels-idx1-ubyte.gz", gzip(kLabels)},
                                 {"README", to_bytes("x")},
                                 {"other-images-idx3-ubyte", kImages}});
  CHECK(splits(*dataset.store, id) == std::vector<std::string>{"test", "train", "valid"});
  NoProgress progress;
  const Images train = load_images(*dataset.store, id, "train", progress);
  CHECK(train.count == 5);
  CHECK(train.height == 4);
  CHECK(train.width == 3);
  CHECK(train.channels == 1);
  CHECK(train.classes == 3);
  CHECK(train.class_names == std::vector<std::string>{"0", "1", "2"});
  CHECK(pixels_of(train) == kPixels);
  CHECK(train.labels == std::vector<std::int32_t>{0, 2, 1, 0, 2});
  const Images test = load_images(*dataset.store, id, "test", progress);
  CHECK(test.channels == 3);
  CHECK(test.height == 2);
  CHECK(pixels_of(load_images(*dataset.store, id, "valid", progress)) == kPixels);
}

TEST_CASE("dataset: labels of 32 bits, several gzip members, data larger than the windows") {
  StoredDataset dataset;
  const Bytes pixels = ramp(3000 * 40 * 50);
  const Bytes images = idx({3000, 40, 50}, pixels);
  Bytes members = gzip(Bytes(images.begin(), images.begin() + 1000000));
  const Bytes rest = gzip(Bytes(images.begin() + 1000000, images.end()));
  members.insert(members.end(), rest.begin(), rest.end());
  Bytes labels = formats::encode_idx_header(formats::IdxType::kS32, {3000});
  for (int i = 0; i < 3000; ++i)
    labels.insert(labels.end(), {0, 0, static_cast<std::uint8_t>(i % 2), static_cast<std::uint8_t>(i % 7)});
  const Digest id = dataset.add({{"train-images-idx3-ubyte.gz", members}, {"train-labels-idx1-ubyte", labels}});
  NoProgress progress;
  const Images examples = load_images(*dataset.store, id, "train", progress);
  CHECK(pixels_of(examples) == pixels);
  CHECK(examples.labels[6] == 6);
  CHECK(examples.labels[7] == 256);
  CHECK(examples.classes == 263);
}

TEST_CASE("dataset: dataset.toml declares splits and names, strictly") {
  StoredDataset dataset;
  const auto with = [&](const std::string& toml) {
    return std::vector<std::pair<std::string, Bytes>>{
        {"p.idx", kImages}, {"l.idx.gz", gzip(kLabels)}, {"dataset.toml", to_bytes(toml)}};
  };
  const std::string good =
      "[classes]\nnames = [\"a\", \"b\", \"c\", \"d\"]\n[splits.train]\nimages = \"p.idx\"\nlabels = \"l.idx.gz\"\n";
  NoProgress progress;
  const Images examples = load_images(*dataset.store, dataset.add(with(good)), "train", progress);
  CHECK(examples.classes == 4);
  CHECK(examples.class_names[3] == "d");

  CHECK(says(failure(dataset, with(good), "tset"), ErrorKind::kNotFound, "no split 'tset'"));
  CHECK(failure(dataset, with(good), "tset").hint == "it has: train");
  CHECK(says(failure(dataset, with("[classes]\nnames = [\"a\", \"b\"]\n" + good.substr(good.find("[splits")))),
             ErrorKind::kCorrupt, "l.idx.gz: label 2 of example 1 is outside of the 2 classes"));
  CHECK(says(failure(dataset, with("[clases]\n")), ErrorKind::kUsage, "dataset.toml:1: unknown key 'clases'"));
  CHECK(says(failure(dataset, with(good + "more = 1\n")), ErrorKind::kUsage,
             "dataset.toml:6: [splits.train] unknown key 'more'"));
  CHECK(says(failure(dataset, with("[splits.train]\nimages = \"p.idy\"\n")), ErrorKind::kUsage,
             "dataset.toml:2: [splits.train] images: the dataset has no file 'p.idy'; did you mean 'p.idx'?"));
  CHECK(says(failure(dataset, with("[splits.train]\nimages = \"p.idx\"\n")), ErrorKind::kUsage,
             "needs the key 'labels'"));
  CHECK(says(failure(dataset, with("[splits.\"a b\"]\nimages = \"p.idx\"\n")), ErrorKind::kUsage, "a split's name"));
  CHECK(says(failure(dataset, with("[classes]\nnames = [\"a\", \"a\"]\n")), ErrorKind::kUsage, "twice"));
  CHECK(says(failure(dataset, with("[classes\n")), ErrorKind::kUsage, "dataset.toml:1"));
}

TEST_CASE("dataset: what is missing or ambiguous is named") {
  StoredDataset dataset;
  CHECK(says(failure(dataset, {{"README", to_bytes("x")}}), ErrorKind::kNotFound, "has no split"));
  CHECK(says(failure(dataset, {}), ErrorKind::kNotFound, "has no split"));
  CHECK(says(failure(dataset, {{"train-images-idx3-ubyte", kImages}}), ErrorKind::kCorrupt,
             "train-images-idx3-ubyte: its labels"));
  CHECK(says(failure(dataset, {{"train-images-idx3-ubyte", kImages},
                               {"train-labels-idx1-ubyte", kLabels},
                               {"b/train-images-idx3-ubyte", kImages},
                               {"b/train-labels-idx1-ubyte", kLabels}}),
             ErrorKind::kCorrupt,
             "b/train-images-idx3-ubyte and train-images-idx3-ubyte would both be the split 'train'"));
}

TEST_CASE("dataset: wrong files are corrupt, with file, offset, expected and found") {
  StoredDataset dataset;
  const auto cut = [](const Bytes& bytes, std::size_t by) {
    return Bytes(bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(by));
  };
  const auto longer = [](Bytes bytes) { return bytes.push_back(7), bytes; };
  CHECK(says(failure(dataset, to_bytes("PK\x03\x04xxxxxxxxxxxx"), kLabels), ErrorKind::kCorrupt,
             "train-images-idx3-ubyte: offset 0: expected an IDX magic number"));
  CHECK(says(failure(dataset, cut(kImages, 7), kLabels), ErrorKind::kCorrupt,
             "the header promises 60 bytes after offset 16, found 53"));
  CHECK(says(failure(dataset, cut(kImages, 65), kLabels), ErrorKind::kCorrupt, "offset 11: the header has 16 bytes"));
  CHECK(says(failure(dataset, gzip(cut(kImages, 7)), kLabels), ErrorKind::kCorrupt,
             "promises 60 bytes after offset 16 of the uncompressed data, found 53"));
  CHECK(
      says(failure(dataset, longer(kImages), kLabels), ErrorKind::kCorrupt, "offset 76: expected the end of the file"));
  CHECK(says(failure(dataset, {}, kLabels), ErrorKind::kCorrupt, "is empty"));
  CHECK(says(failure(dataset, idx({0, 4, 3}, {}), idx({0}, {})), ErrorKind::kCorrupt, "holds no labels"));
  CHECK(says(failure(dataset, idx({0, 4, 3}, {}), kLabels), ErrorKind::kCorrupt, "holds no images (0x4x3)"));
  CHECK(says(failure(dataset, kImages, idx({4}, {0, 1, 2, 0})), ErrorKind::kCorrupt,
             "train-images-idx3-ubyte has 5 images, train-labels-idx1-ubyte has 4 labels"));
  CHECK(says(failure(dataset, kLabels, kLabels), ErrorKind::kCorrupt,
             "expected images (magic 00 00 08 03 or 00 00 08 04), found u8 of 5"));
  CHECK(says(failure(dataset, kImages, kImages), ErrorKind::kCorrupt, "expected labels"));
  Bytes negative = formats::encode_idx_header(formats::IdxType::kS32, {1});
  negative.insert(negative.end(), {0xFF, 0xFF, 0xFF, 0xFE});
  CHECK(says(failure(dataset, kImages, negative), ErrorKind::kCorrupt,
             "offset 8: expected a label of at least 0, found -2"));
  negative[8] = 0x7F;
  const Bytes one = idx({1, 4, 3}, ramp(12));
  CHECK(says(failure(dataset, one, negative), ErrorKind::kCorrupt, "is larger than"));
}

TEST_CASE("dataset: gzip that is cut off, damaged or followed by something else") {
  StoredDataset dataset;
  const Bytes whole = gzip(kImages);
  for (std::size_t size = 2; size < whole.size(); ++size) {
    const Error error =
        failure(dataset, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), kLabels);
    CHECK(error.kind == ErrorKind::kCorrupt);
    CHECK_MESSAGE(error.message.find("train-images-idx3-ubyte: ") == 0, error.message);
  }
  CHECK(says(failure(dataset, Bytes(whole.begin(), whole.end() - 4), kLabels), ErrorKind::kCorrupt,
             "of the compressed file: cut off"));
  Bytes wrong_sum = whole;
  wrong_sum[whole.size() - 8] ^= 1;
  CHECK(says(failure(dataset, wrong_sum, kLabels), ErrorKind::kCorrupt, "incorrect data check"));
  Bytes trailing = whole;
  trailing.push_back('x');
  CHECK(says(failure(dataset, trailing, kLabels), ErrorKind::kCorrupt,
             fmt::format("offset {} of the compressed file: expected the end", whole.size())));
}

TEST_CASE("dataset: a header that promises 2^40 images costs no memory") {
  StoredDataset dataset;
  const Bytes lie = idx({0x00FFFFFF, 0xFFFF, 0xFFFF}, Bytes(100));  // some 2^56 bytes
  CHECK(says(failure(dataset, lie, kLabels), ErrorKind::kCorrupt, "found 100"));
  CHECK(says(failure(dataset, gzip(lie), kLabels), ErrorKind::kCorrupt, "found 100"));
}

TEST_CASE("dataset: mutated files are read or refused") {
  StoredDataset dataset;
  const Bytes whole = gzip(kImages);
  std::mt19937 random(11);
  std::vector<std::pair<std::string, Bytes>> files;
  constexpr int kRounds = 300;
  std::string toml;
  for (int round = 0; round < kRounds; ++round) {
    Bytes mutated = round % 2 ? whole : kImages;
    for (int i = 0; i < 2; ++i)
      mutated[random() % std::min<std::size_t>(mutated.size(), 40)] = static_cast<std::uint8_t>(random());
    files.emplace_back(fmt::format("f{}", round), mutated);
    toml += fmt::format("[splits.s{}]\nimages = \"f{}\"\nlabels = \"l\"\n", round, round);
  }
  files.emplace_back("l", kLabels);
  files.emplace_back("dataset.toml", to_bytes(toml));
  const Digest id = dataset.add(files);
  NoProgress progress;
  for (int round = 0; round < kRounds; ++round) {
    try {
      const Images examples = load_images(*dataset.store, id, fmt::format("s{}", round), progress);
      CHECK(examples.pixels->count() * examples.pixels->record() == examples.count * examples.image_bytes());
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kCorrupt);
    }
  }
}

TEST_CASE("dataset: mean and deviation of each channel") {
  Images examples;
  examples.count = 2, examples.height = 1, examples.width = 1, examples.channels = 3;
  examples.pixels = spooled(Bytes{0, 51, 9, 255, 153, 9}, 3);
  const Normalization n = measure(examples, {0, 2});
  CHECK(n.mean[0] == doctest::Approx(0.5));
  CHECK(n.std[0] == doctest::Approx(0.5));
  CHECK(n.mean[1] == doctest::Approx(0.4));
  CHECK(n.std[1] == doctest::Approx(0.2));
  CHECK(n.std[2] == 1.0f);  // constant
}

TEST_CASE("dataset: Fashion-MNIST out of a real store") {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!path_exists(folder)) {
    MESSAGE("skipped: " << folder << " is not installed (Debian: dataset-fashion-mnist)");
    return;
  }
  StoredDataset dataset;
  std::vector<std::pair<std::string, Bytes>> files;
  for (const std::string& name : list_folder(folder)) files.emplace_back(name, read_file(join_path(folder, name)));
  const Digest id = dataset.add(files);
  NoProgress progress;
  const double started = seconds_now();
  const Images train = load_images(*dataset.store, id, "train", progress);
  const double loaded = seconds_now();
  const Normalization n = measure(train, {0, train.count});
  const double measured = seconds_now();
  MESSAGE("60000 examples in " << (loaded - started) << " s, measured in " << (measured - loaded) << " s");
  CHECK(train.count == 60000);
  CHECK(train.height == 28);
  CHECK(train.classes == 10);
  CHECK(n.mean[0] == doctest::Approx(0.2860406).epsilon(1e-6));
  CHECK(n.std[0] == doctest::Approx(0.3530242).epsilon(1e-6));
  CHECK(load_images(*dataset.store, id, "test", progress).count == 10000);
}
