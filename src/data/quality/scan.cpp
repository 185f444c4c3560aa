// Scans of tables, images and text.

#include "data/quality/scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "data/division.h"
#include "data/kinds/documents.h"
#include "data/kinds/images.h"
#include "data/kinds/photo_files.h"
#include "data/kinds/photos.h"
#include "data/kinds/rows_dataset.h"
#include "data/readers/byte_stream.h"
#include "data/readers/table_format.h"
#include "data/row_value.h"

namespace mlx::data {
namespace {

using See = std::function<void(const Observation&)>;
constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;  // of a longer line, only its beginning is looked at
constexpr std::size_t kShortestEqualLine = 40;              // equal shorter lines are usual in any text

// Equal rows have equal sums, whatever the order of their columns and the format of their table.
std::uint64_t hash_of_row(const std::vector<ObservedField>& fields, const std::vector<std::uint64_t>& names) {
  std::uint64_t sum = 0;
  for (const ObservedField& field : fields) sum += mixed(names[field.column] ^ hash_of(field.text));
  return mixed(sum) | 1;
}

// Which items of its files a split has: all unless it is a part of a division.
class InPart {
 public:
  InPart() = default;
  InPart(const std::vector<Part>& parts, Part part) : items_(items_of(parts, part)), all_(false) {}
  // Asked once for each item, in order.
  bool next() {
    const std::int64_t item = item_++;
    if (all_) return true;
    const bool in = at_ < items_.size() && items_[at_] == item;
    at_ += in ? 1 : 0;
    return in;
  }

 private:
  IndexSet items_;
  bool all_ = true;
  std::int64_t item_ = 0, at_ = 0;
};

void scan_table(const StoredSplit& split, const See& see, ScanFacts& facts, Progress& progress) {
  const RowFile file = row_file(split);
  InPart in_part = split.part
                       ? InPart(divide_rows(file, split.part->rule, split.store->interruption()), split.part->part)
                       : InPart();
  in_table(file, [&] {
    const std::unique_ptr<TableReader> reader = read_table(file);
    CellReader cells(file.kind);
    std::vector<std::uint64_t> names;
    std::vector<ObservedField> fields;
    std::vector<std::string> texts;  // a cell's text lives until the next cell is read
    NearRow near;
    Row row;
    while (reader->next(row)) {
      if (!in_part.next()) continue;
      for (std::size_t i = names.size(); i < reader->columns().size(); ++i)
        names.push_back(hash_of(reader->columns()[i]));
      fields.clear();
      texts.resize(std::max(texts.size(), row.cells.size()));
      for (std::size_t i = 0; i < row.cells.size(); ++i) {
        const Cell& cell = row.cells[i];
        const RowValue value = cells.read(cell);
        if (value.kind == RowValue::Kind::kMissing) continue;
        ValueType type = type_of(cell, file.kind);
        std::string_view text = value.text;
        const bool escaped = file.kind == TableKind::kJsonLines && type == ValueType::kText;
        const bool formatted = cell.form == Cell::Form::kInt || cell.form == Cell::Form::kFloat;
        if (escaped || formatted) text = texts[i].assign(value.text);
        if (value.kind != RowValue::Kind::kNumber && (type == ValueType::kInt || type == ValueType::kFloat))
          type = ValueType::kText;
        fields.push_back({cell.column, type, value.number, text});
        if (value.kind == RowValue::Kind::kNumber)
          near.number(names[cell.column], value.number);
        else
          near.text(names[cell.column], text);
      }
      see({row.offset, &fields, &reader->columns(), hash_of_row(fields, names), near.finish(), nullptr});
      if (++facts.items % 4096 == 0) progress.check_interrupted();
    }
    facts.columns = reader->columns();
    facts.found_out = reader->found_out();
    return 0;
  });
}

// Photos differ in size: they are compared as 64x64 pixels. Those that cannot be read are left out, and said.
Images scanned_images(const StoredSplit& split, Progress& progress) {
  if (!holds_photos(split)) return load_images(split, progress);
  Reading reading;
  reading.photos.height = reading.photos.width = 64;
  reading.photos.skip_share = 1;
  return load_photos(split, reading, progress);
}

// A message about a photo begins with its path; both lists have the same order.
void leave_out_unread(const std::vector<std::string>& skipped, ScanFacts& facts) {
  auto next = skipped.begin();
  std::erase_if(facts.files, [&](const std::string& file) {
    const bool unread = next != skipped.end() && next->starts_with(file + ":");
    if (unread) ++next;
    return unread;
  });
  facts.unread = skipped;
}

void scan_images(const StoredSplit& split, const See& see, ScanFacts& facts, Progress& progress) {
  const Images images = scanned_images(split, progress);
  leave_out_unread(images.photos.skipped, facts);
  facts.columns = {"class", "brightness", "contrast"};
  const bool divided = split.part && !holds_photos(split);  // photos are chosen when they are listed
  InPart in_part = divided ? InPart(divide_numbered(images.labels, split.part->rule), split.part->part) : InPart();
  facts.height = images.height, facts.width = images.width, facts.channels = images.channels;
  const auto size = static_cast<std::size_t>(images.height * images.width * images.channels);
  const auto channels = static_cast<std::size_t>(images.channels);
  std::vector<std::array<std::uint64_t, 256>> values(channels);  // how often each occurs
  for (auto& counts : values) counts.fill(0);
  std::vector<ObservedField> fields;
  Bytes scratch;
  for (std::int64_t i = 0; i < images.count; ++i) {
    if (!in_part.next()) continue;
    ++facts.items;
    const std::uint8_t* pixels = images.at(i, scratch);
    double sum = 0, squares = 0;
    for (std::size_t at = 0; at < size; ++at) {
      const double value = pixels[at] / 255.0;
      sum += value, squares += value * value;
      ++values[at % channels][pixels[at]];
    }
    const double count = std::max<double>(1, static_cast<double>(size)), mean = sum / count;
    const double contrast = std::sqrt(std::max(0.0, squares / count - mean * mean));
    const auto label = static_cast<std::size_t>(images.labels[static_cast<std::size_t>(i)]);
    fields = {{0, ValueType::kText, 0, images.class_names.at(label)},
              {1, ValueType::kFloat, mean, {}},
              {2, ValueType::kFloat, contrast, {}}};
    const Look look = look_of(pixels, images.height, images.width, images.channels);
    const std::uint64_t hash = hash_of({reinterpret_cast<const char*>(pixels), size}) | 1;
    see({static_cast<std::uint64_t>(i), &fields, &facts.columns, hash, {}, &look});
    if (i % 1024 == 0) progress.check_interrupted();
  }
  for (const auto& counts : values) {
    Moments& moments = facts.channel_moments.emplace_back();
    double sum = 0, total = 0;
    for (std::size_t value = 0; value < 256; ++value) {
      const auto weight = static_cast<double>(counts[value]);
      total += weight, sum += weight * static_cast<double>(value) / 255.0;
    }
    moments.count = static_cast<std::uint64_t>(total);
    moments.mean = total > 0 ? sum / total : 0;
    for (std::size_t value = 0; value < 256; ++value) {
      const double off = static_cast<double>(value) / 255.0 - moments.mean;
      moments.squares += static_cast<double>(counts[value]) * off * off;
    }
  }
}

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
  LineScan(const See& see, ScanFacts& facts) : see_(see), facts_(facts) { facts_.columns = {"line", "words"}; }
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
    see_({facts_.items++, &fields_, &facts_.columns, hash, near, nullptr});
    line_.clear();
  }
  const See& see_;
  ScanFacts& facts_;
  std::string line_;
  std::vector<ObservedField> fields_;
};

