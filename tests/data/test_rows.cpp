// Tables as examples: what a schema decides, how rows are read by it, and what is said of tables that are wrong.

#include "base/json.h"
#include "data/kinds/rows_dataset.h"
#include "data/splits.h"
#include "stored_dataset.h"

using namespace mlx;
using namespace mlx::data;

namespace {

const std::string kHouses =
    "rooms,city,garden,price\n"
    "3,Bonn,true,300\n"
    "1,\"Köln, Süd\",false,150\n"
    "5,Bonn,true,600\n"
    "3,Aachen,false,150\n";

RowFile file_of(const std::string& text, TableKind kind = TableKind::kCsv) {
  return {memory_source(text), kind, kind == TableKind::kCsv ? "train.csv" : "train.jsonl"};
}

RowOptions options_of(std::vector<std::string> targets, bool list = false) {
  RowOptions options;
  options.targets = std::move(targets);
  options.list = list;
  options.target_place = "t.toml:3: [data] target";
  options.features_place = "t.toml:4: [data] features";
  return options;
}

Rows rows_of(const std::string& text, const RowOptions& options, TableKind kind = TableKind::kCsv) {
  NoProgress silent;
  const RowFile file = file_of(text, kind);
  Rows rows = read_rows(file, fit_schema(file, options), true, silent);
  rows.schema = measured(rows.schema, [&](const TakeRow& take) {
    for (std::int64_t i = 0; i < rows.count; ++i) take(rows[i]);
  });
  return rows;
}

std::vector<float> features_of(const Rows& rows, std::int64_t index) {
  std::vector<float> out(static_cast<std::size_t>(rows.schema.width()));
  write_features(rows[index], rows.schema, out.data());
  return out;
}

template <typename Call>
std::string failure(Call call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind == kind, error.message);
    return error.message + (error.hint.empty() ? "" : " | " + error.hint);
  }
  return "no error";
}

std::string failure(const std::string& text, const RowOptions& options, ErrorKind kind,
                    TableKind table = TableKind::kCsv) {
  return failure([&] { (void)rows_of(text, options, table); }, kind);
}

bool says(const std::string& message, const std::string& part) {
  const bool found = message.find(part) != std::string::npos;
  if (!found) MESSAGE("got: " << message);
  return found;
}

}  // namespace

TEST_CASE("bug: an error in a table did not name the file if the message began with the same word") {
  const RowFile file{memory_source("x,y\n1,2\n3\n"), TableKind::kCsv, "line"};
  const std::string text = failure([&] { (void)fit_schema(file, options_of({"y"})); }, ErrorKind::kCorrupt);
  CHECK(text.starts_with("line: line 3: "));
}

TEST_CASE("rows: numbers are normalised, categories one-hot by their sorted values, the target scaled") {
  const Rows rows = rows_of(kHouses, options_of({"price"}));
  CHECK(rows.count == 4);
  CHECK(rows.schema.kind == TargetKind::kNumbers);
  CHECK(rows.schema.width() == 1 + 3 + 2);
  CHECK(rows.schema.features[1].values == std::vector<std::string>{"Aachen", "Bonn", "Köln, Süd"});
  CHECK(rows.schema.features[0].mean == 3);
  CHECK(rows.schema.features[0].std == doctest::Approx(std::sqrt(2.0)));
  const auto root = static_cast<float>(std::sqrt(2.0));
  CHECK(features_of(rows, 1) == std::vector<float>{-root, 0, 0, 1, 1, 0});
  CHECK(features_of(rows, 2) == std::vector<float>{root, 0, 1, 0, 0, 1});
  CHECK(rows.schema.targets[0].mean == 300);
  float target = 0;
  write_targets(rows[2], rows.schema, &target);
  CHECK(static_cast<double>(target) == doctest::Approx(300 / std::sqrt((0 + 22500 + 90000 + 22500) / 4.0)));
}

