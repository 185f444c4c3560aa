// Random changes of images: each operation against torchvision's bytes, what is drawn, and crops of photos.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/toml.h"
#include "data/images/affine.h"
#include "data/images/colour.h"
#include "data/images/photo.h"
#include "data/images/pixel_changes.h"
#include "data/images/rand_augment.h"
#include "data/images/resize.h"
#include "data/kinds/image_keys.h"
#include "data/kinds/loader.h"
#include "data/kinds/photos.h"
#include "made_up.h"
#include "stored_dataset.h"

using namespace mlx;
using namespace mlx::data;

namespace {

Bytes pattern(const ImageSize& size) {
  Bytes out;
  for (std::int64_t y = 0; y < size.height; ++y)
    for (std::int64_t x = 0; x < size.width; ++x)
      for (std::int64_t c = 0; c < size.channels; ++c)
        out.push_back(static_cast<std::uint8_t>(x * 7 + y * 13 + c * 31 + x * y * (c + 3)));
  return out;
}

void apply_named(const std::string& name, double strength, const ImageSize& size, std::uint8_t* image) {
  const auto factor = static_cast<float>(strength);
  if (name == "brightness") return adjust_brightness(size, factor, image);
  if (name == "contrast") return adjust_contrast(size, factor, image);
  if (name == "saturation") return adjust_saturation(size, factor, image);
  if (name == "sharpness") return adjust_sharpness(size, factor, image);
  if (name == "hue") return adjust_hue(size, strength, image);
  if (name == "rotate") return transform(size, rotation(size, strength), image);
  for (std::int64_t i = 0; i < rand_operations(); ++i) {
    const RandOperation& operation = rand_operation(i);
    if (name != std::string("rand:") + operation.name) continue;
    const double most = operation.strength(size, std::abs(strength) / (kMagnitudes - 1));
    return operation.apply(size, strength < 0 ? -most : most, image);
  }
  FAIL("no change is called ", name);
}

Bytes large_jpeg() {
  return read_file(std::string(MLX_SOURCE_DIR) + "/tests/data/pictures/large.jpg");
}

// The crop as it is defined: the whole is decoded, at half of its size if that is enough for the part; then the part is
// cut out and scaled.
Bytes plain_crop(ByteView file, const PhotoForm& form, const RandomCrop& crop, bool& halved) {
  const PictureHeader header = read_picture_header(file, "name");
  const Region part = draw_crop(crop, header.height, header.width);
  halved = part.height >= 2 * form.height && part.width >= 2 * form.width;
  DecodeOptions options{.channels = form.channels};
  if (halved) options.enough_height = header.height / 2, options.enough_width = header.width / 2;
  const Picture whole = decode_picture(file, "name", options);
  const std::int64_t by = halved ? 2 : 1;
  const std::int64_t top = part.top / by, left = part.left / by;
  const Region cut{top, left, (part.top + part.height + by - 1) / by - top,
                   (part.left + part.width + by - 1) / by - left};
  const auto place = [by](std::int64_t at, std::int64_t first) {
    return static_cast<double>(at) / static_cast<double>(by) - static_cast<double>(first);
  };
  const Box box{place(part.left, left), place(part.top, top), place(part.left + part.width, left),
                place(part.top + part.height, top)};
  Bytes out(static_cast<std::size_t>(form.bytes()));
  resize(part_of(view_of(whole), cut), box, form.height, form.width, out.data());
  return out;
}

const Augment kAllChanges{.shift = 1,
                          .flip = true,
                          .erase = 2,
                          .crop = 0.3,
                          .rand_operations = 2,
                          .rand_magnitude = 9,
                          .brightness = 0.4,
                          .contrast = 0.4,
                          .saturation = 0.4,
                          .hue = 0.1,
                          .rotate = 10};

}  // namespace