// Documents in tables are observed line by line too, as they are joined.
void scan_text(const StoredSplit& split, const See& see, ScanFacts& facts, Progress& progress) {
  LineScan lines(see, facts);
  if (hold_documents(split.files)) {
    document_source(split, {split.column}, progress).scan(nullptr, [&](const TextRun& run, std::uint64_t) {
      lines.take(run.text);
      return true;
    });
    return lines.finish();
  }
  std::string piece(kPiece, '\0');
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

}  // namespace

ScanFacts scan(const StoredSplit& split, const See& see, Progress& progress) {
  ScanFacts facts;
  const auto add = [&](const auto& file) { facts.files.push_back(file.path), facts.bytes += file.size; };
  if (split.kind->form == Form::kImages && holds_photos(split))
    std::ranges::for_each(list_photos(split, {}).files, add);
  else
    std::ranges::for_each(split.files, add);
  split.store->want(split.files);
  progress.begin("reading " + facts.files.at(0), 0, "B");
  switch (split.kind->form) {
    case Form::kImages:
      scan_images(split, see, facts, progress);
      break;
    case Form::kFeatures:
      scan_table(split, see, facts, progress);
      break;
    case Form::kTokens:
      scan_text(split, see, facts, progress);
      break;
  }
  progress.end();
  return facts;
}

const char* place_word(const Kind& kind) {
  return kind.form == Form::kImages ? "image" : "line";
}

std::vector<std::uint64_t> numbers_of(const StoredSplit& split, std::vector<std::uint64_t> places) {
  if (places.empty() || split.kind->form == Form::kImages) return places;
  if (split.kind->form == Form::kTokens) {
    for (std::uint64_t& place : places) ++place;
    return places;
  }
  std::vector<std::uint64_t> ascending = places;
  std::ranges::sort(ascending);
  const RowFile file = row_file(split);
  const std::vector<std::uint64_t> lines = in_table(file, [&] { return lines_of(*file.open(), ascending, file.kind); });
  for (std::uint64_t& place : places)
    place = lines[static_cast<std::size_t>(std::ranges::lower_bound(ascending, place) - ascending.begin())];
  return places;
}

}  // namespace mlx::data