TEST_CASE("rows: what a target is, by its values, by being a list and by the loss") {
  const std::string table = "x,word,digit,a,b\n1,up,2,0,true\n2,down,10,1,false\n3,up,2,1,true\n";
  CHECK(rows_of(table, options_of({"word"})).schema.outputs() == std::vector<std::string>{"down", "up"});
  CHECK(rows_of(table, options_of({"word"})).labels == RowValues<std::int32_t>{1, 0, 1});
  CHECK(rows_of(table, options_of({"digit"})).schema.kind == TargetKind::kNumbers);
  RowOptions classes = options_of({"digit"});
  classes.loss = "softmax";
  CHECK(rows_of(table, classes).schema.outputs() == std::vector<std::string>{"2", "10"});
  const Rows labels = rows_of(table, options_of({"a", "b"}, true));
  CHECK(labels.schema.kind == TargetKind::kLabels);
  CHECK(labels.targets == RowValues<double>{0, 1, 1, 0, 1, 1});
  CHECK(rows_of(table, options_of({"a", "digit"}, true)).schema.kind == TargetKind::kNumbers);
  RowOptions binary = options_of({"digit"});
  binary.loss = "binary";
  CHECK(says(failure(table, binary, ErrorKind::kUsage), "t.toml:3: [data] target: column 'digit' holds '2'"));
  RowOptions squared = options_of({"word"});
  squared.loss = "mse";
  CHECK(says(failure(table, squared, ErrorKind::kUsage), "column 'word' holds 'up', loss = \"mse\" needs numbers"));
  RowOptions several = options_of({"a", "b"}, true);
  several.loss = "softmax";
  CHECK(says(failure(table, several, ErrorKind::kUsage), "2 columns cannot be one class"));
  CHECK(says(failure(table, options_of({"a", "word"}, true), ErrorKind::kUsage), "column 'word' holds 'up'"));
}

TEST_CASE("rows: JSON lines give what CSV gives, escapes and keys in any order") {
  const std::string lines =
      "{\"rooms\":3,\"city\":\"Bonn\",\"garden\":true,\"price\":300}\n"
      "{\"garden\":false,\"city\":\"K\\u00f6ln, S\\u00fcd\",\"rooms\":1.0,\"price\":1.5e2}\n\n"
      "{\"rooms\":5,\"city\":\"Bonn\",\"garden\":true,\"price\":600}\n"
      "{\"rooms\":3,\"city\":\"Aachen\",\"garden\":false,\"price\":150}\n";
  const Rows json = rows_of(lines, options_of({"price"}), TableKind::kJsonLines);
  const Rows csv = rows_of(kHouses, options_of({"price"}));
  CHECK(json.schema == csv.schema);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(features_of(json, i) == features_of(csv, i));
  CHECK(says(failure("{\"a\":[1],\"y\":1}\n", options_of({"y"}), ErrorKind::kCorrupt, TableKind::kJsonLines),
             "train.jsonl: line 1: column 'a': [1] is a list"));
  RowOptions strict = options_of({"y"});
  strict.missing = Missing::kError;
  CHECK(says(failure("{\"a\":1,\"y\":1}\n{\"y\":2}\n", strict, ErrorKind::kCorrupt, TableKind::kJsonLines),
             "line 2: column 'a' has no value"));
}

TEST_CASE("rows: missing values are an error, or the mean and no category") {
  const std::string table = "x,c,y\n1,a,1\n,b,2\n3,,3\nnan,a,4\n";
  RowOptions strict = options_of({"y"}), mean = strict;
  strict.missing = Missing::kError;
  CHECK(says(failure(table, strict, ErrorKind::kCorrupt), "train.csv: line 3: column 'x' has no value"));
  mean.missing = Missing::kMean;
  const Rows rows = rows_of(table, mean);
  CHECK(rows.schema.features[0].mean == 2);
  CHECK(features_of(rows, 1) == std::vector<float>{0, 0, 1});
  CHECK(features_of(rows, 2) == std::vector<float>{1, 0, 0});
  CHECK(says(failure("x,y\n1,\n2,3\n", mean, ErrorKind::kCorrupt), "line 2: column 'y' has no value"));
  CHECK(says(failure("x,y\n,1\n,3\n", mean, ErrorKind::kCorrupt), "column 'x' has no value in any row"));
}

