// Text as a dataset: concatenated files, a range of their tokens, batches of windows.

#include "data/kinds/text_dataset.h"
#include "data/spool_reader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "data/bpe_maker.h"
#include "data/kinds/documents.h"
#include "data/kinds/scans.h"
#include "data/splits.h"
#include "kernels/philox.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kOffsetStream = 0x6F6666736574ull;  // "offset"

// The number of windows in an epoch, and how far from the beginning the first one can start. Each needs one token more
// than its length, which may be the next window's first.
struct Windows {
  std::int64_t count = 0, slack = 0;
};

Windows windows_of(std::int64_t tokens, std::int64_t context, bool shuffle) {
  if (!shuffle) return {(tokens - 1 + context - 1) / context, 0};
  const std::int64_t count = std::max<std::int64_t>(1, (tokens - 1) / context - 1);
  return {count, tokens - 1 - count * context};
}

// s32[count,context] twice: tokens, "ids", and for each the token after it, or Tokenizer::kUnknown if that one is not
// learned. Unshuffled, the windows follow one another from the beginning, and the last is padded with
// Tokenizer::kUnknown. Shuffled, each epoch cuts the text from its own offset, so that every token is trained on at
// every distance from a window's beginning; the remainders at both ends of the text are used in other epochs.
class TextBatches final : public BatchSource {
 public:
  // `tokens` is a range.
  TextBatches(const Text& text, const IndexSet& tokens, const BatchOptions& options, Pool& pool)
      : begin_(tokens[0]),
        count_(tokens.size()),
        context_(options.context),
        seed_(options.seed),
        code_(text.code()),
        windows_(windows_of(count_, options.context, options.shuffle)),
        order_(windows_.count, options),
        reader_(text.spool, pool) {
    view_.target_dims = {0, context_};
    view_.inputs = {{text_kind.input, nullptr, view_.target_dims}};
    start(0, 0);
  }
  std::int64_t batches() const override { return order_.batches(); }
  std::int64_t examples() const override { return order_.count(); }
  void start(std::uint64_t epoch, std::int64_t first) override {
    reader_.stop();
    order_.start(epoch, first);
    const std::uint64_t bits = kernels::random_u32(seed_, kOffsetStream, epoch, 0);
    offset_ = static_cast<std::int64_t>((bits * static_cast<std::uint64_t>(windows_.slack + 1)) >> 32);
    position_ = order_.next();
    const auto token = [this](std::int64_t position) { return begin_ + first_token(position); };
    reader_.start({token, position_, order_.end(), order_.batch(), context_ + 1});
  }
  const BatchView* next() override {
    const std::span<const std::uint8_t* const> windows = reader_.next();
    const auto count = static_cast<std::int64_t>(windows.size());
    if (count == 0) return nullptr;
    ids_.resize(static_cast<std::size_t>(count * context_));
    labels_.resize(ids_.size());
    view_.units = 0;
    for (std::int64_t i = 0; i < count; ++i, ++position_)
      view_.units += write_window(windows[static_cast<std::size_t>(i)], first_token(position_), i * context_);
    view_.count = view_.inputs[0].dims[0] = view_.target_dims[0] = count;
    view_.inputs[0].data = ids_.data();
    view_.target = labels_.data();
    return &view_;
  }

 private:
  std::int64_t first_token(std::int64_t position) const { return offset_ + order_.at(position) * context_; }

  // Returns the number of tokens to predict.
  std::int64_t write_window(const std::uint8_t* from, std::int64_t begin, std::int64_t at) {
    const std::int64_t length = std::min(context_, count_ - 1 - begin);
    std::int32_t *const ids = ids_.data() + at, *const labels = labels_.data() + at;
    code_.unpack(from, length, ids);
    code_.unpack_labels(from + code_.bytes, length, labels);
    std::fill_n(ids + length, context_ - length, Tokenizer::kUnknown);
    std::fill_n(labels + length, context_ - length, Tokenizer::kUnknown);
    return length;
  }

