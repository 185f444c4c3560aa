// Batches: every example once, the same bits whatever the threads and from wherever an epoch is resumed, and
// augmentation that does what it says.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "data/images/augment.h"
#include "data/images/normalize.h"
#include "data/kinds/loader.h"
#include "made_up.h"

using namespace mlx;
using namespace mlx::data;

namespace {

const Normalization kGrey{{0.25f}, {0.5f}};
const Normalization kColour{{0.1f, 0.2f, 0.3f}, {0.5f, 0.25f, 1.0f}};

std::vector<Batch> epoch_of(Loader& loader, std::uint64_t epoch, std::int64_t first = 0) {
  loader.start(epoch, first);
  std::vector<Batch> out;
  while (const Batch* batch = loader.next()) out.push_back(*batch);
  return out;
}

bool same(const Batch& a, const Batch& b) {
  return a.count == b.count && a.images == b.images && a.labels == b.labels;
}

}  // namespace

TEST_CASE("shuffle: a buffer draws each example once, few places before its own") {
  constexpr std::int64_t kCount = 1001, kBuffer = 50;
  const IndexList order = shuffled(kCount, 5, 3, kBuffer);
  std::int64_t moved = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    CHECK(order[i] < i + kBuffer);
    moved += order[i] != i ? 1 : 0;
  }
  CHECK(moved > 900);
  const IndexList all = order.sorted(0, kCount);
  for (std::int64_t i = 0; i < kCount; ++i) CHECK(all[i] == i);
  CHECK(shuffled(kCount, 5, 3, kBuffer) == order);
  CHECK(shuffled(kCount, 5, 4, kBuffer) != order);
  CHECK(shuffled(kCount, 5, 3, kCount) == shuffled(kCount, 5, 3));  // it holds all examples
  const IndexList stored = shuffled(kCount, 5, 3, 1);
  for (std::int64_t i = 0; i < kCount; ++i) CHECK(stored[i] == i);
  // The first place gets each example of the first buffer about equally often: 5 standard deviations.
  std::array<int, 10> first{};
  for (std::uint64_t epoch = 0; epoch < 4000; ++epoch)
    ++first.at(static_cast<std::size_t>(shuffled(100, 1, epoch, 10)[0]));
  for (const int times : first) CHECK(std::abs(times - 400) < 100);
}

TEST_CASE("shuffle: a permutation that depends on seed and epoch alone") {
  const IndexList order = shuffled(1001, 5, 3);
  std::set<std::int64_t> seen_once;
  for (std::int64_t i = 0; i < order.size(); ++i) seen_once.insert(order[i]);
  CHECK(seen_once.size() == 1001);
  CHECK(*seen_once.rbegin() == 1000);
  CHECK(order.sorted(0, 1001)[1000] == 1000);
  CHECK(shuffled(1001, 5, 3) == order);
  CHECK(shuffled(1001, 5, 4) != order);
  CHECK(shuffled(1001, 6, 3) != order);
  CHECK(shuffled(0, 1, 1).empty());
  CHECK(shuffled(1, 1, 1) == IndexList(1, 1));
  CHECK(order[0] == 606);  // the permutation belongs to the results of runs
  // Every place gets every element about equally often: 20 elements, 8000 epochs, 400 expected, 5 standard deviations.
  int seen[20][20] = {};
  for (std::uint64_t epoch = 0; epoch < 8000; ++epoch) {
    const auto draw = shuffled(20, 1, epoch);
    for (std::int64_t i = 0; i < 20; ++i) ++seen[i][draw[i]];
  }
  for (const auto& row : seen) {
    for (const int times : row) CHECK(std::abs(times - 400) < 100);
  }
}

