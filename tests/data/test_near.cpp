// Near-duplicates: rows and lines by their two hashes, within and across splits; looks of images against their
// definition.

#include <fmt/ranges.h>

#include <cmath>
#include <random>

#include "base/json.h"
#include "data/content_hash.h"
#include "data/dataset.h"
#include "data/quality/duplicates.h"
#include "data/quality/measure.h"
#include "stored_dataset.h"

using namespace mlx;
using namespace mlx::data;

namespace {

using Cells = std::vector<std::pair<std::string, double>>;  // texts, or numbers where the text is empty

NearHashes near_of(const Cells& cells) {
  NearRow row;
  std::uint64_t column = 0;
  for (const auto& [text, number] : cells) {
    column = mixed(column + 1);
    text.empty() ? row.number(column, number) : row.text(column, text);
  }
  return row.finish();
}

bool near(const Cells& a, const Cells& b) {
  const NearHashes x = near_of(a), y = near_of(b);
  return x.first == y.first || (x.second != 0 && x.second == y.second);
}

Cells numbers(const std::vector<double>& values) {
  Cells out;
  for (const double value : values) out.emplace_back("", value);
  return out;
}

struct NearData : StoredDataset {
  NoProgress silent;
  Statistics measured(const std::string& train, const std::string& test) {
    const Digest id = add({{"train.csv", to_bytes(train)}, {"test.csv", to_bytes(test)}});
    return measure_statistics(*store, id, "", "", nullptr, silent);
  }
};

std::string row_text(std::mt19937_64& random, int categories, int columns) {
  std::string out;
  for (int i = 0; i < columns; ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ",", random() % static_cast<unsigned>(categories));
  return out + "\n";
}

}  // namespace

TEST_CASE("near: rows agree whatever their case, white space and spelling of numbers") {
  CHECK(near({{"Bonn", 0}, {"New  York ", 0}}, {{" bonn", 0}, {"new york", 0}}));
  CHECK_FALSE(near({{"Bonn", 0}, {"a b", 0}}, {{"Bonn", 0}, {"ab", 0}}));
  CHECK_FALSE(near({{"a", 0}, {"b", 0}}, {{"b", 0}, {"a", 0}}));  // columns count
  CHECK(near(numbers({0.0, 1.5, 2.25}), numbers({-0.0, 1.5, 2.25})));
  CHECK_FALSE(near({{"3", 0}}, {{"", 3}}));
  CHECK_FALSE(near({{"A", 0}}, {{"a", 0}}));  // codes
}

TEST_CASE("near: rows agree despite noise of a millionth in every number") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> size(-6, 3), noise(-1e-6, 1e-6);
  for (const int columns : {3, 5, 20, 200}) {
    int found = 0;
    for (int i = 0; i < 1000; ++i) {
      std::vector<double> row, again;
      for (int c = 0; c < columns; ++c) {
        row.push_back((random() % 2 ? 1 : -1) * std::pow(10, size(random)));
        again.push_back(row.back() * (1 + noise(random)));
      }
      found += near(numbers(row), numbers(again)) ? 1 : 0;
    }
    CHECK_MESSAGE(found >= 900, columns, " columns: ", found);
  }
  // Floats of 32 bits, as many programs write them.
  CHECK(near(numbers({0.1, 0.7, 19.99}), numbers({0.1F, 0.7F, 19.99F})));
}

TEST_CASE("near: whole numbers count to the last digit, and two others are not rounded") {
  CHECK_FALSE(near(numbers({1700000001, 0.5, 0.25, 0.7}), numbers({1700000002, 0.5, 0.25, 0.7})));
  CHECK_FALSE(near(numbers({1700000001.5, 0.5, 0.25}), numbers({1700000003.5, 0.5, 0.25})));
  CHECK_FALSE(near(numbers({9007199254740991.0, 0.5, 0.3, 0.7}), numbers({9007199254740990.0, 0.5, 0.3, 0.7})));
  CHECK_FALSE(near(numbers({0.1234567, 0.5, 3}), numbers({0.12345670001, 0.5, 3})));
  CHECK_FALSE(near(numbers({0.51, 0.25, 0.7}), numbers({0.52, 0.25, 0.7})));
  CHECK(near(numbers({3, 0.7, 0.9, 0.3}), numbers({3.0000001, 0.7, 0.9, 0.3})));
  for (const double odd : {HUGE_VAL, 1e308, 5e-324, -1e300}) {
    CHECK(near(numbers({odd, 0.5, 0.6, 0.7}), numbers({odd, 0.5, 0.6, 0.7})));
    CHECK_FALSE(near(numbers({odd, 0.5, 0.6, 0.7}), numbers({1, 0.5, 0.6, 0.7})));
  }
}