  std::int64_t begin_, count_;  // of the tokens in the spool
  std::int64_t context_;
  std::uint64_t seed_;
  TokenCode code_;
  Windows windows_;
  Order order_;
  std::int64_t offset_ = 0, position_ = 0;
  std::vector<std::int32_t> ids_, labels_;
  BatchView view_;
  SpoolReader reader_;  // last: threads that read for it read the order
};

Description description_of_text(std::shared_ptr<const Tokenizer> tokenizer, std::int64_t count) {
  Description out;
  out.kind = &text_kind;
  out.targets = TargetKind::kTokens;
  out.count = count;
  out.outputs = static_cast<int>(tokenizer->size());
  out.tokenizer = std::move(tokenizer);
  return out;
}

class TextDataset final : public Dataset {
 public:
  // `items` is a range.
  TextDataset(Text text, const IndexSet& items)
      : text_(std::move(text)), items_(items), about_(description_of_text(text_.tokenizer, items_.size())) {
    CHECK(items_.is_range());
    about_.set_spool(*text_.spool, items_.size());
  }

  const Description& describe() const override { return about_; }
  DatasetPtr subset(const IndexSet& items) const override {
    return std::make_shared<TextDataset>(text_, items_.part(items));
  }
  Preprocessing measure(const Preprocessing* /*base*/) const override {
    Preprocessing out;
    out.tokenizer = text_.tokenizer;
    return out;
  }
  std::unique_ptr<BatchSource> batches(const Preprocessing& /*preprocessing*/, const BatchOptions& options,
                                       Pool& pool) const override {
    CHECK(options.context > 0);
    const std::int64_t needed = options.shuffle ? options.context + 1 : 2;
    if (items_.size() < needed) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("the text has {} tokens, {} needs {}", items_.size(),
                              options.shuffle ? "a window and the token behind it" : "a prediction", needed),
                  options.shuffle ? "more text, or a smaller context" : "more text");
    }
    return std::make_unique<TextBatches>(text_, items_, options, pool);
  }

  // In bytes. The end is held out, so that no window has tokens of both parts.
  std::int64_t hold_out_size() const override { return byte_count(text_, begin(), begin() + items_.size()); }
  Parts hold_out(std::int64_t size, std::uint64_t /*seed*/) const override {
    const std::int64_t cut = end_of(text_, begin(), begin() + items_.size(), size) - begin();
    return {subset({0, cut}), subset({cut, items_.size()})};
  }

 private:
  std::int64_t begin() const { return items_.size() == 0 ? 0 : items_[0]; }

  Text text_;
  IndexSet items_;
  Description about_;
};

bool is_made(const std::string& tokenizer) {
  return tokenizer.empty() || tokenizer == "bytes" || tokenizer == "chars" || tokenizer == "bpe";
}
bool names_file(const std::string& tokenizer) {
  return tokenizer.find('/') != std::string::npos || tokenizer.ends_with(".json") || tokenizer.ends_with(".model");
}

constexpr std::size_t kLargestTokenizer = std::size_t{64} << 20;

std::shared_ptr<const Tokenizer> read_given_tokenizer(const TomlReader& data, const std::string& folder,
                                                      const std::string& path) {
  const std::string place = fmt::format("{}: [data] tokenizer", data.place("tokenizer"));
  try {
    const std::string found = path.starts_with('/') ? path : join_path(folder, path);
    const Bytes file = read_regular_file(found, kLargestTokenizer);
    return std::make_shared<const Tokenizer>(Tokenizer::from_file(as_text(file), path));
  } catch (const Error& error) {
    throw Error(error.kind == ErrorKind::kIo ? ErrorKind::kNotFound : error.kind,
                fmt::format("{}: {}", place, error.message), error.hint);
  }
}

void read_text_keys(TomlReader& data, Reading& reading) {
  reading.tokenizer = data.string("tokenizer", "");
  if (reading.tokenizer == "bpe") {
    reading.vocabulary = data.integer("vocab", BpeMaker::kLeast, BpeMaker::kMost);
  } else if (data.has("vocab")) {
    data.fail_at("vocab", "it is only for tokenizer = \"bpe\"");
  }
  if (names_file(reading.tokenizer)) {
    reading.given_tokenizer = read_given_tokenizer(data, reading.folder, reading.tokenizer);
  } else if (!is_made(reading.tokenizer)) {
    data.fail_at("tokenizer", "expected \"bytes\", \"chars\", \"bpe\" or the path of a tokenizer.json");
  }
  reading.column = data.string("column", "");
  if (data.has("column") && reading.column.empty()) data.fail_at("column", "expected the name of a column");
}

