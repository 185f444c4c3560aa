// Text as examples: files behind one another, windows, and what is held out.

#include <set>

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
