// Arrays of NumPy as tables: one or two dimensions of numbers, a row for each index of the first. The columns of an npy
// file are named 1, 2, 3 …. In an npz file, which is a zip file of them, arrays are columns as in arrays_table.h; all
// have the same number of rows.
#include "base/error.h"
#include "data/readers/arrays_table.h"
#include "data/readers/table_format.h"
#include "data/readers/zip_files.h"
#include "formats/npy.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kLongestHead = 1 << 20;

// The array in the source, or why it is no table.
struct FoundArray {
  ArrayLayout layout;
  std::string why_not;
};

FoundArray find_array(const Source& source) {
  formats::NpyHeader header = formats::parse_npy(read_head(source, kLongestHead + 12));
  const formats::ArrayType* const type = formats::array_type_of_descr(header.descr);
  if (!type) return {{}, fmt::format("elements of type '{}', expected little-endian numbers", header.descr)};
  std::string why = why_no_table(header.shape);
  return {{type, std::move(header.shape), header.data_begin, header.fortran_order}, std::move(why)};
}

std::string array_name(const std::string& file) {
  return file.ends_with(".npy") ? file.substr(0, file.size() - 4) : file;
}

}  // namespace

std::unique_ptr<TableReader> read_npy(std::unique_ptr<Source> source) {
  const FoundArray found = find_array(*source);
  if (!found.why_not.empty()) fail(ErrorKind::kCorrupt, "npy: {}", found.why_not);
  ArraysTable table("npy");
  table.add(ArrayRows(std::move(source), found.layout), "");
  return std::move(table).reader();
}

std::unique_ptr<TableReader> read_npz(std::unique_ptr<Source> source) {
  ArraysTable table("npz");
  for (const ZipFile& file : zip_files(std::move(source))) {
    if (!file.name.ends_with(".npy")) continue;
    const std::string name = array_name(file.name);
    const FoundArray found = find_array(*file.open());
    if (found.why_not.empty())
      table.add(ArrayRows(file.open(), found.layout), name);
    else
      table.leave_out(name, found.why_not);
  }
  if (table.empty())
    throw Error(ErrorKind::kCorrupt, "npz: no array of one or two dimensions of numbers is in it",
                "numpy.savez(file, x=..., y=...) writes such files");
  return std::move(table).reader();
}

}  // namespace mlx::data
