// Prints what `mlx diff` found: files, then what changed inside them. Fits 80 columns; --json has everything.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "cmd/diff.h"

namespace mlx::cmd {
namespace {

using diff::FileDiff;
using Kind = FileDiff::Kind;

constexpr std::size_t kWidth = 79;
constexpr std::array<const char*, 4> kWords = {"new", "deleted", "modified", "moved"};
constexpr std::array<char, 4> kLetters = {'A', 'D', 'M', 'R'};

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string shown_path(const FileDiff& file) {
  if (file.kind != Kind::kMoved) return printable(file.entry().path);
  return printable(file.before->path) + " -> " + printable(file.after->path);
}

std::string painted(Context& context, Kind kind, const std::string& text) {
  if (kind == Kind::kAdded) return context.green(text);
  return kind == Kind::kRemoved ? context.red(text) : context.yellow(text);
}

void print_files(Context& context, const diff::Comparison& comparison, std::size_t limit) {
  std::size_t wide = 0;
  const std::size_t shown = std::min(limit, comparison.files.size());
  for (std::size_t i = 0; i < shown; ++i) wide = std::max(wide, columns_of(shown_path(comparison.files[i])));
  wide = std::min<std::size_t>(wide, 44);
  for (std::size_t i = 0; i < shown; ++i) {
    const FileDiff& file = comparison.files[i];
    const std::string path = shown_path(file);
    const std::string gap(wide - std::min(wide, columns_of(path)), ' ');
    const std::string before = file.before ? format_bytes(file.before->size) : "";
    std::string after = file.after ? format_bytes(file.after->size) : "";
    if (file.kind == Kind::kMoved) after.clear();
    const char* arrow = file.kind == Kind::kChanged ? "->" : "  ";
    std::string sizes = fmt::format("{:>10} {} {:>10}", before, arrow, after);
    if (file.kind == Kind::kChanged && file.before->content == file.after->content)
      sizes = fmt::format("   mode {:o} -> {:o}", file.before->mode, file.after->mode);
    sizes.erase(sizes.find_last_not_of(' ') + 1);
    context.line("  " + painted(context, file.kind, fmt::format("{:<8}", kWords[static_cast<std::size_t>(file.kind)])) +
                 "  " + path + gap + "  " + sizes);
  }
  if (shown < comparison.files.size())
    context.line(fmt::format("  and {} more (--limit 0 shows all)", grouped(comparison.files.size() - shown)));
}

void print_summary(Context& context, const diff::Comparison& comparison) {
  std::array<std::uint64_t, 4> counts{};
  for (const FileDiff& file : comparison.files) ++counts[static_cast<std::size_t>(file.kind)];
  std::string kinds;
  for (const std::size_t kind : {0, 2, 3, 1})
    if (counts[kind] > 0)
      kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", grouped(counts[kind]), kWords[kind]);
  context.line(context.dim(fmt::format("  {}, {} the same; {} -> {}", kinds, grouped(comparison.same),
                                       format_bytes(comparison.bytes_before), format_bytes(comparison.bytes_after))));
}

void print_images(Context& context, const std::vector<diff::FolderCount>& folders, std::size_t limit) {
  if (folders.empty()) return;
  std::size_t wide = 16;
  const std::size_t shown = std::min(limit, folders.size());
  for (std::size_t i = 0; i < shown; ++i) wide = std::max(wide, columns_of(printable(folders[i].folder)));
  wide = std::min<std::size_t>(wide, 36);
  context.line("");
  context.line(context.bold("images") + std::string(wide - 4, ' ') +
               context.dim("  before    after    new     gone  changed"));
  for (std::size_t i = 0; i < shown; ++i) {
    const diff::FolderCount& f = folders[i];
    const std::string name = printable(f.folder);
    const std::string line = fmt::format(
        "  {}{}{:>8} {:>8} {:>6} {:>8} {:>8}", name, std::string(wide - std::min(wide, columns_of(name)), ' '),
        grouped(f.before), grouped(f.after), f.added ? "+" + grouped(f.added) : "",
        f.removed ? "-" + grouped(f.removed) : "", f.changed ? grouped(f.changed) : "");
    context.line(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  if (shown < folders.size()) context.line(fmt::format("  and {} more folders", grouped(folders.size() - shown)));
}

std::string cell_text(const std::string& text) {
  return text.empty() ? "\"\"" : cut_to(printable(text), 24);
}

// "id=7, name=x, and 5 more" within `room` columns.
std::string joined(const std::vector<std::string>& parts, std::size_t room) {
  std::string line;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string more = fmt::format(", and {} more", parts.size() - i);
    const std::string next = (i > 0 ? ", " : "") + parts[i];
    const std::size_t after = columns_of(line) + columns_of(next) + (i + 1 < parts.size() ? more.size() : 0);
    if (i > 0 && after > room) return line + more;
    line += next;
  }
  return line;
}

std::string cells_text(const diff::NamedCells& cells, std::size_t room) {
  std::vector<std::string> parts;
  for (const auto& [column, text] : cells) parts.push_back(printable(column) + "=" + cell_text(text));
  return joined(parts, room);
}

void print_columns(Context& context, const diff::RowDiff& rows) {
  using Column = diff::ColumnChange::Kind;
  for (const diff::ColumnChange& change : rows.columns) {
    const std::string name = printable(change.name);
    if (change.kind == Column::kAdded)
      context.line(context.green(fmt::format("  + column {} ({})", name, name_of(change.after))));
    else if (change.kind == Column::kRemoved)
      context.line(context.red(fmt::format("  - column {} ({})", name, name_of(change.before))));
    else
      context.line(
          context.yellow(fmt::format("  ~ column {}: {} -> {}", name, name_of(change.before), name_of(change.after))));
  }
  if (rows.columns_moved) context.line("  the columns are in another order");
}

void print_changed_cells(Context& context, const diff::RowDiff& rows) {
  if (!rows.changed_cells) return;
  std::vector<std::string> parts;
  for (const auto& [column, count] : *rows.changed_cells)
    parts.push_back(fmt::format("{} {}", printable(column), grouped(count)));
  context.line("  cells changed: " + joined(parts, kWidth - 17));
}

void print_shown_rows(Context& context, const diff::RowDiff& rows) {
  for (const diff::ChangedRow& row : rows.changed_rows) {
    const std::string name = cells_text(row.key, 40);
    std::vector<std::string> parts;
    for (const diff::CellChange& cell : row.cells) {
      parts.push_back(fmt::format("{} {} -> {}", printable(cell.column), cell.before ? cell_text(*cell.before) : "none",
                                  cell.after ? cell_text(*cell.after) : "none"));
    }
    const std::size_t taken = columns_of(name) + 6;
    context.line(context.yellow("  ~ " + name + "  ") + joined(parts, kWidth - std::min(kWidth - 20, taken)));
  }
  if (rows.changed > rows.changed_rows.size())
    context.line(fmt::format("    and {} more changed", grouped(rows.changed - rows.changed_rows.size())));
  const auto list = [&](const char* sign, const std::vector<diff::ShownRow>& shown, std::uint64_t all, bool green) {
    for (const diff::ShownRow& row : shown) {
      const std::string place = fmt::format("  {} line {}: ", sign, row.line);
      const std::string text = place + cells_text(row.cells, kWidth - place.size());
      context.line(green ? context.green(text) : context.red(text));
    }
    if (all > shown.size())
      context.line(fmt::format("    and {} more {}", grouped(all - shown.size()), green ? "added" : "removed"));
  };
  list("-", rows.removed_rows, rows.removed, false);
  list("+", rows.added_rows, rows.added, true);
}

void print_doubled(Context& context, const diff::RowDiff& rows) {
  if (rows.doubled_before + rows.doubled_after == 0) return;
  const diff::DoubledKey& first = rows.doubled.front();
  context.line(context.red(fmt::format("  keys that occur twice: {} before, {} after; the first {}, line {}: {}",
                                       grouped(rows.doubled_before), grouped(rows.doubled_after),
                                       first.after ? "after" : "before", first.line, cells_text(first.key, 30))));
}

void print_rows(Context& context, const std::string& path, const diff::RowDiff& rows) {
  std::vector<std::string> parts;
  if (rows.added > 0) parts.push_back(grouped(rows.added) + " added");
  if (rows.removed > 0) parts.push_back(grouped(rows.removed) + " removed");
  if (rows.changed > 0) parts.push_back(grouped(rows.changed) + " changed");
  std::string what = rows.same_rows() ? "the same rows, written differently" : joined(parts, kWidth);
  if (rows.same_rows() && !rows.columns.empty()) what = "rows do not differ otherwise";
  context.line(context.bold(path) +
               fmt::format("  {} -> {}: {}", grouped(rows.rows_before), counted(rows.rows_after, "row"), what));
  if (!rows.missing_key.empty()) {
    context.line(
        context.dim(fmt::format("  compared by content: no column {} in both", printable(rows.missing_key.front()))));
  }
  print_columns(context, rows);
  print_doubled(context, rows);
  print_changed_cells(context, rows);
  print_shown_rows(context, rows);
}

std::string dims_text(const std::vector<std::uint64_t>& dims) {
  std::string text;
  for (const std::uint64_t dim : dims) text += fmt::format("{}{}", text.empty() ? "" : " x ", grouped(dim));
  return text;
}

void print_idx(Context& context, const std::string& path, const diff::IdxSummary& before, const diff::IdxSummary& after,
               std::size_t limit) {
  const bool reshaped = before.type != after.type || before.dims != after.dims;
  context.line(context.bold(path) + fmt::format("  {} {}", before.type, dims_text(before.dims)) +
               (reshaped ? fmt::format(" -> {} {}", after.type, dims_text(after.dims)) : ", values differ"));
  std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>> classes;
  for (const auto& [label, count] : before.labels) classes[label].first = count;
  for (const auto& [label, count] : after.labels) classes[label].second = count;
  std::erase_if(classes, [](const auto& item) { return item.second.first == item.second.second; });
  if (classes.empty()) return;
  context.line(context.dim("  class     before      after     change"));
  std::size_t shown = 0;
  for (const auto& [label, counts] : classes) {
    if (shown++ == limit) break;
    const auto change = static_cast<std::int64_t>(counts.second) - static_cast<std::int64_t>(counts.first);
    context.line(
        fmt::format("  {:>5} {:>10} {:>10} {:>+10}", label, grouped(counts.first), grouped(counts.second), change));
  }
  if (classes.size() > limit) context.line(fmt::format("  and {} more classes", classes.size() - limit));
}

void print_lines(Context& context, const std::string& path, const diff::TextDiff& text, std::size_t limit) {
  using Step = diff::Step::Kind;
  const auto removed = static_cast<std::uint64_t>(std::ranges::count(text.steps, Step::kRemoved, &diff::Step::kind));
  const auto added = static_cast<std::uint64_t>(std::ranges::count(text.steps, Step::kAdded, &diff::Step::kind));
  context.line(context.bold(path) + fmt::format("  {} added, {} removed", counted(added, "line"), removed));
  std::size_t shown = 0;
  for (const diff::Step& step : text.steps) {
    if (step.kind == Step::kKept) continue;
    if (shown++ == 4 * limit) {
      context.line(fmt::format("  and {} more", added + removed - 4 * limit));
      break;
    }
    const bool gone = step.kind == Step::kRemoved;
    const std::string& line = gone ? text.before[step.before] : text.after[step.after];
    const std::string shown_line = fmt::format("  {}{:>5}  {}", gone ? '-' : '+', (gone ? step.before : step.after) + 1,
                                               cut_to(printable(line), 160));
    context.line(gone ? context.red(shown_line) : context.green(shown_line));
  }
}

void print_contents(Context& context, const FileDiff& file, std::size_t limit) {
  const std::string path = printable(file.entry().path);
  if (file.rows) print_rows(context, path, *file.rows);
  if (file.idx) print_idx(context, path, file.idx->first, file.idx->second, limit);
  if (file.text) print_lines(context, path, *file.text, limit);
  if (file.tensors) {
    const diff::TensorsDiff& diff = *file.tensors;
    context.line(context.bold(path) + fmt::format("  {} of {} differ", grouped(diff.tensors.size()),
                                                  counted(diff.tensors.size() + diff.same, "tensor")));
    print_tensors(context, diff, limit);
  }
  if (!file.note.empty()) context.line(context.bold(path) + context.dim("  compared as bytes: " + file.note));
}

void print_names(Context& context, const diff::Comparison& comparison, bool letters, const std::string& artifact) {
  const std::string folder = artifact.empty() ? "" : artifact + "/";
  for (const FileDiff& file : comparison.files) {
    const std::string path = folder + printable(file.entry().path);
    const std::string from = file.kind == Kind::kMoved ? folder + printable(file.before->path) + "\t" : "";
    context.line(letters ? fmt::format("{}\t{}{}", kLetters[static_cast<std::size_t>(file.kind)], from, path) : path);
  }
}

}  // namespace

std::string cut_to(const std::string& text, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    if (++columns < width) continue;
    const bool last = columns_of(text) == width;
    return last ? text : text.substr(0, at) + "…";
  }
  return text;
}

void print_diff(Context& context, const DiffOutcome& outcome, const DiffOptions& options) {
  const diff::Comparison& comparison = outcome.comparison;
  if (options.name_only || options.name_status) {
    // With several datasets, each path is shown below its dataset.
    const bool many = options.targets.empty();
    print_names(context, comparison, options.name_status, many ? outcome.pair.before.version->artifact : "");
    return;
  }
  const std::size_t limit = options.limit == 0 ? SIZE_MAX / 8 : static_cast<std::size_t>(options.limit);
  context.line(context.bold(outcome.pair.before.name + " -> " + outcome.pair.after.name));
  print_files(context, comparison, options.stat ? SIZE_MAX : limit);
  print_summary(context, comparison);
  print_images(context, comparison.images, limit);
  if (options.stat) return;
  print_model(context, outcome);
  for (const FileDiff& file : comparison.files) {
    if (!file.rows && !file.idx && !file.text && !file.tensors && file.note.empty()) continue;
    context.line("");
    print_contents(context, file, limit);
  }
  if (comparison.not_compared > 0)
    context.line(fmt::format("\n{} more files changed; their contents were not compared: name them to see",
                             grouped(comparison.not_compared)));
}

}  // namespace mlx::cmd
