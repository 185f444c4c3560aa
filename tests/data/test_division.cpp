// Division of a split: parts are disjoint and complete, equal items and groups stay together, shares hold, and the same
// items are in the same part on every machine.

#include <doctest/doctest.h>

#include <set>

#include "base/json.h"
#include "data/content_hash.h"
#include "data/dataset.h"
#include "data/division.h"
#include "data/kinds/rows_dataset.h"
#include "data/quality/measure.h"
#include "stored_dataset.h"

namespace mlx::data {
namespace {

SplitRule rule_of(const std::string& toml) {
  const TomlNode root = parse_toml(toml, "dataset.toml");
  return read_split_rule(TomlReader(root, "dataset.toml", "[split]"));
}

std::string refused_rule(const std::string& toml) {
  try {
    (void)rule_of(toml);
  } catch (const Error& error) {
    return error.message;
  }
  return "accepted";
}

// Items 0 … count-1, whose value is value(i).
template <typename Value>
std::vector<Part> divided(const SplitRule& rule, int count, const Value& value) {
  Divider divider(rule);
  for (int i = 0; i < count; ++i) {
    const char* const wrong = divider.add(hash_of(fmt::format("item {}", i)), value(i));
    REQUIRE_MESSAGE(!wrong, wrong);
  }
  return divider.finish();
}

std::string table(int rows) {
  std::string out = "id,customer,day,class,fold\n";
  for (int i = 0; i < rows; ++i)
    out += fmt::format("{},c{},2024-{:02}-{:02},{},{}\n", i, i % 37, 1 + i % 12, 1 + i % 28, i % 4 == 0 ? "a" : "b",
                       i % 5);
  return out;
}

struct Divided : StoredDataset {
  NoProgress silent;
  Digest id;
  explicit Divided(const std::string& rule, int rows = 400)
      : id(add({{"all.csv", to_bytes(table(rows))}, {"dataset.toml", to_bytes("[split]\n" + rule)}})) {}
  // The ids of a split's rows.
  RowValues<double> ids(const std::string& split) {
    Reading reading;
    reading.rows.targets = {"class"};
    reading.rows.features = {"id"};
    return load_rows(*store, id, split, reading, silent).numbers;
  }
};

}  // namespace

TEST_CASE(
    "division: by fraction the parts are disjoint, complete and near their shares, and new items move no others") {
  const SplitRule rule = rule_of("test = 0.2\nvalid = 0.1\nseed = 7\n");
  const auto none = [](int) { return ""; };
  const std::vector<Part> parts = divided(rule, 10000, none), more = divided(rule, 12000, none);
  CHECK(std::equal(parts.begin(), parts.end(), more.begin()));
  const std::int64_t test = items_of(parts, Part::kTest).size(), valid = items_of(parts, Part::kValid).size();
  CHECK(std::abs(test - 2000) < 160);  // four standard deviations
  CHECK(std::abs(valid - 1000) < 120);
  CHECK(test + valid + items_of(parts, Part::kTrain).size() == 10000);
  CHECK(divided(rule_of("test = 0.2\nvalid = 0.1\nseed = 8\n"), 10000, none) != parts);
}

TEST_CASE("division: the parts of these items never change, because models were tested on them") {
  const auto none = [](int) { return ""; };
  std::string text;
  for (const Part part : divided(rule_of("test = 0.25\nvalid = 0.25\n"), 32, none)) text += name_of(part)[1];
  CHECK(text == "rrerrrrrrreraaarereerearareraaae");
}

TEST_CASE("division: groups are never divided") {
  const std::vector<Part> parts = divided(rule_of("by = \"group\"\ncolumn = \"c\"\ntest = 0.3\n"), 1000,
                                          [](int i) { return fmt::format("{}", i % 50); });
  for (std::size_t i = 50; i < parts.size(); ++i) CHECK(parts[i] == parts[i % 50]);
}

TEST_CASE("division: stratified parts have their share of each class, rounded") {
  const auto value = [](int i) { return i % 10 == 0 ? "rare" : "common"; };
  const std::vector<Part> parts =
      divided(rule_of("by = \"stratified\"\ncolumn = \"c\"\ntest = 0.25\nvalid = 0.1\n"), 1000, value);
  int rare_test = 0, common_test = 0, rare_valid = 0;
  for (int i = 0; i < 1000; ++i) {
    const Part part = parts[static_cast<std::size_t>(i)];
    rare_test += part == Part::kTest && i % 10 == 0, common_test += part == Part::kTest && i % 10 != 0;
    rare_valid += part == Part::kValid && i % 10 == 0;
  }
  CHECK(rare_test == 25);
  CHECK(common_test == 225);
  CHECK(rare_valid == 10);
}

TEST_CASE("division: by time the newest items are test, and equal times stay together") {
  const SplitRule rule = rule_of("by = \"time\"\ncolumn = \"day\"\ntest = 0.2\nvalid = 0.2\n");
  const std::vector<Part> parts =
      divided(rule, 100, [](int i) { return fmt::format("2024-01-{:02}", 1 + (i * 7) % 20); });
  for (std::size_t i = 0; i < 100; ++i) {
    const int day = 1 + (static_cast<int>(i) * 7) % 20;
    CHECK(parts[i] == (day > 16 ? Part::kTest : day > 12 ? Part::kValid : Part::kTrain));
  }
  Divider divider(rule);
  CHECK(divider.add(1, "soon") != nullptr);
  CHECK(divider.add(1, "2024-02-30") != nullptr);
  CHECK(divider.add(1, "2024-02-29") == nullptr);
  CHECK(divider.add(1, "17") != nullptr);
  CHECK(seconds_of("2024-01-01T02:00:00+02:00") == seconds_of("2024-01-01"));
  CHECK(seconds_of("1970-01-02 00:00:10.5") == 86410.5);
}

TEST_CASE("division: a rule that divides nothing, or with keys of another, is refused with its line") {
  CHECK(refused_rule("by = \"fraction\"\n").find("expected the share") != std::string::npos);
  CHECK(refused_rule("test = 0.6\nvalid = 0.4\n").find("leave nothing") != std::string::npos);
  CHECK(refused_rule("test = 0.1\ncolumn = \"x\"\n").find("dataset.toml:2: [split] column") != std::string::npos);
  CHECK(refused_rule("by = \"time\"\ntest = 0.1\n").find("needs the key 'column'") != std::string::npos);
  CHECK(refused_rule("by = \"time\"\ntest = 0.1\ncolumn = \"d\"\nseed = 3\n").find("draws nothing") !=
        std::string::npos);
  CHECK(refused_rule("by = \"column\"\ncolumn = \"f\"\ntest = \"1\"\nvalid = [\"1\"]\n").find("value of test too") !=
        std::string::npos);
  const SplitRule rule = rule_of("by = \"column\"\ncolumn = \"f\"\ntest = \"1\"\nvalid = [\"2\", \"3\"]\n");
  CHECK(split_rule_from_json(to_json(rule), "rule") == rule);
  const SplitRule shares = rule_of("by = \"group\"\ncolumn = \"f\"\ntest = 0.25\nseed = 9\n");
  CHECK(split_rule_from_json(to_json(shares), "rule") == shares);
}

TEST_CASE("division: rows of a stored table are in one split each, and describe, load and check agree") {
  for (const std::string rule :
       {"test = 0.2\nvalid = 0.1\n", "by = \"group\"\ncolumn = \"customer\"\ntest = 0.3\nvalid = 0.2\n",
        "by = \"time\"\ncolumn = \"day\"\ntest = 0.2\nvalid = 0.1\n",
        "by = \"column\"\ncolumn = \"fold\"\ntest = \"4\"\nvalid = [\"3\"]\n",
        "by = \"stratified\"\ncolumn = \"class\"\ntest = 0.2\nvalid = 0.1\n"}) {
    CAPTURE(rule);
    Divided data(rule);
    CHECK(splits(*data.store, data.id) == std::vector<std::string>{"test", "train", "valid"});
    std::set<double> seen;
    const Statistics statistics = measure_statistics(*data.store, data.id, "", "", nullptr, data.silent);
    for (const std::string split : {"train", "valid", "test"}) {
      const RowValues<double> ids = data.ids(split);
      seen.insert(ids.begin(), ids.end());
      Reading reading;
      reading.rows.targets = {"class"};
      CHECK(describe(*data.store, data.id, split, reading).count == static_cast<std::int64_t>(ids.size()));
      CHECK(load(*data.store, data.id, split, reading, data.silent)->describe().count ==
            static_cast<std::int64_t>(ids.size()));
      CHECK(statistics.splits.at(split).items == ids.size());
    }
    CHECK(seen.size() == 400);
    CHECK(data.ids("train").size() + data.ids("valid").size() + data.ids("test").size() == 400);
  }
}

TEST_CASE("division: by fraction the order of rows and the table's format mean nothing") {
  StoredDataset data;
  NoProgress silent;
  const auto ids = [&](const std::string& name, const std::string& text) {
    const Digest id = data.add({{name, to_bytes(text)}, {"dataset.toml", to_bytes("[split]\ntest = 0.3\n")}});
    Reading reading;
    reading.rows.targets = {"y"};
    const RowValues<double> found = load_rows(*data.store, id, "test", reading, silent).numbers;
    return std::set<double>(found.begin(), found.end());
  };
  std::string up = "x,y\n", down = "y,x\n", lines;
  for (int i = 0; i < 50; ++i)
    up += fmt::format("{},{}\n", i, i % 3), lines += fmt::format("{{\"x\":{},\"y\":{}}}\n", i, i % 3);
  for (int i = 49; i >= 0; --i) down += fmt::format("{},{}\n", i % 3, i);
  CHECK(ids("all.csv", up) == ids("all.csv", down));
  CHECK(ids("all.csv", up) == ids("all.jsonl", lines));
}

TEST_CASE("division: IDX images and files of text are divided, and what cannot be is refused") {
  StoredDataset data;
  NoProgress silent;
  const auto toml = [](const std::string& rule) { return to_bytes("[split]\n" + rule); };
  const std::vector<std::pair<std::string, Bytes>> images = {{"train-images-idx3-ubyte", idx({100, 2, 2}, ramp(400))},
                                                             {"train-labels-idx1-ubyte", idx({100}, Bytes(100, 1))}};
  auto divided_images = images;
  divided_images.emplace_back("dataset.toml", toml("by = \"stratified\"\ntest = 0.2\nvalid = 0.1\n"));
  const Digest id = data.add(divided_images);
  CHECK(load(*data.store, id, "train", {}, silent)->describe().count == 70);
  CHECK(describe(*data.store, id, "test").count == 20);
  CHECK(measure_statistics(*data.store, id, "", "", nullptr, silent).splits.at("valid").items == 10);

  const auto says = [&](const std::vector<std::pair<std::string, Bytes>>& files, const char* split, const char* part) {
    try {
      (void)load(*data.store, data.add(files), split, {}, silent);
    } catch (const Error& error) {
      CHECK_MESSAGE(error.message.find(part) != std::string::npos, error.message);
      return;
    }
    FAIL_CHECK(part << ": nothing thrown");
  };
  auto by_group = images;
  by_group.emplace_back("dataset.toml", toml("by = \"group\"\ncolumn = \"x\"\ntest = 0.2\n"));
  says(by_group, "test", "no columns");
  std::vector<std::pair<std::string, Bytes>> texts = {{"dataset.toml", toml("test = 0.4\n")}};
  texts.emplace_back("book.txt", to_bytes("only one"));
  says(texts, "test", "one file of text");
  texts.pop_back();
  for (int i = 0; i < 12; ++i)
    texts.emplace_back(fmt::format("train/{}.txt", i), to_bytes(fmt::format("text {}\n", i)));
  const Digest text = data.add(texts);
  const std::int64_t train = load(*data.store, text, "train", {}, silent)->describe().count;
  const std::int64_t test = load(*data.store, text, "test", {}, silent)->describe().count;
  CHECK(train > 0);
  CHECK(test > 0);
  CHECK(train + test == 10 * 7 + 2 * 8);
  auto two = images;
  two.emplace_back("t10k-images-idx3-ubyte", idx({4, 2, 2}, ramp(16)));
  two.emplace_back("t10k-labels-idx1-ubyte", idx({4}, Bytes(4, 1)));
  two.emplace_back("dataset.toml", toml("test = 0.2\n"));
  says(two, "test", "t10k-images-idx3-ubyte is one already");
}

}  // namespace mlx::data