TEST_CASE("loader: without shuffling the examples in order, normalised") {
  const Images examples = made_up(10, 3, 2, 3);
  const Bytes pixels = pixels_of(examples);
  Pool pool(1);
  Loader loader(examples, {.batch = 4, .normalization = kColour}, pool);
  CHECK(loader.batches() == 3);
  const std::vector<Batch> batches = epoch_of(loader, 0);
  REQUIRE(batches.size() == 3);
  CHECK(batches[2].count == 2);
  CHECK(batches[1].labels == std::vector<std::int32_t>{4, 5, 6, 7});
  for (std::size_t i = 0; i < batches[1].images.size(); ++i) {
    const double raw = pixels[4 * 18 + i] / 255.0;
    const std::size_t c = i % 3;
    CHECK(batches[1].images[i] == doctest::Approx((raw - kColour.mean[c]) / kColour.std[c]).epsilon(1e-6));
  }
  std::vector<float> alone(18);
  normalize(kColour, ByteView(pixels).subspan(4 * 18, 18), alone);
  CHECK(std::equal(alone.begin(), alone.end(), batches[1].images.begin()));
  CHECK_THROWS_AS(normalize(kColour, ByteView(pixels).first(17), alone), Error);

  Loader dropping(examples, {.batch = 4, .drop_last = true, .normalization = kColour}, pool);
  CHECK(dropping.batches() == 2);
  CHECK(epoch_of(dropping, 0).size() == 2);
}

TEST_CASE("loader: an epoch has every example of the subset once") {
  const Images examples = made_up(1000, 2, 2, 1);
  std::vector<std::int64_t> subset;
  for (std::int64_t i = 1; i < 1000; i += 3) subset.push_back(i);
  Pool pool(2);
  Loader loader(examples, {.batch = 64, .seed = 9, .shuffle = true, .normalization = kGrey, .subset = IndexSet(subset)},
                pool);
  std::vector<std::int32_t> labels;
  for (const Batch& batch : epoch_of(loader, 2)) labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
  CHECK(!std::ranges::is_sorted(labels));
  std::ranges::sort(labels);
  CHECK(std::equal(labels.begin(), labels.end(), subset.begin(), subset.end()));
}

