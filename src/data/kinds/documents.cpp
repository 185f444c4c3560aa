// Reads documents through the readers of tables.

#include "data/kinds/documents.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/toml.h"
#include "data/division.h"
#include "data/kinds/chat.h"
#include "data/readers/table_format.h"
#include "data/row_value.h"

namespace mlx::data {
namespace {

// Where no setting names the column: the first of these that the table has.
constexpr std::array kUsualColumns = {"text", "messages", "conversations"};

RowFile documents_in(const store::Store& store, const store::Entry& entry) {
  const FoundTable found = find_table(stored_source(store, entry.content), entry.path);
  return {found.open, found.kind, entry.path};
}

// The columns of JSON lines are those of the first row; other formats know all of them before it.
std::vector<std::string> first_columns(const RowFile& file) {
  return in_table(file, [&] {
    const std::unique_ptr<TableReader> reader = read_table(file.open(), file.kind);
    Row row;
    (void)reader->next(row);
    return reader->columns();
  });
}

bool contains(const std::vector<std::string>& columns, std::string_view name) {
  return std::ranges::find(columns, name) != columns.end();
}

std::string chosen_column(const std::vector<std::string>& columns, const DocumentColumn& column) {
  if (!column.name.empty() && (contains(columns, column.name) || !column.gives_way)) return column.name;
  for (const char* const usual : kUsualColumns)
    if (contains(columns, usual)) return usual;
  return column.name.empty() ? kUsualColumns[0] : column.name;
}

[[noreturn]] void fail_without(const RowFile& file, const std::string& name) {
  const std::vector<std::string> columns = first_columns(file);
  const std::string close = did_you_mean(name, columns);
  throw Error(ErrorKind::kUsage, fmt::format("{}: no column '{}' of documents", file.name, name),
              !close.empty()    ? fmt::format("did you mean '{}'?", close)
              : columns.empty() ? "the file has no rows"
                                : fmt::format("it has: {}", fmt::join(columns, ", ")));
}

bool is_conversation(const RowFile& file, const Cell* cell) {
  return file.kind == TableKind::kJsonLines && cell && cell->form == Cell::Form::kWritten &&
         cell->text.starts_with('[');
}

struct BadDocument {
  std::string why;
};

// Makes the text of cells: as it is, neither trimmed nor taken for a missing value.
class DocumentCell {
 public:
  // The cells are in `column` of the file, and hold conversations if the source is masked.
  DocumentCell(const RowFile& file, const std::string& column, bool masked)
      : file_(file), column_(column), masked_(masked) {}

  // The runs of a row's text, valid until the next call. Throws BadDocument.
  std::span<const TextRun> read(const Cell* cell) {
    runs_.clear();
    if (masked_) {
      read_conversation(cell);
    } else {
      document_ = text_of(cell);
      document_ += '\n';
      runs_.push_back({document_});
    }
    return runs_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw BadDocument{fmt::format("column '{}': {}", column_, why)};
  }
  [[noreturn]] void refuse_value(const Cell* cell, const char* wanted) const {
    const bool null =
        cell && cell->form == Cell::Form::kWritten && file_.kind == TableKind::kJsonLines && cell->text == "null";
    const bool absent = !cell || cell->form == Cell::Form::kNull || null;
    refuse(absent ? fmt::format("no {}", wanted) : fmt::format("expected {}, found something else", wanted));
  }

  std::string_view text_of(const Cell* cell) {
    const bool json = file_.kind == TableKind::kJsonLines;
    const bool written = cell && cell->form == Cell::Form::kWritten;
    const bool text = cell && (cell->form == Cell::Form::kText || (written && (!json || cell->text.starts_with('"'))));
    if (!text) refuse_value(cell, "text");
    if (!json || !written) return cell->text;
    const std::string_view inside = cell->text.substr(1, cell->text.size() - 2);
    if (inside.find('\\') == std::string_view::npos) return inside;
    unescaped_ = parse_json(cell->text, "text").get<std::string>();
    return unescaped_;
  }

  void read_conversation(const Cell* cell) {
    if (!is_conversation(file_, cell)) refuse_value(cell, "messages");
    try {
      parts_ = chat_parts(cell->text);
    } catch (const Error& error) {
      refuse(error.message);
    }
    for (const ChatPart& part : parts_) runs_.push_back({part.text, part.learned, runs_.empty()});
  }