TEST_CASE("near: rows of two splits, each counted once and not where an equal one is there") {
  NearData data;
  const Statistics all = data.measured(
      "city,x,y,z\nBonn,1.5,0.123456789,.1\nUlm,2.5,7.77,.2\nulm,2.50,7.7700001,.2\nBonn,1.5,0.123456789,.1\nKiel,9.5,"
      "1.1,.3\n",
      "city,x,y,z\nBONN ,1.5,0.12345679,.1\nUlm,2.5,7.77,.2\nKiel,9.5,1.1,.3\nkiel,9.5,1.1,.3\nKiel,9.6,1.1,.3\n");
  const SplitStatistics& train = all.splits.at("train");
  CHECK(train.equal.items == 1);
  CHECK(train.alike.items == 1);
  CHECK(train.alike.examples == Duplicates{1, {{3, 4}}}.examples);
  REQUIRE(all.leaks.size() == 1);
  CHECK(all.leaks[0].equal == 2);
  CHECK(all.leaks[0].alike == 2);  // "Ulm" is in train as it is, though "ulm" is too
  CHECK(all.leaks[0].alike_share == doctest::Approx(0.4));
  CHECK(all.leaks[0].alike_examples == Duplicates{2, {{2, 2}, {6, 5}}}.examples);
}

TEST_CASE("near: tables of few values and tables of random numbers have no near-duplicates") {
  NearData data;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> unit(0, 1);
  std::string few[2] = {"a,b,c\n", "a,b,c\n"}, one[2] = {"x,k\n", "x,k\n"}, wide[2] = {"x,y,k\n", "x,y,k\n"};
  for (int i = 0; i < 20000; ++i) {
    const int split = i % 4 == 0 ? 1 : 0;
    few[split] += row_text(random, 8, 3);
    one[split] += fmt::format("{},{}\n", unit(random), random() % 3);
    wide[split] += fmt::format("{},{},{}\n", unit(random), unit(random), random() % 3);
  }
  std::string codes[2] = {"a,b,c,d,e\n", "a,b,c,d,e\n"}, curve[2] = {"x,y\n", "x,y\n"};
  for (int i = 0; i < 20000; ++i) {
    const int split = i % 4 == 0 ? 1 : 0;
    for (int c = 0; c < 5; ++c) codes[split] += fmt::format("{}{}", c == 0 ? "" : ",", "aAbB"[random() % 4]);
    codes[split] += "\n";
    const double x = unit(random);
    curve[split] += fmt::format("{},{}\n", x, x * x);
  }
  for (const auto* const tables : {few, one, wide, codes, curve}) {
    const Statistics all = data.measured(tables[0], tables[1]);
    for (const auto& [name, split] : all.splits) CHECK(split.alike.items == 0);
    for (const Leak& leak : all.leaks) CHECK(leak.alike == 0);
  }
}

TEST_CASE("near: a sample of rows stands for all of them") {
  NearSample sample(1000);
  Prints a, b;
  a.near_first = b.near_first = sample;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    Observation item;
    item.place = i, item.hash = mixed(i) | 1, item.near = {mixed(i / 2 + 7), 0};
    (i < 20000 ? a : b).add(item);
    if (i % 10 == 0) item.hash = mixed(i + 99) | 1, item.place = i + 50000, b.add(item);  // almost as one of a, or b
  }
  CHECK(a.near_first.sorted().size() <= 2000);
  CHECK(static_cast<double>(alike_items(a).items) == doctest::Approx(10000).epsilon(0.1));
  CHECK(static_cast<double>(leak_between("a", a, "b", b).alike) == doctest::Approx(2000).epsilon(0.2));
}

