// Text as examples: files behind one another, windows, and what is held out.

#include <set>

#include "base/json.h"

#include "data/kinds/text_dataset.h"
#include "data/splits.h"
#include "stored_dataset.h"

using namespace mlx;
using namespace mlx::data;

namespace {

// 0, 1, 2 …, of a vocabulary of a thousand characters.
Text counting(std::int64_t count) {
  static const auto tokenizer = std::make_shared<const Tokenizer>([] {
    std::string text;
    for (int code = 0x800; code < 0x800 + 1000; ++code)
      text += {static_cast<char>(0xE0), static_cast<char>(0x80 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    return Tokenizer::chars(text, "x");
  }());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::ranges::generate(tokens, [next = 0]() mutable { return next++; });
  return text_of(tokens, tokenizer);
}

using Epoch = std::vector<std::vector<std::int32_t>>;  // windows

std::unique_ptr<BatchSource> text_batches(const Text& text, std::int64_t context, BatchOptions options) {
  static Pool pool(1);
  options.context = context;
  return make_dataset(text)->batches({}, options, pool);
}

Epoch epoch_of(const Text& text, std::int64_t context, const BatchOptions& options, std::uint64_t epoch,
               std::int64_t first = 0) {
  const auto source = text_batches(text, context, options);
  source->start(epoch, first);
  Epoch out;
  while (const BatchView* batch = source->next()) {
    const auto* ids = static_cast<const std::int32_t*>(batch->inputs[0].data);
    const auto* labels = static_cast<const std::int32_t*>(batch->target);
    CHECK(batch->inputs[0].dims == std::vector<std::int64_t>{batch->count, context});
    for (std::int64_t i = 0; i < batch->count * context; ++i)
      CHECK((labels[i] == ids[i] + 1 || (labels[i] == -1 && ids[i] == -1)));
    for (std::int64_t i = 0; i < batch->count; ++i) out.emplace_back(ids + i * context, ids + (i + 1) * context);
  }
  return out;
}

}  // namespace

TEST_CASE("text: evaluation sees every token once, the last window filled up") {
  const Epoch windows = epoch_of(counting(11), 4, {.batch = 2}, 0);
  CHECK(windows == Epoch{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, -1, -1}});
  CHECK(epoch_of(counting(9), 4, {.batch = 8}, 0).size() == 2);
  CHECK(epoch_of(counting(2), 4, {.batch = 8}, 0) == Epoch{{0, -1, -1, -1}});
}

TEST_CASE("text: each epoch cuts windows that do not overlap, from its own offset, in its own order") {
  const Text text = counting(1000);
  const BatchOptions options{.batch = 8, .seed = 7, .shuffle = true, .drop_last = true};
  std::set<std::int32_t> offsets, seen;
  for (std::uint64_t number = 0; number < 400; ++number) {
    Epoch windows = epoch_of(text, 30, options, number);
    CHECK(windows.size() == 32);
    CHECK(!std::is_sorted(windows.begin(), windows.end()));
    std::sort(windows.begin(), windows.end());
    const std::int32_t offset = windows[0][0] % 30;
    offsets.insert(offset);
    for (const auto& window : windows) {
      CHECK(window[0] % 30 == offset);
      seen.insert(window.begin(), window.end());
    }
    CHECK(std::adjacent_find(windows.begin(), windows.end()) == windows.end());
  }
  CHECK(offsets.size() > 20);
  CHECK(seen.size() == 999);  // all but the last, behind which nothing stands
  const Epoch whole = epoch_of(text, 30, options, 5), rest = epoch_of(text, 30, options, 5, 2);
  CHECK(std::equal(rest.begin(), rest.end(), whole.begin() + 16, whole.end()));
}

TEST_CASE("text: shorter than a window") {
  CHECK_THROWS_WITH_AS((void)text_batches(counting(8), 8, {.batch = 1, .shuffle = true}),
                       "the text has 8 tokens, a window and the token behind it needs 9", Error);
  CHECK(epoch_of(counting(9), 8, {.batch = 1, .shuffle = true}, 0).size() == 1);
  CHECK_THROWS_AS((void)text_batches(counting(1), 8, {.batch = 1}), Error);
}

TEST_CASE("text: the end that is held out is counted in bytes and cut between characters") {
  const std::string bytes = "abcé€";  // 1 1 1 2 3
  const auto tokenizer = std::make_shared<Tokenizer>(Tokenizer::chars(bytes, "x"));
  const Text text = text_of(tokenizer->encode(bytes, "x"), tokenizer);
  const DatasetPtr dataset = make_dataset(text);
  CHECK(dataset->hold_out_size() == 8);
  const std::int64_t cut = end_of(text, 0, 5, 4);
  CHECK(tokenizer->decode(text.tokens(0, cut)) == "abc");
  CHECK(tokenizer->decode(text.tokens(cut, 5)) == "é€");
  const Parts parts = dataset->hold_out(4, 1);
  CHECK(parts.rest->describe().count == 3);
  CHECK(parts.held_out->describe().count == 2);
  CHECK(parts.held_out->hold_out_size() == 5);
  CHECK(dataset->hold_out(8, 1).rest->describe().count == 0);
}

TEST_CASE("text: documents in tables are the lines of plain text, whatever their format") {
  StoredDataset dataset;
  NoProgress silent;
  const std::string plain = "one\ntwo, über \"2\"\n\nNA\n";
  const std::string lines =
      "{\"id\":1,\"text\":\"one\"}\n{\"text\":\"two, \\u00fcber \\\"2\\\"\"}\n\n{\"text\":\"\"}\n{\"text\":\"NA\"}";
  Reading reading;
  reading.taken = {&text_kind};
  const auto text_in = [&](const std::vector<std::pair<std::string, Bytes>>& files, const Reading& by) {
    const Digest id = dataset.add(files);
    const DatasetPtr loaded = load(*dataset.store, id, "train", by, silent);
    REQUIRE(loaded->describe().kind == &text_kind);
    CHECK(training_examples(*dataset.store, id, "train", by, loaded->describe(), {}, 1, 1000) ==
          loaded->describe().count - 2);
    CHECK(training_examples(*dataset.store, id, "train", by, loaded->describe(), {}, 1, 1) > 0);
    const auto source = loaded->batches({}, {.batch = 1, .context = 1000}, dataset.pool);
    const BatchView* const batch = source->next();
    const auto* ids = static_cast<const std::int32_t*>(batch->inputs[0].data);
    const auto* labels = static_cast<const std::int32_t*>(batch->target);
    const auto& tokenizer = *loaded->describe().tokenizer;
    std::vector<std::int32_t> tokens(ids, ids + loaded->describe().count - 1);
    tokens.push_back(labels[tokens.size() - 1]);
    return tokenizer.decode(tokens);
  };
  CHECK(text_in({{"train.jsonl", to_bytes(lines)}}, reading) == plain);
  CHECK(text_in({{"train.jsonl.gz", gzip(to_bytes(lines))}}, reading) == plain);
  CHECK(text_in({{"train.csv", to_bytes("id,text\n1,one\n2,\"two, über \"\"2\"\"\"\n3,\n4,NA\n")}}, reading) == plain);
  Reading chars = reading;
  chars.tokenizer = "chars";
  CHECK(text_in({{"train.jsonl", to_bytes(lines)}}, chars) == plain);

  SUBCASE("the column is that of the config, of dataset.toml, or text") {
    const Bytes both = to_bytes("{\"text\":\"t\",\"body\":\"b\"}\n{\"text\":\"u\",\"body\":\"c\"}\n");
    const Bytes toml = to_bytes("[splits.train]\ntext = [\"a.jsonl\", \"b.jsonl\"]\ncolumn = \"body\"\n");
    CHECK(text_in({{"train.jsonl", both}}, reading) == "t\nu\n");
    CHECK(text_in({{"a.jsonl", both}, {"b.jsonl", both}, {"dataset.toml", toml}}, {}) == "b\nc\nb\nc\n");
    Reading named;
    named.column = "text";
    CHECK(text_in({{"a.jsonl", both}, {"b.jsonl", both}, {"dataset.toml", toml}}, named) == "t\nu\nt\nu\n");
    named.column = "body";
    CHECK(text_in({{"train.jsonl", both}}, named) == "b\nc\n");
    named.fitted = std::make_shared<Preprocessing>(
        Preprocessing{.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes())});
    CHECK(text_in({{"train.jsonl", both}}, named) == "b\nc\n");
    CHECK(text_in({{"train.jsonl", to_bytes("{\"text\":\"only\"}")}}, named) == "only\n");
  }
  SUBCASE("for a model of rows a table stays one") {
    const Digest id = dataset.add({{"train.jsonl", to_bytes("{\"text\":\"a\",\"y\":1}\n{\"text\":\"b\",\"y\":2}\n")}});
    CHECK(std::string(kind_of(*dataset.store, id, "train").name) == "rows");
    CHECK(std::string(kind_of(*dataset.store, id, "train", reading).name) == "text");
  }
  SUBCASE("a rule divides documents, not files") {
    std::string many;
    for (int i = 0; i < 400; ++i) many += fmt::format("{{\"text\":\"document {}\"}}\n", i);
    const Digest id =
        dataset.add({{"all.jsonl", to_bytes(many)},
                     {"dataset.toml",
                      to_bytes("[splits.all]\ntext = [\"all.jsonl\"]\n[split]\nby = \"fraction\"\ntest = 0.25\n")}});
    const std::int64_t train = load(*dataset.store, id, "train", {}, silent)->describe().count;
    const std::int64_t test = load(*dataset.store, id, "test", {}, silent)->describe().count;
    CHECK(train + test == static_cast<std::int64_t>(400 * std::string("document \n").size() + 10 + 90 * 2 + 300 * 3));
    CHECK(test > 1000);
    CHECK(test < train);
  }
  SUBCASE("what is not text is an error with its line") {
    const auto error_of = [&](const std::string& name, const std::string& content, const std::string& column) {
      Reading by = reading;
      by.column = column;
      try {
        (void)load(*dataset.store, dataset.add({{name, to_bytes(content)}}), "train", by, silent);
      } catch (const Error& error) {
        return error.message + " | " + error.hint;
      }
      return std::string("no error");
    };
    CHECK(error_of("train.jsonl", "{\"text\":\"a\"}\n{\"text\":7}\n", "")
              .starts_with("train.jsonl: line 2: column 'text': expected text, found something else"));
    CHECK(error_of("train.jsonl", "{\"text\":\"a\"}\n\n{\"text\":null}\n", "")
              .starts_with("train.jsonl: line 3: column 'text': no text"));
    CHECK(error_of("train.jsonl", "{\"text\":\"a\"}\n{\"x\":1}\n", "")
              .starts_with("train.jsonl: line 2: column 'text': no text"));
    CHECK(error_of("train.jsonl", "{\"text\":\"a\"}\n{\"text\": \"b", "").starts_with("train.jsonl: line 2: not JSON"));
    CHECK(error_of("train.jsonl", "{\"text\":\"a\"}\n", "txt") ==
          "train.jsonl: no column 'txt' of documents | did you mean 'text'?");
    CHECK(error_of("train.jsonl", "", "text").starts_with("train.jsonl: the file is empty, expected text"));
    CHECK(error_of("train.txt", "abc", "text").starts_with("train.txt: plain text has no columns"));
  }
}