TEST_CASE("loader: the same bits with any number of threads, and resumed in the middle") {
  const Images examples = made_up(700, 28, 28, 1);
  const Loader::Options options{.batch = 128,
                                .seed = 4,
                                .shuffle = true,
                                .augment = {.shift = 3, .flip = true, .erase = 5},
                                .normalization = kGrey};
  Pool one(1), three(3);
  Loader a(examples, options, one), b(examples, options, three);
  const std::vector<Batch> first = epoch_of(a, 7), second = epoch_of(b, 7);
  REQUIRE(first.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(same(first[i], second[i]));
  (void)epoch_of(b, 8);
  const std::vector<Batch> rest = epoch_of(b, 7, 4);
  REQUIRE(rest.size() == 2);
  CHECK(same(rest[0], first[4]));
  CHECK(same(rest[1], first[5]));
  CHECK(!same(epoch_of(a, 8)[0], first[0]));
}

TEST_CASE("augment: every shift, mirrored or not, equals the plain definition") {
  for (const std::int64_t channels : {1, 2, 3}) {
    const ImageSize size{4, 5, channels};
    const Images examples = made_up(1, 4, 5, channels);
    const Bytes pixels = pixels_of(examples);
    const Normalization n{std::vector<float>(static_cast<std::size_t>(channels), 0.25f),
                          std::vector<float>(static_cast<std::size_t>(channels), 0.5f)};
    const PixelTable table(n);
    for (std::int64_t down = -3; down <= 3; ++down) {
      for (std::int64_t right = -4; right <= 4; ++right) {
        for (const bool flip : {false, true}) {
          const Change change{down, right, flip, 2, 1, 3};
          std::vector<float> got(static_cast<std::size_t>(size.elements()), 99.0f);
          write_image(table, size, change, pixels.data(), got.data());
          bool equal = true;
          for (std::int64_t y = 0; y < 4; ++y) {
            for (std::int64_t x = 0; x < 5; ++x) {
              const std::int64_t sy = y - down, mx = x - right, sx = flip ? 4 - mx : mx;
              const bool inside = sy >= 0 && sy < 4 && mx >= 0 && mx < 5;
              const bool erased = y >= 1 && y < 3 && x >= 3;
              for (std::int64_t c = 0; c < channels; ++c) {
                const std::uint8_t pixel =
                    inside ? pixels[static_cast<std::size_t>((sy * 5 + sx) * channels + c)] : std::uint8_t{0};
                const float expected = erased ? 0.0f : table.channel(c)[pixel];
                equal = equal && got[static_cast<std::size_t>((y * 5 + x) * channels + c)] == expected;
              }
            }
          }
          CHECK_MESSAGE(equal, "down " << down << " right " << right << " flip " << flip << " channels " << channels);
        }
      }
    }
  }
}

TEST_CASE("augment: draws cover their range, keyed by seed, epoch and index") {
  const Augment augment{.shift = 2, .flip = true, .erase = 8};
  const ImageSize size{28, 28, 1};
  std::set<std::int64_t> down, right, top, left;
  int flips = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const Change change = draw_change(augment, size, 1, 0, i);
    down.insert(change.down), right.insert(change.right), top.insert(change.top), left.insert(change.left);
    flips += change.flip;
  }
  CHECK(down == std::set<std::int64_t>{-2, -1, 0, 1, 2});
  CHECK(right.size() == 5);
  CHECK(top.size() == 21);
  CHECK(*left.rbegin() == 20);
  CHECK(std::abs(flips - 2000) < 160);
  const auto key = [&](std::uint64_t seed, std::uint64_t epoch, std::uint64_t index) {
    std::string out;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const Change c = draw_change(augment, size, seed, epoch, index + i);
      out += fmt::format("{},{},{},{},{};", c.down, c.right, c.flip, c.top, c.left);
    }
    return out;
  };
  CHECK(key(1, 0, 0) == key(1, 0, 0));
  CHECK(key(1, 0, 0) != key(2, 0, 0));
  CHECK(key(1, 0, 0) != key(1, 1, 0));
  CHECK(key(1, 0, 0) != key(1, 0, 8));
  const Images examples = made_up(1, 4, 4, 1);
  Pool pool(1);
  CHECK_THROWS_WITH_AS(Loader(examples, {.augment = {.shift = 4}, .normalization = kGrey}, pool),
                       "augment: a shift of 4 does not fit images of 4x4", Error);
  CHECK_THROWS_AS(Loader(examples, {.augment = {.erase = 5}, .normalization = kGrey}, pool), Error);
}

TEST_CASE("loader: what a batch costs (printed, not judged)") {
  const Images examples = made_up(20000, 28, 28, 1);
  Pool pool(1);
  Loader loader(
      examples,
      {.batch = 128, .seed = 4, .shuffle = true, .augment = {.shift = 2, .flip = true}, .normalization = kGrey}, pool);
  loader.start(0);
  (void)loader.next();
  const double started = seconds_now();
  std::int64_t batches = 0;
  while (loader.next()) ++batches;
  const double each = (seconds_now() - started) / static_cast<double>(batches);
  MESSAGE("128 augmented images of 28x28: " << each * 1e6 << " us on one core, " << 128 * 784 * 4 / each / 1e9
                                            << " GB/s");
  CHECK(batches == 156);
}