TEST_CASE("rows: bug: one odd cell made a column of numbers a category, silently") {
  std::string table = "x,c,y\n";
  for (const char* cell : {"NA", "N/A", "n/a", "null", "NaN", "-", "", " ", " 7 ", "\t9", "\"  8\""})
    table += fmt::format("{},a,1\n", cell);
  TableFacts facts;
  const RowSchema schema = fit_schema(file_of(table + "7,b, 3\n"), options_of({"y"}), &facts);
  CHECK(schema.features[0].is_number());
  CHECK(schema.kind == TargetKind::kNumbers);
  CHECK(schema.impute);
  CHECK(facts.warnings.empty());
  CHECK(columns_text(to_json(facts)) ==
        "columns of train.csv: x number (8 missing), c category of 2; to learn: y number");
  const std::string lines = "{\"x\":\"NA\",\"y\":1}\n{\"x\":2,\"y\":1}\n";
  CHECK(fit_schema(file_of(lines, TableKind::kJsonLines), options_of({"y"})).features[0].is_number());
  // What never was missing is not taken for granted later: a model that was trained without refuses it.
  NoProgress silent;
  const Rows whole = rows_of("x,y\n1,1\n2,3\n", options_of({"y"}));
  CHECK(says(failure([&] { (void)read_rows(file_of("x,y\nNA,1\n"), whole.schema, true, silent); }, ErrorKind::kCorrupt),
             "line 2: column 'x' has no value"));
  CHECK(says(failure("x,y\n1,1\n2,NA\n", options_of({"y"}), ErrorKind::kCorrupt), "line 3: column 'y' has no value"));
}

TEST_CASE("rows: a column of numbers but for a few cells is warned of, unless it is declared") {
  std::string table = "bmi,y\n";
  for (int i = 0; i < 442; ++i) table += fmt::format("{},{}\n", i == 17 ? "abc" : std::to_string(i), i % 7);
  TableFacts facts;
  CHECK(fit_schema(file_of(table), options_of({"y"}), &facts).width() == 442);
  REQUIRE(facts.warnings.size() == 1);
  CHECK(says(facts.warnings[0], "train.csv: 99.8 % of `bmi` are numbers, and 'abc' in line 19 is none"));
  CHECK(says(facts.warnings[0], "category of 442 values"));
  RowOptions declared = options_of({"y"});
  declared.columns_place = "t.toml:5: [data.columns]";
  declared.columns["bmi"] = ColumnKind::kCategory;
  declared.columns["y"] = ColumnKind::kCategory;
  facts = {};
  const RowSchema classes = fit_schema(file_of(table), declared, &facts);
  CHECK(facts.warnings.empty());
  CHECK(classes.kind == TargetKind::kClass);
  CHECK(classes.outputs().size() == 7);
  declared.columns["bmi"] = ColumnKind::kNumber;
  CHECK(says(failure(table, declared, ErrorKind::kCorrupt), "line 19: column 'bmi': 'abc' is not a number"));
  declared.columns["bmi"] = ColumnKind::kIgnore;
  CHECK(says(failure(table, declared, ErrorKind::kUsage), "no column besides the targets"));
  declared.columns["bim"] = ColumnKind::kNumber;
  CHECK(says(failure(table, declared, ErrorKind::kUsage), "t.toml:5: [data.columns]: train.csv has no column 'bim'"));
  // The target of a regression.
  facts = {};
  (void)fit_schema(file_of("x,y\n1,1\n2,2\n3,3\n4,x\n"), options_of({"y"}), &facts);
  REQUIRE(facts.warnings.size() == 1);
  CHECK(says(facts.warnings[0], "75.0 % of `y` are numbers"));
}

TEST_CASE("rows: a feature marks missing numbers, and is part of the schema") {
  RowOptions options = options_of({"y"});
  options.missing = Missing::kIndicator;
  const Rows rows = rows_of("x,z,y\n1,1,1\nNA,2,2\n3,4,3\n", options);
  CHECK(rows.schema.width() == 3);
  CHECK(features_of(rows, 0) == std::vector<float>{-1, 0, features_of(rows, 0)[2]});
  CHECK(features_of(rows, 1)[0] == 0);
  CHECK(features_of(rows, 1)[1] == 1);
  CHECK(schema_from_json(parse_json(canonical(to_json(rows.schema)), "x"), "x") == rows.schema);
}

