// What is held out of each kind of dataset, and subsets: the examples are those of a copy, and nothing is copied.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "data/kinds/images_dataset.h"
#include "data/kinds/rows_dataset.h"
#include "data/kinds/text_dataset.h"
#include "kernels/philox.h"
#include "made_up.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kSeed = 7;

// The batches of two epochs, the second from its second batch: inputs, which are all of 4 bytes, and targets.
std::vector<Bytes> fed(const Dataset& dataset, const Preprocessing& preprocessing, BatchOptions options = {}) {
  Pool pool(2);
  options.batch = 16;
  options.seed = 5;
  options.context = 8;
  const std::unique_ptr<BatchSource> source = dataset.batches(preprocessing, options, pool);
  std::vector<Bytes> out;
  const auto add = [&](const void* data, const std::vector<std::int64_t>& dims) {
    std::size_t bytes = 4;
    for (const std::int64_t dim : dims) bytes *= static_cast<std::size_t>(dim);
    const auto* const from = static_cast<const std::uint8_t*>(data);
    out.emplace_back(from, from + bytes);
  };
  for (const std::int64_t epoch : {0, 1}) {
    source->start(static_cast<std::uint64_t>(epoch), epoch);
    while (const BatchView* batch = source->next()) {
      for (const BatchInput& input : batch->inputs) add(input.data, input.dims);
      add(batch->target, batch->target_dims);
    }
  }
  return out;
}

// Which examples are held out, and which stay.
struct Chosen {
  std::vector<std::int64_t> held_out, rest;
};
Chosen chosen(std::int64_t count, std::int64_t size) {
  const IndexList list = shuffled(count, kSeed, ~std::uint64_t{0});
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < count; ++i) order.push_back(list[i]);
  Chosen out{{order.begin(), order.begin() + size}, {order.begin() + size, order.end()}};
  std::ranges::sort(out.held_out);
  std::ranges::sort(out.rest);
  return out;
}

// The values of the rows at `indices`, where `values` has as many for each of `count`.
template <typename Values>
Values copied(const Values& values, std::int64_t count, const std::vector<std::int64_t>& indices) {
  const std::size_t each = values.size() / static_cast<std::size_t>(count);
  Values out;
  for (const std::int64_t index : indices) {
    const auto* const from = values.data() + static_cast<std::size_t>(index) * each;
    out.insert(out.end(), from, from + each);
  }
  return out;
}

Images copied(const Images& images, const std::vector<std::int64_t>& indices) {
  Images out = images;
  out.count = static_cast<std::int64_t>(indices.size());
  out.pixels = spooled(copied(pixels_of(images), images.count, indices), images.image_bytes());
  out.labels = copied(images.labels, images.count, indices);
  return out;
}

Rows copied(const Rows& rows, const std::vector<std::int64_t>& indices) {
  Rows out = rows;
  out.count = static_cast<std::int64_t>(indices.size());
  out.numbers = copied(rows.numbers, rows.count, indices);
  out.codes = copied(rows.codes, rows.count, indices);
  out.targets = copied(rows.targets, rows.count, indices);
  return out;
}

Rows made_up_rows(std::int64_t count) {
  Rows rows;
  rows.schema.features = {{"rooms", {}, 0, 1, false}, {"city", {"Bonn", "Ulm"}, 0, 1, false}};
  rows.schema.targets = {{"price", {}, 0, 1, false}};
  rows.count = count;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto draw = [&](std::uint32_t what) {
      return kernels::random_u32(1, 2, static_cast<std::uint64_t>(i), what);
    };
    rows.numbers.push_back(draw(0) % 100);
    rows.codes.push_back(static_cast<std::int32_t>(draw(1) % 3) - 1);
    rows.targets.push_back(draw(2) % 1000);
  }
  return rows;
}

// That `part` is fed as `copy` is, with what it measures itself.
void check_same(const Dataset& part, const Dataset& copy) {
  const Preprocessing measured = part.measure(nullptr), expected = copy.measure(nullptr);
  CHECK(measured.normalization.mean == expected.normalization.mean);
  CHECK(measured.normalization.std == expected.normalization.std);
  CHECK(measured.rows == expected.rows);
  CHECK(part.describe().count == copy.describe().count);
  CHECK(part.describe().outputs == copy.describe().outputs);
  for (const BatchOptions& options : {BatchOptions{}, BatchOptions{.shuffle = true, .drop_last = true}})
    CHECK(fed(part, measured, options) == fed(copy, expected, options));
}

