// Reads the rows of a table whose columns are all numbers by a schema, on one thread. Prints seconds, rows and the sum
// of all numbers, which tables.py compares with that of other readers: `bench_tables FILE [TIMES]`. The memory of one
// reading is kept for the next, as the allocators of the other readers keep it.
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <limits>

#include "base/interruption.h"
#include "data/readers/table_format.h"
#include "data/rows.h"

using namespace mlx;
using namespace mlx::data;

namespace {

RowSchema all_numbers(const RowFile& file) {
  const std::unique_ptr<TableReader> reader = read_table(file);
  RowSchema schema;
  for (const std::string& name : reader->columns()) schema.features.push_back({name});
  return schema;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int times = argc > 2 ? std::atoi(argv[2]) : 3;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  Interruption interruption;
  NoProgress silent;
  const FoundTable found = find_table(disk_source(argv[1], interruption), argv[1]);
  const RowFile file{found.open, found.kind, argv[1]};
  const RowSchema schema = all_numbers(file);
  double first = 0, best = 1e9, sum = 0;
  std::int64_t count = 0;
  for (int i = 0; i < times; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Rows rows = read_rows(file, schema, false, silent);
    const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::min(best, taken);
    if (i == 0) first = taken;
    count = rows.count, sum = 0;
    for (const double number : rows.numbers) sum += number;
  }
  fmt::print("{{\"first\": {}, \"best\": {}, \"rows\": {}, \"sum\": {}}}\n", first, best, count, sum);
  return 0;
}