TEST_CASE("text: of a conversation only what the assistant says is learned") {
  StoredDataset dataset;
  NoProgress silent;
  const auto load_chat = [&](const std::string& lines, const std::string& tokenizer) {
    Reading reading;
    reading.taken = {&text_kind};
    reading.tokenizer = tokenizer;
    return load(*dataset.store, dataset.add({{"train.jsonl", to_bytes(lines)}}), "train", reading, silent);
  };
  // The whole text, and the same with '.' for what is not learned.
  const auto texts_of = [&](const Dataset& data) {
    const auto source = data.batches({}, {.batch = 1, .context = 1000}, dataset.pool);
    const BatchView* const batch = source->next();
    const std::int64_t count = data.describe().count;
    const auto& tokenizer = *data.describe().tokenizer;
    const auto* ids = static_cast<const std::int32_t*>(batch->inputs[0].data);
    const auto* labels = static_cast<const std::int32_t*>(batch->target);
    std::string learned;
    for (std::int64_t i = 0; i + 1 < count; ++i)
      learned += labels[i] < 0 ? "." : std::string(tokenizer.piece(labels[i]));
    return std::pair(tokenizer.decode({ids, static_cast<std::size_t>(count - 1)}), learned);
  };
  const auto learned_in = [&](const std::string& line) {
    std::string learned = texts_of(*load_chat(line, "bytes")).second;
    std::erase(learned, '.');
    return learned;
  };
  const std::string chat =
      R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho \"\u00fc\""}]})"
      "\n";
  const std::string text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHo \"ü\"<|im_end|>";
  for (const char* const tokenizer : {"bytes", "chars"}) {
    const auto [all, learned] = texts_of(*load_chat(chat, tokenizer));
    CHECK(all == text);
    CHECK(learned.substr(learned.find_last_of('.', learned.size() - 2) + 1) == "Ho \"ü\"<|im_end|>.");
    CHECK(learned.find_first_not_of('.') == learned.find("Ho"));
  }
  SUBCASE("the forms of messages") {
    CHECK(learned_in(R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]})") ==
          "b<|im_end|>");
    CHECK(
        learned_in(
            R"({"messages":[{"role":"assistant","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}]})") ==
        "bc<|im_end|>");
    CHECK(learned_in(
              R"({"messages":[{"role":"assistant","content":"b","weight":0},{"role":"assistant","content":"c"}]})") ==
          "c<|im_end|>");
  }
  SUBCASE("a hold-out and a temporary file keep the mask") {
    std::string many;
    for (int i = 0; i < 200; ++i) many += chat;
    const DatasetPtr whole = load_chat(many, "bytes");
    Reading small;
    small.taken = {&text_kind};
    small.budget = MemoryBudget(4096, dataset.folder.path());
    const DatasetPtr spooled =
        load(*dataset.store, dataset.add({{"train.jsonl", to_bytes(many)}}), "train", small, silent);
    CHECK(spooled->describe().in_memory < whole->describe().in_memory);
    const auto labels_of = [&](const Dataset& data) {
      const auto source = data.batches({}, {.batch = 4, .seed = 3, .shuffle = true, .context = 50}, dataset.pool);
      std::vector<std::int32_t> out;
      while (const BatchView* const batch = source->next()) {
        const auto* labels = static_cast<const std::int32_t*>(batch->target);
        out.insert(out.end(), labels, labels + batch->count * 50);
      }
      return out;
    };
    CHECK(labels_of(*whole) == labels_of(*spooled));
    const std::int64_t size = 500;
    CHECK(labels_of(*whole->hold_out(size, 1).held_out) == labels_of(*spooled->hold_out(size, 1).held_out));
    CHECK(whole->hold_out(size, 1).held_out->describe().count == size);
  }
  SUBCASE("what is no conversation is an error with its line") {
    const auto error_of = [&](const std::string& line) {
      try {
        (void)load_chat(chat + line, "bytes");
      } catch (const Error& error) {
        return error.message;
      }
      return std::string("no error");
    };
    const std::string where = "train.jsonl: line 2: column 'messages': ";
    CHECK(error_of(R"({"messages":"Hi"})") == where + "expected messages, found something else");
    CHECK(error_of(R"({"messages":null})") == where + "no messages");
    CHECK(error_of(R"({"text":"Hi"})") == where + "no messages");
    CHECK(error_of(R"({"messages":[{"role":"user","content":"a"},{"role":"boss","content":"b"}]})") ==
          where + "message 2: \"role\" is 'boss', expected system, developer, user, assistant or tool");
    CHECK(error_of(R"({"messages":[{"role":"user"}]})") == where + "message 1: no \"content\"");
    CHECK(error_of(R"({"messages":[{"role":"user","content":null}]})") == where + "message 1: \"content\" is not text");
    CHECK(error_of(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})") ==
          where + "message 1: \"content\" is not text");
    CHECK(error_of(R"({"messages":[7]})") == where + "message 1: expected an object");
    CHECK(error_of(R"({"messages":[{"role":"assistant","content":"a","weight":0.5}]})") ==
          where + "message 1: \"weight\" is 0.5, expected 0 or 1");
    CHECK(error_of(R"({"messages":[{"role":"user","content":"a<|im_end|>\n<|im_start|>system"}]})") ==
          where + "message 1: the text contains the mark <|im_start|>");
  }
}

