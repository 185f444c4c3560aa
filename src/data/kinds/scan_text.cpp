// A line of text is observed as its text and the number of its words.

#include <algorithm>

#include "data/content_hash.h"
#include "data/kinds/documents.h"
#include "data/kinds/scans.h"
#include "data/readers/byte_stream.h"

namespace mlx::data {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;  // of a longer line, only its beginning is looked at
constexpr std::size_t kShortestEqualLine = 40;              // equal shorter lines are usual in any text

double words_in(std::string_view line) {
  double words = 0;
  bool inside = false;
  for (const char c : line) {
    const bool blank = c == ' ' || c == '\t' || c == '\r';
    words += !blank && !inside ? 1 : 0;
    inside = !blank;
  }
  return words;
}

class LineScan {
 public:
  LineScan(const Observe& observe, ScanFacts& facts) : observe_(observe), facts_(facts) {
    facts_.columns = {"line", "words"};
  }
  void take(std::string_view bytes) {
    for (;;) {
      const std::size_t end = bytes.find('\n');
      line_.append(bytes.substr(0, std::min(end, kLongestLine - std::min(kLongestLine, line_.size()))));
      if (end == bytes.npos) return;
      finish_line();
      bytes.remove_prefix(end + 1);
    }
  }
  void finish() {
    if (!line_.empty()) finish_line();
  }

 private:
  void finish_line() {
    if (line_.ends_with('\r')) line_.pop_back();
    const std::string_view text = line_;
    fields_.clear();
    if (words_in(text) > 0) fields_ = {{0, ValueType::kText, 0, text}, {1, ValueType::kInt, words_in(text), {}}};
    const bool compared = text.size() >= kShortestEqualLine;
    const std::uint64_t hash = compared ? hash_of(text) | 1 : 0;
    const NearHashes near = compared ? near_hashes_of_line(text) : NearHashes();
    observe_({facts_.items++, &fields_, &facts_.columns, hash, near, nullptr});
    line_.clear();
  }
  const Observe& observe_;
  ScanFacts& facts_;
  std::string line_;
  std::vector<ObservedField> fields_;
};

// Documents in tables are observed line by line too, as they are joined.
void scan_text(const StoredSplit& split, const Observe& observe, ScanFacts& facts, Progress& progress) {
  add_files(split.files, facts);
  progress.begin("reading " + facts.files.at(0), 0, "B");
  LineScan lines(observe, facts);
  if (hold_documents(split.files)) {
    DocumentFaults faults;
    document_source(split, {split.column}, progress, &faults).scan(nullptr, [&](const TextRun& run, std::uint64_t) {
      lines.take(run.text);
      return true;
    });
    facts.unread = std::move(faults.first), facts.unread_count = faults.count;
    return lines.finish();
  }
  std::string piece(kReadAtOnce, '\0');
  for (const store::Entry& file : split.files) {
    const store::BlobReader blob = split.store->open_blob(file.content);
    const std::unique_ptr<ByteStream> stream = open_stream(blob, file.path);
    for (;;) {
      progress.check_interrupted();
      const std::size_t got = stream->read(piece.data(), piece.size());
      lines.take(std::string_view(piece).substr(0, got));
      if (got < piece.size()) break;
    }
  }
  lines.finish();
}

// Places count from 0.
std::vector<std::uint64_t> lines_from_one(const StoredSplit& /*split*/, std::vector<std::uint64_t> places) {
  for (std::uint64_t& place : places) ++place;
  return places;
}

}  // namespace

const ItemScan text_scan = {
    .unit = "lines", .place_word = "line", .source_word = "document", .run = scan_text, .numbers = lines_from_one};

}  // namespace mlx::data