TEST_CASE("changes: each makes torchvision's bytes") {
  std::ifstream table(std::string(MLX_SOURCE_DIR) + "/tests/data/pictures.txt");
  int count = 0;
  for (std::string line, kind; std::getline(table, line);) {
    std::istringstream fields(line);
    ImageSize size;
    std::string name, sum;
    double strength = 0;
    fields >> kind >> size.height >> size.width >> size.channels >> name >> strength >> sum;
    if (kind != "change") continue;
    CAPTURE(line);
    Bytes image = pattern(size);
    apply_named(name, strength, size, image.data());
    CHECK(to_hex(Digest::of(image).bytes) == sum);
    ++count;
  }
  CHECK(count > 200);
}

TEST_CASE("changes: a crop of a JPEG has the bytes of the whole one's part, wherever it lies") {
  const Bytes file = large_jpeg();
  for (const std::int64_t channels : {1, 3}) {
    const PhotoForm form{24, 20, channels};
    int scaled = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
      CAPTURE(i);
      const RandomCrop crop{0.02, {3, 1, i}};
      Bytes got(static_cast<std::size_t>(form.bytes()));
      prepare_crop(file, "name", form, crop, got.data());
      bool halved = false;
      CHECK(got == plain_crop(file, form, crop, halved));
      if (halved) ++scaled;
    }
    CHECK(scaled > 5);
  }
}

TEST_CASE("changes: crops have the drawn areas and shapes, also of very thin pictures") {
  double least = 1, most = 0, narrowest = 9, widest = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Region part = draw_crop({0.25, {1, 0, i}}, 400, 500);
    CHECK((part.top >= 0 && part.left >= 0 && part.top + part.height <= 400 && part.left + part.width <= 500));
    const double area = static_cast<double>(part.height * part.width) / (400 * 500);
    const double ratio = static_cast<double>(part.width) / static_cast<double>(part.height);
    least = std::min(least, area), most = std::max(most, area);
    narrowest = std::min(narrowest, ratio), widest = std::max(widest, ratio);
  }
  CHECK((least > 0.24 && least < 0.27));
  CHECK(most > 0.9);
  CHECK((narrowest > 0.73 && narrowest < 0.78));
  CHECK((widest > 1.28 && widest < 1.35));
  CHECK(draw_crop({0.9, {}}, 1, 1000) == Region{0, 499, 1, 1});
  CHECK(draw_crop({0.9, {}}, 1000, 30) == Region{480, 0, 40, 30});
}

TEST_CASE("changes: the same bits with any number of threads, resumed, and for the kernels of a GPU") {
  const Images examples = mlx::data::made_up(150, 12, 10, 3);
  Loader::Options options{.batch = 32,
                          .seed = 4,
                          .shuffle = true,
                          .augment = kAllChanges,
                          .normalization = {{0.1f, 0.2f, 0.3f}, {0.5f, 0.25f, 1.0f}}};
  Pool one(1), three(3);
  Loader a(examples, options, one), b(examples, options, three);
  options.raw = true;
  Loader raw(examples, options, three);
  a.start(5), b.start(5, 2), raw.start(5, 2);
  (void)a.next(), (void)a.next();
  for (int i = 0; i < 3; ++i) {
    const Batch *const first = a.next(), *const second = b.next(), *const bytes = raw.next();
    REQUIRE((first && second && bytes));
    CHECK(first->images == second->images);
    std::vector<float> image(360);
    const auto& change = bytes->raw.changes[7];
    write_image(raw.table(), {12, 10, 3},
                {change.down, change.right, change.flip != 0, change.erase, change.top, change.left},
                bytes->raw.pixels.data() + 7 * 360, image.data());
    CHECK(std::equal(image.begin(), image.end(), first->images.begin() + 7 * 360));
  }
  const Images odd = mlx::data::made_up(4, 4, 4, 2);
  CHECK_THROWS_WITH_AS(Loader(odd, {.augment = {.rotate = 5}, .normalization = {{0, 0}, {1, 1}}}, one),
                       "augment: crops and changes of colour are for images of 1 or 3 channels, not of 2", Error);
}

