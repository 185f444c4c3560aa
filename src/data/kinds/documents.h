// Text in tables, a document or a conversation a row: JSON lines, CSV, Parquet. Used by text datasets and by the scan
// of quality/. Only a window of the file is in memory (readers/table.h bounds a row).
#pragma once

#include <string>
#include <vector>

#include "data/kinds/text.h"
#include "data/splits.h"

namespace mlx::data {

// Which column of a table holds the documents.
struct DocumentColumn {
  std::string name;        // "": "text", "messages" or "conversations", the first that there is
  bool gives_way = false;  // a table without `name` is read as if there were none
};

// Whether a text split's files are tables, by their names. Throws kUsage where only some of them are.
bool hold_documents(const std::vector<store::Entry>& files);
// Whether the split's first file, a table, has the column.
bool has_documents(const StoredSplit& split, const DocumentColumn& column);
// Whether its first row has a list of messages in it.
bool has_conversations(const StoredSplit& split, const DocumentColumn& column);

// Documents that no training takes.
struct DocumentFaults {
  static constexpr std::size_t kNamed = 20;
  std::uint64_t count = 0;
  std::vector<std::string> first;  // "FILE: line N: why", at most kNamed
};

// The documents of all files, or of the split's part of them, each followed by a line feed. If the first row holds a
// list of messages, all must, and the source is masked: only what an assistant says is learned. Throws kUsage if a file
// has no such column, kCorrupt "FILE: line N: …" for a row without text, unless `faults` takes in such rows. The
// arguments outlive the source.
TextSource document_source(const StoredSplit& split, const DocumentColumn& column, Progress& progress,
                           DocumentFaults* faults = nullptr);

}  // namespace mlx::data
