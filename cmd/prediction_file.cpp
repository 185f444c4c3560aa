// See prediction_file.h. CSV as RFC 4180 has it, with lines that end in LF.
#include "cmd/prediction_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"

namespace mlx::cmd {
namespace {

std::string quoted(const std::string& cell, char separator) {
  if (cell.find_first_of("\"\r\n") == std::string::npos && cell.find(separator) == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

}  // namespace

PredictionFile::PredictionFile(const std::string& path, Context& context) : path_(path), context_(context) {
  if (path.empty()) return;
  if (path == "-") {
    if (context.wants_json()) fail(ErrorKind::kUsage, "--out - and --json both want standard output");
    return;
  }
  if (path.ends_with(".tsv")) {
    kind_ = Kind::kTsv;
  } else if (path.ends_with(".jsonl")) {
    kind_ = Kind::kJsonLines;
  } else if (!path.ends_with(".csv")) {
    throw Error(ErrorKind::kUsage, fmt::format("--out {}: not a table by its name", path),
                "the name must end in .csv, .tsv or .jsonl; `-` is CSV on standard output");
  }
  place_ = join_path(context.folder(), path);
  if (!is_folder(parent_path(place_)))
    fail(ErrorKind::kNotFound, "--out {}: there is no folder {}", path, parent_path(path));
}

void PredictionFile::add(const Cells& cells, const Json& members) {
  if (!wanted()) return;
  ++rows_;
  if (kind_ == Kind::kJsonLines) {
    text_ += canonical(members) + "\n";
    return;
  }
  const char separator = kind_ == Kind::kTsv ? '\t' : ',';
  const auto line = [&](auto text_of) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text_ += separator;
      text_ += quoted(text_of(cells[i]), separator);
    }
    text_ += '\n';
  };
  if (rows_ == 1) line([](const auto& cell) { return cell.first; });
  line([](const auto& cell) { return cell.second; });
}

void PredictionFile::finish() {
  if (!wanted()) return;
  if (path_ == "-") return context_.out(text_);
  write_file_atomically(place_, text_);
  context_.say(fmt::format("{} prediction{} in {}", rows_, rows_ == 1 ? "" : "s", path_));
}

}  // namespace mlx::cmd