TEST_CASE("mixup: each image and its label are mixed with a partner's, by one share a batch") {
  Images examples = made_up(96, 8, 8, 1);
  for (std::int32_t& label : examples.labels) label %= 10;
  Pool pool(3), single(1);
  Loader::Options options;
  options.batch = 32;
  options.seed = 4;
  options.normalization = kGrey;
  Loader plain(examples, options, pool);
  options.augment.mixup = 0.4;
  Loader mixed(examples, options, pool), again(examples, options, single);
  const std::vector<Batch> whole = epoch_of(plain, 2), got = epoch_of(mixed, 2);
  for (std::size_t at = 0; at < got.size(); ++at) {
    const Mix mix = draw_mix(0.4, 32, 4, 2 * 3 + at);
    CHECK(std::set<std::int64_t>(mix.partner.begin(), mix.partner.end()).size() == 32);
    std::vector<float> shares(320, 0.0f), images;
    for (std::size_t i = 0; i < 32; ++i) {
      const auto partner = static_cast<std::size_t>(mix.partner[i]);
      shares[i * 10 + static_cast<std::size_t>(whole[at].labels[i])] += mix.share;
      shares[i * 10 + static_cast<std::size_t>(whole[at].labels[partner])] += 1 - mix.share;
      for (std::size_t k = 0; k < 64; ++k)
        images.push_back(mix.share * whole[at].images[i * 64 + k] +
                         (1 - mix.share) * whole[at].images[partner * 64 + k]);
    }
    CHECK(got[at].shares == shares);
    CHECK(got[at].images == images);
  }
  CHECK(got[0].images != whole[0].images);
  // The same bits with one thread, and from the middle of an epoch.
  const std::vector<Batch> from_second = epoch_of(again, 2, 1);
  REQUIRE(from_second.size() == 2);
  CHECK(from_second[0].images == got[1].images);
  CHECK(from_second[0].shares == got[1].shares);
}

TEST_CASE("mixup: what several ranks have of a batch is what one has") {
  Images examples = made_up(100, 8, 8, 1);
  for (std::int32_t& label : examples.labels) label %= 10;
  Pool pool(3);
  for (const bool raw : {false, true}) {
    for (const bool drop_last : {false, true}) {
      CAPTURE(raw);
      CAPTURE(drop_last);
      Loader::Options options;
      options.batch = 24;
      options.seed = 4;
      options.shuffle = true;
      options.drop_last = drop_last;
      options.raw = raw;
      options.normalization = kGrey;
      options.augment = {.shift = 2, .flip = true, .mixup = 0.4};
      Loader alone(examples, options, pool);
      const std::vector<Batch> whole = epoch_of(alone, 2);
      REQUIRE(whole.size() == (drop_last ? 4 : 5));
      for (const int ranks : {2, 3}) {
        CAPTURE(ranks);
        std::vector<std::vector<Batch>> parts;
        options.ranks = ranks;
        for (options.rank = 0; options.rank < ranks; ++options.rank) {
          Loader loader(examples, options, pool);
          parts.push_back(epoch_of(loader, 2));
        }
        options.rank = 0, options.ranks = 1;
        for (std::size_t at = 0; at < whole.size(); ++at) {
          Batch joined;
          const auto add = [](auto& to, const auto& from, std::int64_t count) {
            to.insert(to.end(), from.begin(), from.begin() + count);
          };
          for (const std::vector<Batch>& part : parts) {
            if (at >= part.size()) continue;  // no example of the last batch
            const Batch& own = part[at];
            CHECK(own.share == whole[at].share);
            add(joined.shares, own.shares, own.count * 10);
            if (!raw) add(joined.images, own.images, own.count * 64);
            if (!raw) continue;
            add(joined.raw.pixels, own.raw.pixels, own.count * 64);
            add(joined.partners.pixels, own.partners.pixels, own.count * 64);
          }
          CHECK(joined.shares == whole[at].shares);
          CHECK(joined.images == whole[at].images);
          CHECK(joined.raw.pixels == whole[at].raw.pixels);
          CHECK(joined.partners.pixels == whole[at].partners.pixels);
        }
      }
    }
  }
}

TEST_CASE("mixup: shares have the mean and variance of their beta distribution") {
  for (const double alpha : {0.05, 0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const double share = double{draw_mix(alpha, 1, 9, static_cast<std::uint64_t>(i)).share};
      CHECK((share >= 0 && share <= 1));
      sum += share, squares += (share - 0.5) * (share - 0.5);
    }
    CHECK(sum / kDraws == doctest::Approx(0.5).epsilon(0.03));
    CHECK(squares / kDraws == doctest::Approx(1 / (4 * (2 * alpha + 1))).epsilon(0.05));
  }
}