TEST_CASE("changes: one does not move the draws of another, and epochs differ") {
  const ImageSize size{9, 9, 3};
  const auto changed = [&](const Augment& augment, std::uint64_t epoch) {
    Bytes image = pattern(size);
    change_pixels(augment, size, {1, epoch, 3}, image.data());
    return image;
  };
  CHECK(changed({.brightness = 0.5}, 0) != changed({.brightness = 0.5}, 1));
  CHECK(changed({.rotate = 90}, 0) == changed({.shift = 2, .rotate = 90}, 0));
  CHECK(changed({}, 0) == pattern(size));
}

TEST_CASE("changes: RandAugment draws each operation about as often, of both signs") {
  std::map<Bytes, int> seen;
  const ImageSize size{16, 16, 3};
  for (std::uint64_t i = 0; i < 1400; ++i) {
    Bytes image = pattern(size);
    rand_augment(1, 15, size, Draws(kRandAugmentStream, {2, 0, i}), image.data());
    ++seen[image];
  }
  CHECK(seen.size() == 23);  // 9 with two signs, 4 with one, and the image itself
  for (const auto& [image, times] : seen) CHECK((times > 25 && times < 145));
}

TEST_CASE("changes: crops of photos are cut from the files, whether or not the decoded images are kept") {
  StoredDataset dataset;
  std::vector<std::pair<std::string, Bytes>> files;
  for (int i = 0; i < 4; ++i) files.push_back({fmt::format("train/c{}/{}.jpg", i % 2, i), large_jpeg()});
  std::ranges::sort(files);
  const Digest id = dataset.add(files);
  Reading reading;
  reading.photos.height = reading.photos.width = 24;
  NoProgress silent;
  const Images images = load_photos(stored_split(*dataset.store, id, "train"), reading, silent);
  const Loader::Options options{
      .batch = 4, .seed = 7, .augment = {.crop = 0.08}, .normalization = {{0, 0, 0}, {1, 1, 1}}};
  Loader loader(images, options, dataset.pool);
  loader.start(2);
  const Batch* const batch = loader.next();
  REQUIRE(batch);
  for (std::uint64_t i = 0; i < 4; ++i) {
    Bytes expected(24 * 24 * 3);
    prepare_crop(files[0].second, "name", {24, 24, 3}, {0.08, {7, 2, i}}, expected.data());
    const float* const got = batch->images.data() + i * expected.size();
    CHECK(std::equal(expected.begin(), expected.end(), got,
                     [](std::uint8_t byte, float value) { return std::abs(byte / 255.0f - value) < 1e-6f; }));
  }
}

TEST_CASE("changes: keys of [data] augment are read, checked and part of a run's key") {
  const auto read = [](const std::string& text, Json& key) {
    const TomlNode root = parse_toml("augment = { " + text + " }", "train.toml");
    TomlReader table(root, "train.toml", "[data]");
    Reading reading;
    read_image_keys(table, reading);
    write_image_keys(reading, key);
    return reading.augment;
  };
  Json key, bare;
  const Augment augment = read("crop = 0.08, randaugment = [2, 9], hue = 0.1, rotate = 5", key);
  CHECK(augment == Augment{.crop = 0.08, .rand_operations = 2, .rand_magnitude = 9, .hue = 0.1, .rotate = 5});
  CHECK(key["augment"]["randaugment"].dump() == "[2,9]");
  CHECK(key["augment"]["crop"].dump() == "0.08");
  (void)read("", bare);
  CHECK(bare.dump() == R"({"augment":{"erase":0,"flip":false,"shift":0}})");
  for (const char* const text : {"crop = 1.5", "hue = 0.6", "brightness = -1", "randaugment = [2]",
                                 "randaugment = [0, 9]", "randaugment = [2, 31]", "rotate = 200", "colour = 1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS((void)read(text, key), Error);
  }
}
