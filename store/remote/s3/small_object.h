// Small objects in two copies, NAME and NAME.copy, each with its check (store/small_file.h). The first is replaced by
// compare-and-set, then the second. Used by catalogue_file.cpp and remote.cpp.
#pragma once

#include <string>

#include "store/remote/s3/client.h"
#include "store/small_file.h"

namespace mlx::store::s3 {

struct SmallObject {
  SmallFile file;
  std::string tag;  // of the first copy, whatever it holds; "" if it is missing
};
// Reads the second copy only if the first is missing or damaged. `known` and `unchanged` as in Client::get.
SmallObject get_small(Client& client, const std::string& name, std::uint64_t max_size, const std::string& known = {},
                      bool* unchanged = nullptr);
// Replaces the first copy and, if that succeeded, tries to replace the second; only the first one counts.
Written put_small(Client& client, const std::string& name, ByteView content, const std::string& tag);

}  // namespace mlx::store::s3
