// The files in a zip file, each as a source of plain bytes. Used by the reader of npz.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/readers/source.h"

namespace mlx::data {

struct ZipFile {
  std::string name;
  OpenSource open;  // kCorrupt if its header is damaged; keeps the zip file open
};
// In the order of the zip file's directory. kCorrupt if that is damaged; kUsage for encrypted files and for methods of
// compression other than deflate.
std::vector<ZipFile> zip_files(std::unique_ptr<Source> zip);

}  // namespace mlx::data