TEST_CASE("near: lines agree if they share nearly all pairs of words") {
  const auto agree = [](const std::string& a, const std::string& b) {
    const NearHashes x = near_hashes_of_line(a), y = near_hashes_of_line(b);
    return x.first == y.first || (x.second != 0 && x.second == y.second);
  };
  CHECK(agree("It is a truth, universally acknowledged: that!", "it is a TRUTH universally -- acknowledged that"));
  CHECK(agree("Überall   grün", "Überall grün."));
  CHECK_FALSE(agree("one two three four", "one two three five"));
  CHECK(near_hashes_of_line("--- ... ---").first == 0);
  std::mt19937_64 random(11);
  int changed = 0, other = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> words(40);
    for (std::string& word : words) word = "w" + std::to_string(random() % 300);
    const std::string line = fmt::format("{}", fmt::join(words, " "));
    words[random() % 40] = "new";
    changed += agree(line, fmt::format("{}", fmt::join(words, " "))) ? 1 : 0;
    std::shuffle(words.begin(), words.end(), random);
    other += agree(line, fmt::format("{}", fmt::join(words, " "))) ? 1 : 0;  // the same words in another order
  }
  CHECK(changed > 700);
  CHECK(other == 0);
}

TEST_CASE("near: looks are the means and signs of their definition, for any size") {
  for (const auto& [height, width, channels] :
       {std::array{1, 1, 1}, {5, 3, 3}, {8, 9, 1}, {16, 16, 1}, {28, 28, 1}, {37, 211, 3}, {224, 224, 3}}) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height * width * channels));
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(mixed(i / 7));
    const auto mean = [&, height = height, width = width, channels = channels](int x, int y, int columns) {
      const int left = x * width / columns, top = y * height / 8;
      const int right = std::max(left + 1, (x + 1) * width / columns), bottom = std::max(top + 1, (y + 1) * height / 8);
      double sum = 0;
      for (int row = top; row < bottom; ++row)
        for (int at = (row * width + left) * channels; at < (row * width + right) * channels; ++at)
          sum += pixels[static_cast<std::size_t>(at)];
      return sum / ((bottom - top) * (right - left) * channels);
    };
    const Look look = look_of(pixels.data(), height, width, channels);
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) {
        CHECK(look.grey[static_cast<std::size_t>(8 * y + x)] == std::lround(mean(x, y, 8)));
        const bool rises = mean(x + 1, y, 9) > mean(x, y, 9);
        CHECK((look.gradient >> (63 - 8 * y - x) & 1) == (rises ? 1 : 0));
      }
    }
  }
}

TEST_CASE("near: bug: a category that the training split lacks counts before a training as it does in a check") {
  NearData data;
  const std::string head = "a,b,c,colour,y\n";
  const std::string train = "1.5,2.25,3.125,,0\n2.5,3.5,4.5,red,1\n3.5,4.5,5.5,green,1\n";
  const std::string test = "1.5,2.25,3.125,blue,0\n2.5,3.5,4.5,RED,1\n1.5,2.25,3.125,pink,0\n1.5,2.25,3.125, Blue,0\n";
  const Digest id = data.add({{"train.csv", to_bytes(head + train)}, {"test.csv", to_bytes(head + test)}});
  Reading reading;
  reading.rows.targets = {"y"};
  const DatasetPtr of_train = load(*data.store, id, "train", reading, data.silent);
  reading.fitted = std::make_shared<Preprocessing>(of_train->measure(nullptr));
  const DatasetPtr of_test = load(*data.store, id, "test", reading, data.silent);
  std::vector<NearHashes> seen;
  for (const DatasetPtr& each : {of_train, of_test})
    each->each_content(true, [&](const Content& content) { seen.push_back(content.near); });
  REQUIRE(seen.size() == 7);
  CHECK(seen[3].first != seen[0].first);  // "blue" is not "no colour"
  CHECK(seen[3].first != seen[5].first);  // nor "pink"
  CHECK(seen[3].first == seen[6].first);
  CHECK(seen[4].first == seen[1].first);  // "RED" is almost "red"
}