TEST_CASE("rows: bug: a number too large to compute with ended a training in an error about JSON") {
  CHECK(says(failure("a,y\n1,1\n1e300,2\n", options_of({"y"}), ErrorKind::kCorrupt),
             "train.csv: line 3: column 'a': 1e300 is beyond 3.4e38"));
  CHECK(says(failure("a,y\n1,1\n2,-1e300\n", options_of({"y"}), ErrorKind::kCorrupt), "line 3: column 'y': -1e300"));
  CHECK(says(failure("a,y\n1,1\n-inf,2\n", options_of({"y"}), ErrorKind::kCorrupt), "is not a finite number"));
  RowOptions declared = options_of({"y"});
  declared.columns["a"] = ColumnKind::kCategory;
  CHECK(rows_of("a,y\n1,1\n1e300,2\n", declared).schema.features[0].values.size() == 2);
}

TEST_CASE("rows: bug: a header with a name twice gave columns 1, 2, 3 without a word") {
  CHECK(says(failure("a,b,b\n1,2,3\n", options_of({"b"}), ErrorKind::kUsage),
             "has no column 'b' | it has: 1, 2, 3 (its first line has 'b' twice)"));
  CHECK(says(failure("a,2019\n1,2\n", options_of({"a"}), ErrorKind::kUsage), "'2019' in its first line is a value"));
  CHECK(says(failure("a,,c\n1,2,3\n", options_of({"a"}), ErrorKind::kUsage), "cell 2 of its first line is empty"));
  // As data frames are written, with their index.
  const Rows indexed = rows_of(",a, b \n0,1,2\n1,4,5\n", options_of({"b"}));
  CHECK(indexed.schema.features[0].name == "1");
  CHECK(indexed.schema.targets[0].name == "b");
}

TEST_CASE("rows: bug: semicolons, tabs, decimal commas and Latin-1 were refused") {
  const RowSchema commas = rows_of("größe,y\n1.5,1\n2.5,2\n-3,3\n", options_of({"y"})).schema;
  for (const auto& [text, found] : std::initializer_list<std::pair<const char*, const char*>>{
           {"größe;y\n1,5;1\n2,5;2\n-3;3\n", "cells end at ';', 1,5 is 1.5"},
           {"gr\xf6\xdf"
            "e;y\r\n1,5;1\r\n2,5;2\r\n-3;3\r\n",
            "cells end at ';', 1,5 is 1.5, Latin-1, not UTF-8"},
           {"größe\ty\n1.5\t1\n2.5\t2\n-3\t3\n", "cells end at tabs"},
           {"größe|y\n1.5|1\n2.5|2\n-3|3", "cells end at '|'"}}) {
    CAPTURE(text);
    CHECK(rows_of(text, options_of({"y"})).schema == commas);
    TableFacts facts;
    (void)fit_schema(file_of(text), options_of({"y"}), &facts);
    CHECK(facts.found_out == found);
  }
  const Rows words = rows_of("c;y\n\x80 5,00;1\nM\xfcller;2\nK\xc3\xb6ln;3\n", options_of({"y"}));
  CHECK(words.schema.features[0].values == std::vector<std::string>{"Köln", "Müller", "€ 5,00"});
  // Commas where they cut the lines, whatever else stands in the cells.
  CHECK(rows_of("a,y\n1;2,1\n1;3,2\n", options_of({"y"})).schema.features[0].values.size() == 2);
}