void write_text_keys(const Reading& reading, Json& data) {
  if (reading.tokenizer == "chars" || reading.tokenizer == "bpe") data["tokenizer"] = reading.tokenizer;
  if (reading.tokenizer == "bpe") data["vocab"] = reading.vocabulary;
  if (reading.given_tokenizer) data["tokenizer"] = Digest::of(as_bytes(reading.given_tokenizer->file())).text();
  if (!reading.column.empty()) data["column"] = reading.column;
}

const char* text_key_set(const Reading& reading) {
  if (!reading.column.empty()) return "column";
  return reading.tokenizer.empty() ? nullptr : "tokenizer";
}

constexpr std::string_view kTextEndings[] = {".txt"};

// The split named by the file, or by its folder.
std::string split_of_text(const std::string& path) {
  const std::string own = split_named(stem_with(path, kTextEndings));
  const std::size_t slash = path.rfind('/');
  if (!own.empty() || slash == std::string::npos) return own;
  const std::string folder = path.substr(0, slash);
  return split_named(folder.substr(folder.rfind('/') + 1));
}

void find_text_splits(const Files& files, Layout& layout) {
  const std::vector<store::Entry> texts = files_with(files, kTextEndings);
  for (const store::Entry& text : texts) {
    const std::string split = split_of_text(text.path);
    if (split.empty()) continue;
    SplitFiles& of_split = layout.splits[split];
    of_split.kind = &text_kind;
    of_split.files.push_back(text);
  }
  if (layout.splits.empty() && texts.size() == 1) layout.splits["train"] = {&text_kind, texts};
}

std::vector<store::Entry> declared_texts(TomlReader& split, const Files& files) {
  std::vector<store::Entry> texts;
  for (const std::string& path : split.strings("text")) texts.push_back(declared_file(split, "text", path, files));
  if (texts.empty()) split.fail_at("text", "expected at least one file");
  return texts;
}

// A config says it for its training, a model for the datasets that it is used with.
DocumentColumn column_of(const StoredSplit& split, const Reading& reading) {
  if (!reading.column.empty()) return {reading.column, reading.fitted != nullptr};
  return {split.column, false};
}

// Null if one is to be made from the text.
std::shared_ptr<const Tokenizer> known_tokenizer(const Reading& reading) {
  if (reading.fitted && reading.fitted->tokenizer) return reading.fitted->tokenizer;
  if (reading.base && reading.base->tokenizer) return reading.base->tokenizer;
  return reading.given_tokenizer;
}

// Documents in a table that no setting declares as text are text for a model that takes text.
bool claims_documents(const StoredSplit& split, const Reading& reading) {
  if (split.kind->form != Form::kFeatures) return false;
  if (reading.any_model) return has_conversations(split, {split.column});  // which no table of features has
  if (!reading.column.empty() && !reading.fitted) return true;
  const auto taken = [&](const Kind* kind) { return std::ranges::find(reading.taken, kind) != reading.taken.end(); };
  const bool wanted = taken(&text_kind) && !taken(split.kind);
  return (wanted || known_tokenizer(reading)) && has_documents(split, column_of(split, reading));
}

TextSource source_of(const StoredSplit& split, const Reading& reading, Progress& progress) {
  if (hold_documents(split.files)) return document_source(split, column_of(split, reading), progress);
  if (!reading.column.empty() && !reading.fitted) {
    fail(ErrorKind::kUsage, "{}: plain text has no columns, and [data] column is \"{}\"", split.files.at(0).path,
         reading.column);
  }
  return file_source(*split.store, split.files, progress);
}

Text read_stored_text(const StoredSplit& split, const Reading& reading, Progress& progress) {
  split.store->want(split.files);
  progress.begin(fmt::format("reading {}", split.files.at(0).path), 0, "B");
  Text text = read_text(source_of(split, reading, progress), {reading.tokenizer, reading.vocabulary},
                        known_tokenizer(reading), reading.budget, progress);
  progress.end();
  return text;
}