TEST_CASE("hold-out of images: the examples of a copy, augmented alike, and not one of them is copied") {
  const auto images = std::make_shared<const Images>([] {
    Images made = made_up(211, 6, 5, 3);
    for (std::int32_t& label : made.labels) label %= 10;
    return made;
  }());
  DatasetPtr dataset = make_dataset(images);
  Parts parts = dataset->hold_out(60, kSeed);
  CHECK(images.use_count() == 4);  // the whole, both parts and this test share the pixels
  const Chosen indices = chosen(211, 60);
  const DatasetPtr rest = make_dataset(copied(*images, indices.rest)),
                   held_out = make_dataset(copied(*images, indices.held_out));
  check_same(*parts.rest, *rest);
  check_same(*parts.held_out, *held_out);
  const BatchOptions augmented{.shuffle = true, .augment = {.shift = 2, .flip = true, .erase = 2, .mixup = 0.3}};
  const Preprocessing preprocessing = rest->measure(nullptr);
  CHECK(fed(*parts.rest, preprocessing, augmented) == fed(*rest, preprocessing, augmented));

  // A part of a part, and what a source needs of a dataset that is gone.
  const IndexSet some({1, 4, 90});
  CHECK(fed(*parts.rest->subset(some), preprocessing) ==
        fed(*make_dataset(copied(*images, {indices.rest[1], indices.rest[4], indices.rest[90]})), preprocessing));
  Pool pool(1);
  const std::unique_ptr<BatchSource> source = parts.rest->batches(preprocessing, {.batch = 4}, pool);
  dataset.reset(), parts = {};
  CHECK(images.use_count() == 2);
  CHECK(source->next()->count == 4);
}

TEST_CASE("hold-out of rows: the rows of a copy, and means over the rest alone") {
  const Rows rows = made_up_rows(150);
  const SpooledRows spooled = spool_rows(rows);
  const DatasetPtr dataset = make_dataset(spooled);
  const Parts parts = dataset->hold_out(40, kSeed);
  CHECK(spooled.rows.use_count() == 4);
  const Chosen indices = chosen(150, 40);
  check_same(*parts.rest, *make_dataset(copied(rows, indices.rest)));
  check_same(*parts.held_out, *make_dataset(copied(rows, indices.held_out)));
  CHECK(parts.rest->measure(nullptr).rows != dataset->measure(nullptr).rows);
}

TEST_CASE("hold-out of text: its end, as a range of the same tokens") {
  std::vector<std::int32_t> tokens;
  for (std::uint32_t i = 0; i < 500; ++i) tokens.push_back(static_cast<std::int32_t>(i * i % 251));
  const Text text = text_of(tokens, std::make_shared<Tokenizer>(Tokenizer::bytes()));
  const DatasetPtr dataset = make_dataset(text);
  const Parts parts = dataset->hold_out(100, kSeed);
  CHECK(text.spool.use_count() == 4);
  const auto part = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    return make_dataset(text_of({tokens.begin() + begin, tokens.begin() + end}, text.tokenizer));
  };
  check_same(*parts.rest, *part(0, 400));
  check_same(*parts.held_out, *part(400, 500));
  check_same(*parts.rest->subset({50, 200})->subset({10, 100}), *part(60, 150));
}

TEST_CASE("bug: data for which a model has no preprocessing ended the program") {
  Pool pool(1);
  CHECK_THROWS_WITH_AS((void)make_dataset(made_up(3, 2, 2, 3))->batches({}, {}, pool),
                       "the model normalizes 0 channels of an image, the data has 3", Error);
  CHECK_THROWS_WITH_AS((void)make_dataset(made_up_rows(3))->batches({}, {}, pool),
                       "the model does not say which columns it takes", Error);
}

TEST_CASE("an index set is a range or a list, and so is a part of it") {
  const IndexSet range(100, 200), list({3, 5, 8, 13});
  CHECK(range.part({20, 30}).is_range());
  CHECK(range.part({20, 30})[9] == 129);
  CHECK(range.part(list)[2] == 108);
  CHECK(list.part({1, 3}).size() == 2);
  CHECK(list.part({1, 3})[1] == 8);
  CHECK(IndexSet(4, 4).size() == 0);
}

}  // namespace
}  // namespace mlx::data