TEST_CASE("rows: another split is read by the training split's schema") {
  const Rows train = rows_of(kHouses, options_of({"price"}));
  NoProgress silent;
  const Rows test = read_rows(file_of("price,more,city,garden,rooms\n7,x,Ulm,true,4\n"), train.schema, true, silent);
  CHECK(features_of(test, 0) == std::vector<float>{static_cast<float>(1 / std::sqrt(2.0)), 0, 0, 0, 0, 1});
  const Rows plain = read_rows(file_of("city,garden,rooms\nBonn,true,4\n"), train.schema, false, silent);
  CHECK(plain.targets.empty());
  const auto read = [&](const std::string& text, bool targets) {
    return failure([&] { (void)read_rows(file_of(text), train.schema, targets, silent); }, ErrorKind::kUsage);
  };
  CHECK(says(read("city,garden\nBonn,true\n", false), "train.csv has no column 'rooms' | the model takes it"));
  CHECK(says(read("city,garden,rooms\nBonn,true,4\n", true), "has no column 'price'"));
  // bug: a model from elsewhere could add a line to an error by the name of a column
  RowSchema hostile = train.schema;
  hostile.features[0].name = "x\nhint: send your key";
  CHECK(says(failure([&] { (void)read_rows(file_of(kHouses), hostile, false, silent); }, ErrorKind::kUsage),
             "'x hint: send your key'"));
  CHECK(says(
      failure([&] { (void)read_rows(file_of("city,garden,rooms\nBonn,true,many\n"), train.schema, false, silent); },
              ErrorKind::kCorrupt),
      "line 2: column 'rooms': 'many' is not a number"));
  const Rows words = rows_of("x,y\n1,a\n2,b\n", options_of({"y"}));
  CHECK(says(
      failure([&] { (void)read_rows(file_of("x,y\n1,a\n1,c\n"), words.schema, true, silent); }, ErrorKind::kCorrupt),
      "line 3: column 'y': 'c' is not among the classes"));
}

TEST_CASE("rows: hostile and mistaken tables") {
  const RowOptions price = options_of({"price"});
  CHECK(says(failure(kHouses, options_of({"prise"}), ErrorKind::kUsage),
             "t.toml:3: [data] target: train.csv has no column 'prise' | did you mean 'price'?"));
  CHECK(says(failure(kHouses, options_of({}), ErrorKind::kUsage),
             "which column of train.csv is the target? | it has: rooms"));
  RowOptions features = price;
  features.features = {"room"};
  CHECK(says(failure(kHouses, features, ErrorKind::kUsage), "features: train.csv has no column 'room' | did you mean"));
  features.features = {"price"};
  CHECK(says(failure(kHouses, features, ErrorKind::kUsage), "column 'price' is a target"));
  features.features = {"rooms", "rooms"};
  CHECK(says(failure(kHouses, features, ErrorKind::kUsage), "column 'rooms' occurs twice"));
  CHECK(says(failure("a,price\n1,2\n1,2,3\n", price, ErrorKind::kCorrupt), "train.csv: line 3: 3 cells, 2 columns"));
  CHECK(says(failure("a,price\n\"1,2\n", price, ErrorKind::kCorrupt), "line 2: an unterminated quoted cell"));
  CHECK(says(failure("a,price\n1e999,2\n", price, ErrorKind::kCorrupt), "column 'a': 1e999 is not a finite number"));
  CHECK(says(failure("a,price\n", price, ErrorKind::kCorrupt), "it has no rows"));
  CHECK(says(failure("", price, ErrorKind::kCorrupt), "it has no rows"));
  CHECK(says(failure("a,price\n\xff\x81,2\n", price, ErrorKind::kCorrupt), "line 2: text that is neither UTF-8 nor"));
  CHECK(says(failure("price\n1\n2\n", options_of({"price"}), ErrorKind::kUsage), "no column"));
  std::string ids = "id,price\n";
  for (int i = 0; i < 5000; ++i) ids += fmt::format("n{},1\n", i);
  CHECK(
      says(failure(ids, price, ErrorKind::kUsage), "column 'id' has more than 4096 different values ('n0' in line 2"));
}

TEST_CASE("rows: a schema survives model.json, and a damaged one is refused") {
  for (const RowOptions& options : {options_of({"price"}), options_of({"city"}), options_of({"garden"}, true)}) {
    const RowSchema schema = rows_of(kHouses, options).schema;
    CHECK(schema_from_json(parse_json(canonical(to_json(schema)), "x"), "x") == schema);
  }
  const Json good = to_json(rows_of(kHouses, options_of({"price"})).schema);
  const auto changed = [&](auto change) {
    Json json = good;
    change(json);
    return failure([&] { (void)schema_from_json(json, "model.json"); }, ErrorKind::kCorrupt);
  };
  CHECK(says(changed([](Json& j) { j["target"] = "price"; }), "model.json: 'target': unknown word 'price'"));
  CHECK(says(changed([](Json& j) { j["features"][0]["std"] = 0; }), "'rooms': 'std': expected a number above 0"));
  CHECK(says(changed([](Json& j) { j["features"][1]["values"] = {"a", "a"}; }), "'a' occurs twice"));
  CHECK(says(changed([](Json& j) { j["features"][1]["name"] = "rooms"; }), "'rooms' occurs twice"));
  CHECK(says(changed([](Json& j) { j["target"] = "class"; }), "'targets' do not match 'target'"));
  CHECK(says(changed([](Json& j) { j.erase("features"); }), "features"));
}