Description describe_stored_text(const StoredSplit& split, const Reading& reading) {
  std::shared_ptr<const Tokenizer> tokenizer = known_tokenizer(reading);
  if (!tokenizer && reading.tokenizer == "bpe") {  // it has as many tokens as are wanted, or cannot be made
    Description out = description_of_text(std::make_shared<Tokenizer>(Tokenizer::bytes()), 0);
    out.outputs = static_cast<int>(reading.vocabulary);
    out.tokenizer = nullptr;
    return out;
  }
  if (!tokenizer && reading.tokenizer != "chars") tokenizer = std::make_shared<Tokenizer>(Tokenizer::bytes());
  if (tokenizer) return description_of_text(tokenizer, 0);
  NoProgress silent(split.store->interruption());
  const Text text = read_stored_text(split, reading, silent);
  return description_of_text(text.tokenizer, text.count());
}

// The size of plain text is known, that of documents only once they are read.
std::uint64_t some_bytes_of(const StoredSplit& split, const Reading& reading, std::uint64_t enough) {
  std::uint64_t bytes = 0;
  if (!hold_documents(split.files)) {
    for (const store::Entry& file : split.files) bytes += file.size;
    return bytes;
  }
  NoProgress silent(split.store->interruption());
  source_of(split, reading, silent).scan(nullptr, [&](const TextRun& run, std::uint64_t) {
    bytes += run.text.size();
    return bytes < enough;
  });
  return bytes;
}

std::int64_t count_tokens(const StoredSplit& split, const Reading& reading, std::int64_t enough) {
  // Bytes of one character, where compressed text has more characters; few words are longer than 32.
  const std::shared_ptr<const Tokenizer> known = known_tokenizer(reading);
  const bool words = known ? known->kind() != "bytes" && known->kind() != "chars" : reading.tokenizer == "bpe";
  const auto enough_bytes = static_cast<std::uint64_t>(enough) * (words ? 32 : 4);
  if (some_bytes_of(split, reading, enough_bytes) >= enough_bytes) return enough;
  NoProgress silent(split.store->interruption());
  return read_stored_text(split, reading, silent).count();
}

DatasetPtr load_stored_text(const StoredSplit& split, const Reading& reading, Progress& progress) {
  return make_dataset(read_stored_text(split, reading, progress));
}

}  // namespace

const Kind text_kind = {
    .name = "text",
    .input = "ids",
    .unit = "tokens",
    .form = Form::kTokens,
    .hold_out_counts = "bytes",
    .windows = true,
    .divides = true,
    .read_keys = read_text_keys,
    .write_keys = write_text_keys,
    .key_set = text_key_set,
    .file_names = "train.txt",
    .find_splits = find_text_splits,
    .declared = declared_texts,
    .claims = claims_documents,
    .scan = &text_scan,
    .describe = describe_stored_text,
    .count = count_tokens,
    .load = load_stored_text,
};

DatasetPtr make_dataset(Text text) {
  const IndexSet all(0, text.count());
  return std::make_shared<TextDataset>(std::move(text), all);
}

Tokenizer make_bpe(const store::Store& store, const Digest& manifest, const std::string& split,
                   const std::string& column, std::int64_t vocabulary, const std::vector<std::string>& special,
                   Progress& progress) {
  Reading reading;
  reading.column = column;
  reading.taken = {&text_kind};
  const StoredSplit stored = split_of(store, manifest, split, reading);
  if (stored.kind != &text_kind) fail(ErrorKind::kUsage, "split '{}' holds {}, not text", split, stored.kind->unit);
  store.want(stored.files);
  progress.begin(fmt::format("reading {}", stored.files.at(0).path), 0, "B");
  return make_bpe(source_of(stored, reading, progress), vocabulary, special, progress);
}

Text load_text(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
               Progress& progress) {
  return read_stored_text(stored_split(store, manifest, split, text_kind), reading, progress);
}

}  // namespace mlx::data
