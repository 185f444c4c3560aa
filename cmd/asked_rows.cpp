// See asked_rows.h.
#include "cmd/asked_rows.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include "cmd/cli/standard_input.h"
#include "cmd/predictions.h"
#include "data/kinds/rows_dataset.h"
#include "data/readers/table_format.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

AskedRows read_file_rows(const std::string& word, const std::string& path, const data::RowSchema& schema,
                         Context& context) {
  for (const std::string_view ending : data::kSqliteLogs) {
    struct stat log {};
    const std::string beside = path + std::string(ending);
    if (stat(beside.c_str(), &log) == 0 && log.st_size > 0) data::fail_unsettled(word, beside);
  }
  const data::FoundTable found = data::find_table(data::disk_source(path, context.progress().interruption()), word);
  const data::RowFile file{found.open, found.kind, word};
  context.progress().begin(fmt::format("reading {}", word), 0, "B");
  AskedRows table{word, data::read_rows(file, schema, false, context.progress())};
  context.progress().end();
  return table;
}

AskedRows read_standard_rows(const data::RowSchema& schema, Context& context) {
  constexpr std::size_t kLargest = std::size_t{1} << 36;
  const std::string name = "standard input";
  const std::string text = read_standard_input(kLargest, context.progress().interruption());
  const data::FoundTable found = data::find_nameless_table(data::memory_source(text), name);
  const data::RowFile file{found.open, found.kind, name};
  context.progress().begin("reading " + name, 0, "B");
  AskedRows table{"-", data::read_rows(file, schema, false, context.progress())};
  context.progress().end();
  return table;
}

}  // namespace

AskedRows asked_rows(const std::string& word, const std::string& split, const data::Reading& reading,
                     Context& context) {
  const data::RowSchema& schema = *reading.fitted->rows;
  if (word == "-") return read_standard_rows(schema, context);
  const PredictSource source = find_source(word, context);
  if (source.is_file()) return read_file_rows(word, source.path, schema, context);
  const registry::Version& version = source.dataset;
  return {fmt::format("{}:{}", version.name(), split),
          data::load_rows(context.repository().store(), version.digest, split, reading, context.progress())};
}

}  // namespace mlx::cmd