TEST_CASE("rows: batches hold every row once, the same for one seed and epoch, resumed or not") {
  std::string table = "x,y\n";
  for (int i = 0; i < 103; ++i) table += fmt::format("{},{}\n", i, i);
  const DatasetPtr rows = make_dataset(rows_of(table, options_of({"y"})));
  const Preprocessing preprocessing = rows->measure(nullptr);
  Pool pool(1);
  const auto epoch = [&](std::uint64_t number, std::int64_t first, bool drop) {
    const auto source =
        rows->batches(preprocessing, {.batch = 16, .seed = 3, .shuffle = true, .drop_last = drop}, pool);
    source->start(number, first);
    std::vector<float> all;
    while (const BatchView* batch = source->next()) {
      const auto* x = static_cast<const float*>(batch->inputs[0].data);
      const auto* y = static_cast<const float*>(batch->target);
      CHECK(batch->inputs[0].dims == std::vector<std::int64_t>{batch->count, 1});
      CHECK(std::equal(x, x + batch->count, y));  // both are scaled alike
      all.insert(all.end(), x, x + batch->count);
    }
    return all;
  };
  std::vector<float> whole = epoch(0, 0, false);
  CHECK(whole.size() == 103);
  CHECK(epoch(0, 0, true).size() == 96);
  CHECK(epoch(1, 0, false) != whole);
  const std::vector<float> rest = epoch(0, 4, false);
  CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + 64, whole.end()));
  std::sort(whole.begin(), whole.end());
  CHECK(std::adjacent_find(whole.begin(), whole.end()) == whole.end());
}

TEST_CASE("rows: splits by their files' names, or declared") {
  StoredDataset dataset;
  NoProgress silent;
  Reading reading;
  reading.rows = options_of({"price"});
  const Digest named =
      dataset.add({{"a/train.csv.gz", gzip(to_bytes(kHouses))},
                   {"test.jsonl", to_bytes("{\"rooms\":1,\"city\":\"x\",\"garden\":true,\"price\":2}\n")},
                   {"other.csv", to_bytes("x\n")}});
  CHECK(splits(*dataset.store, named) == std::vector<std::string>{"test", "train"});
  const DatasetPtr train = load(*dataset.store, named, "train", reading, silent);
  CHECK(train->describe().kind == &rows_kind);
  CHECK(&kind_of(*dataset.store, named, "train") == &rows_kind);
  CHECK(train->describe().features == 6);
  CHECK(describe(*dataset.store, named, "train", reading).count == 4);
  reading.fitted = std::make_shared<Preprocessing>(train->measure(nullptr));
  CHECK(load(*dataset.store, named, "test", reading, silent)->describe().count == 1);
  CHECK(splits(*dataset.store, dataset.add({{"houses.csv", to_bytes(kHouses)}, {"README.txt", to_bytes("x")}})) ==
        std::vector<std::string>{"train"});
  const Digest declared = dataset.add({{"a.csv", to_bytes(kHouses)},
                                       {"b.csv", to_bytes(kHouses)},
                                       {"dataset.toml", to_bytes("[splits.mine]\nrows = \"b.csv\"\n")}});
  CHECK(splits(*dataset.store, declared) == std::vector<std::string>{"mine"});
  CHECK(says(failure(
                 [&] {
                   (void)splits(*dataset.store, dataset.add({{"train.csv", {}}, {"x/train.jsonl", {}}}));
                 },
                 ErrorKind::kCorrupt),
             "would both be the split 'train'"));
  CHECK(says(failure([&] { (void)load_images(*dataset.store, declared, "mine", silent); }, ErrorKind::kUsage),
             "holds rows, expected images"));
}
