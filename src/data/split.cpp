// Splits of every kind by one interface.

#include "data/split.h"

#include <algorithm>

#include "base/error.h"
#include "data/splits.h"

namespace mlx::data {
namespace {

RowFile row_file(const store::Store& store, const store::Entry& entry) {
  return {inflated(stored_source(store, entry.content), entry.path), *table_kind(entry.path), entry.path};
}

RowSchema schema_of(const RowFile& file, const Reading& reading, TableFacts* facts = nullptr) {
  return reading.base ? fit_schema_on(*reading.base, file, reading.rows, facts) : fit_schema(file, reading.rows, facts);
}

Rows load_rows(const store::Store& store, const store::Entry& entry, const Reading& reading, Progress& progress) {
  store.want({entry});
  const RowFile file = row_file(store, entry);
  progress.begin(fmt::format("reading {}", entry.path), 0, "B");
  const RowSchema schema = reading.schema ? *reading.schema : schema_of(file, reading);
  Rows rows = read_rows(file, schema, true, progress);
  progress.end();
  return rows;
}

Text load_text(const store::Store& store, const std::vector<store::Entry>& files, const Reading& reading,
               Progress& progress) {
  store.want(files);
  progress.begin(fmt::format("reading {}", files.at(0).path), 0, "B");
  Text text = read_text(store, files, reading.tokenizer, reading.known_tokenizer, progress);
  progress.end();
  return text;
}

Examples pick(const Examples& all, const std::vector<std::int64_t>& indices) {
  Examples out;
  out.count = static_cast<std::int64_t>(indices.size());
  out.height = all.height;
  out.width = all.width;
  out.channels = all.channels;
  out.classes = all.classes;
  out.class_names = all.class_names;
  const auto image = static_cast<std::size_t>(all.height * all.width * all.channels);
  out.pixels.resize(indices.size() * image);
  out.labels.resize(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<std::size_t>(indices[i]);
    std::copy_n(all.pixels.begin() + static_cast<std::ptrdiff_t>(at * image), image,
                out.pixels.begin() + static_cast<std::ptrdiff_t>(i * image));
    out.labels[i] = all.labels[at];
  }
  return out;
}

Description describe_tokens(const Tokenizer& tokenizer, std::int64_t count) {
  Description out;
  out.kind = Kind::kTokens;
  out.targets = TargetKind::kTokens;
  out.count = count;
  out.outputs = static_cast<int>(tokenizer.size());
  return out;
}

}  // namespace

Description describe(const Examples& examples) {
  Description out;
  out.count = examples.count;
  out.height = examples.height;
  out.width = examples.width;
  out.channels = examples.channels;
  out.outputs = examples.classes;
  out.names = examples.class_names;
  return out;
}

Description describe(const RowSchema& schema, std::int64_t count) {
  Description out;
  out.kind = Kind::kFeatures;
  out.targets = schema.kind;
  out.count = count;
  out.features = schema.width();
  out.names = schema.outputs();
  out.outputs = static_cast<int>(out.names.size());
  return out;
}

Split as_split(Examples examples) {
  Split out;
  out.about = describe(examples);
  out.images = std::move(examples);
  return out;
}

Split as_split(Rows rows) {
  Split out;
  out.about = describe(rows.schema, rows.count);
  out.rows = std::move(rows);
  return out;
}

Split as_split(Text text) {
  Split out;
  out.about = describe_tokens(*text.tokenizer, static_cast<std::int64_t>(text.tokens.size()));
  out.text = std::move(text);
  return out;
}

Kind kind_of(const store::Store& store, const Digest& manifest, const std::string& split) {
  return files_of(find_layout(store, manifest), manifest, split).kind;
}

Description describe(const store::Store& store, const Digest& manifest, const std::string& split,
                     const Reading& reading) {
  const Layout layout = find_layout(store, manifest);
  const SplitFiles& files = files_of(layout, manifest, split);
  NoProgress silent(store.interruption());
  switch (files.kind) {
    case Kind::kImages:
      break;
    case Kind::kFeatures: {
      TableFacts facts;
      const RowSchema schema = schema_of(row_file(store, files.rows), reading, &facts);
      Description out = describe(schema, facts.rows);
      out.table = std::move(facts);
      return out;
    }
    case Kind::kTokens:
      if (reading.known_tokenizer) return describe_tokens(*reading.known_tokenizer, 0);
      if (reading.tokenizer == "bytes") return describe_tokens(Tokenizer::bytes(), 0);
      return as_split(load_text(store, files.text, reading, silent)).about;
  }
  return describe(describe_split(store, manifest, split));
}

std::int64_t count_tokens(const store::Store& store, const Digest& manifest, const std::string& split,
                          const Reading& reading, std::int64_t enough) {
  constexpr std::uint64_t kLongestToken = 4;  // bytes of one character; what is compressed has more of them
  const Layout layout = find_layout(store, manifest);
  const SplitFiles& files = files_of(layout, manifest, split);
  std::uint64_t bytes = 0;
  for (const store::Entry& entry : files.text) bytes += entry.size;
  if (bytes / kLongestToken >= static_cast<std::uint64_t>(enough)) return enough;
  NoProgress silent(store.interruption());
  return as_split(load_text(store, files.text, reading, silent)).about.count;
}

Split load(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
           Progress& progress) {
  const Layout layout = find_layout(store, manifest);
  const SplitFiles& files = files_of(layout, manifest, split);
  switch (files.kind) {
    case Kind::kImages:
      break;
    case Kind::kFeatures:
      return as_split(load_rows(store, files.rows, reading, progress));
    case Kind::kTokens:
      return as_split(load_text(store, files.text, reading, progress));
  }
  return as_split(load_split(store, manifest, split, progress));
}

Split pick(const Split& from, const std::vector<std::int64_t>& indices) {
  return from.about.kind == Kind::kFeatures ? as_split(pick(from.rows, indices)) : as_split(pick(from.images, indices));
}

}  // namespace mlx::data