  const RowFile& file_;
  const std::string& column_;
  bool masked_;
  std::string unescaped_, document_;
  std::vector<ChatPart> parts_;
  std::vector<TextRun> runs_;
};

// Which rows of a file are in the split.
InPart rows_in_part(const StoredSplit& split, const RowFile& file) {
  if (!split.part) return {};
  return {divide_rows(file, split.part->rule, split.store->interruption()), split.part->part};
}

const Cell* cell_named(const Row& row, const std::vector<std::string>& columns, std::string_view name) {
  const auto found = std::ranges::find_if(row.cells, [&](const Cell& cell) { return columns[cell.column] == name; });
  return found == row.cells.end() ? nullptr : &*found;
}

// The first row decides for all of them.
bool holds_conversations(const RowFile& file, const DocumentColumn& wanted) {
  return in_table(file, [&] {
    const std::unique_ptr<TableReader> reader = read_table(file.open(), file.kind);
    Row row;
    if (!reader->next(row)) return false;
    const std::string column = chosen_column(reader->columns(), wanted);
    return is_conversation(file, cell_named(row, reader->columns(), column));
  });
}

// Hands out runs with the offset of each in the joined text.
class JoinedText {
 public:
  JoinedText(const VisitText& visit, Progress& progress) : visit_(visit), progress_(progress) {}
  bool add(const TextRun& run) {
    progress_.advance(run.text.size());
    return visit_(run, std::exchange(offset_, offset_ + run.text.size()));
  }
  void check_interrupted() const { progress_.check_interrupted(); }

 private:
  const VisitText& visit_;
  Progress& progress_;
  std::uint64_t offset_ = 0;
};

// Takes in the bad rows of one file, or fails at the first.
class BadRows {
 public:
  BadRows(const RowFile& file, DocumentFaults* faults) : file_(file), faults_(faults) {}
  void add(const Row& row, const std::string& why) {
    if (!faults_) fail_at_row(file_, row.offset, why);
    ++faults_->count;
    if (faults_->first.size() + offsets_.size() == DocumentFaults::kNamed) return;
    offsets_.push_back(row.offset);
    reasons_.push_back(why);
  }
  // Finds the lines of all of them at once, for which the file is read again.
  void finish() {
    if (offsets_.empty()) return;
    const std::vector<std::uint64_t> lines = lines_of(*file_.open(), offsets_, file_.kind);
    for (std::size_t i = 0; i < lines.size(); ++i)
      faults_->first.push_back(fmt::format("{}: {} {}: {}", file_.name, row_word(file_), lines[i], reasons_[i]));
  }

 private:
  const RowFile& file_;
  DocumentFaults* faults_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::string> reasons_;
};

// False if the visitor has had enough.
bool scan_documents(const StoredSplit& split, const RowFile& file, const DocumentColumn& wanted, bool masked,
                    JoinedText& to, DocumentFaults* faults) {
  const std::string column = chosen_column(first_columns(file), wanted);
  InPart chosen = rows_in_part(split, file);
  return in_table(file, [&] {
    const std::unique_ptr<TableReader> reader = read_table(file.open(), file.kind);
    DocumentCell document(file, column, masked);
    BadRows bad(file, faults);
    std::uint64_t rows = 0;
    for (Row row; reader->next(row);) {
      if (rows++ == 0 && !contains(reader->columns(), column)) fail_without(file, column);
      if (rows % 1024 == 0) to.check_interrupted();
      if (!chosen.next()) continue;
      try {
        for (const TextRun& run : document.read(cell_named(row, reader->columns(), column)))
          if (!to.add(run)) return false;
      } catch (const BadDocument& refused) {
        bad.add(row, refused.why);
      }
    }
    bad.finish();
    return true;
  });
}

}  // namespace

bool hold_documents(const std::vector<store::Entry>& files) {
  const auto is_table = [](const store::Entry& file) { return table_kind(file.path).has_value(); };
  const auto tables = std::ranges::count_if(files, is_table);
  if (tables == 0) return false;
  if (tables == std::ssize(files)) return true;
  throw Error(ErrorKind::kUsage,
              fmt::format("{} is a table, {} is plain text: a split of text has files of one sort",
                          std::ranges::find_if(files, is_table)->path, std::ranges::find_if_not(files, is_table)->path),
              "declare a split for each in dataset.toml");
}

bool has_documents(const StoredSplit& split, const DocumentColumn& column) {
  const std::vector<std::string> columns = first_columns(documents_in(*split.store, split.files.at(0)));
  return contains(columns, chosen_column(columns, column));
}

bool has_conversations(const StoredSplit& split, const DocumentColumn& column) {
  const RowFile file = documents_in(*split.store, split.files.at(0));
  return file.kind == TableKind::kJsonLines && holds_conversations(file, column);
}

TextSource document_source(const StoredSplit& split, const DocumentColumn& column, Progress& progress,
                           DocumentFaults* faults) {
  TextSource out;
  for (const store::Entry& file : split.files) out.name += (out.name.empty() ? "" : ", ") + file.path;
  out.masked = has_conversations(split, column);
  out.scan = [&split, column, &progress, faults, masked = out.masked](const Tokenizer* /*tokenizer*/,
                                                                      const VisitText& visit) {
    JoinedText joined(visit, progress);
    for (const store::Entry& entry : split.files)
      if (!scan_documents(split, documents_in(*split.store, entry), column, masked, joined, faults)) return;
  };
  return out;
}

}  // namespace mlx::data