TEST_CASE("text: the files of a split, plain or gzip, are concatenated") {
  StoredDataset dataset;
  NoProgress silent;
  const Digest id = dataset.add({{"train/b.txt", to_bytes("world")},
                                 {"train/a.txt.gz", gzip(to_bytes("hello "))},
                                 {"valid.txt", to_bytes("hold!")},
                                 {"notes.txt", to_bytes("x")}});
  CHECK(splits(*dataset.store, id) == std::vector<std::string>{"train", "valid"});
  Reading reading;
  reading.tokenizer = "chars";
  const DatasetPtr train = load(*dataset.store, id, "train", reading, silent);
  CHECK(train->describe().kind == &text_kind);
  const Text train_text = load_text(*dataset.store, id, "train", reading, silent);
  CHECK(train_text.tokenizer->decode(train_text.tokens(0, train_text.count())) == "hello world");
  CHECK(train->describe().outputs == 8);
  CHECK(train->describe().count == 11);
  CHECK(describe(*dataset.store, id, "train", reading).outputs == 8);
  reading.fitted = std::make_shared<Preprocessing>(train->measure(nullptr));
  const Text valid = load_text(*dataset.store, id, "valid", reading, silent);
  CHECK(valid.unknown == 1);  // the exclamation mark
  CHECK(valid.tokenizer->decode(valid.tokens(0, valid.count())) == "hold");
  CHECK(load(*dataset.store, id, "valid", {}, silent)->describe().outputs == 256);
  CHECK(splits(*dataset.store, dataset.add({{"bible.txt", to_bytes("x")}})) == std::vector<std::string>{"train"});
  CHECK(splits(*dataset.store, dataset.add({{"a.txt", to_bytes("x")}, {"b.txt", to_bytes("x")}})).empty());
  CHECK_THROWS_WITH_AS((void)load(*dataset.store, dataset.add({{"train.txt", {}}}), "train", {}, silent),
                       "train.txt: the file is empty, expected text", Error);
}
