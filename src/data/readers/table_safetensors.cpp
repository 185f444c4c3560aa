// Files of safetensors as tables: tensors of one or two dimensions of numbers are columns as in arrays_table.h, a row
// for each index of the first dimension; all have the same number of rows. Tensors lie one behind the other in the
// file, and are read side by side: a block of each is in memory.
#include <algorithm>

#include "base/error.h"
#include "data/readers/arrays_table.h"
#include "data/readers/table_format.h"
#include "formats/safetensors.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLongestHeader = 16 << 20;  // of a table: 16,384 columns need less

formats::SafetensorsHeader read_header(const Source& source, std::uint64_t file_size) {
  const Bytes first = read_head(source, 16);
  const std::uint64_t size = formats::safetensors_header_size(first, file_size);
  if (size > kLongestHeader)
    throw Error(ErrorKind::kUsage,
                fmt::format("safetensors: a header of {} is too much for a table", format_bytes(size)),
                "a table has at most 16,384 columns");
  return formats::parse_safetensors(read_head(source, std::max<std::uint64_t>(size, first.size())), file_size);
}

}  // namespace

std::unique_ptr<TableReader> read_safetensors(std::unique_ptr<Source> source) {
  const std::shared_ptr<const Source> file = std::move(source);
  const std::optional<std::uint64_t> size = file->known_size();
  if (!size)
    throw Error(ErrorKind::kUsage, "safetensors: the file is compressed, but its tensors are read side by side",
                "unpack it: the store compresses what it keeps");
  ArraysTable table("safetensors");
  for (formats::SafetensorsEntry& tensor : read_header(*file, *size).tensors) {
    const formats::ArrayType* const type = formats::array_type_of_dtype(tensor.dtype);
    const std::string why =
        type ? why_no_table(tensor.shape) : fmt::format("elements of type {}, expected numbers", tensor.dtype);
    if (why.empty())
      table.add(ArrayRows(file, {type, std::move(tensor.shape), tensor.begin, false}), tensor.name);
    else
      table.leave_out(tensor.name, why);
  }
  if (table.empty())
    throw Error(ErrorKind::kCorrupt, "safetensors: no tensor of one or two dimensions of numbers is in it",
                "a tensor of [rows] is a column, one of [rows, columns] several");
  return std::move(table).reader();
}

}  // namespace mlx::data
