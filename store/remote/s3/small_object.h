// Small objects in two copies, NAME and NAME.copy, each with its check (store/small_file.h). The first is changed by
// compare-and-set, the second follows it. Used by catalogue_file.cpp and remote.cpp.
#pragma once

#include <string>

#include "store/remote/s3/client.h"
#include "store/small_file.h"

namespace mlx::store::s3 {

struct SmallObject {
  SmallFile file;
  std::string tag;  // of the first copy, whatever it holds; "" where it is missing
};
// The second copy is asked for only where the first is missing or not whole. `known` and `unchanged` as in Client::get.
SmallObject get_small(Client& client, const std::string& name, std::uint64_t max_size, const std::string& known = {},
                      bool* unchanged = nullptr);
// Where the first was replaced, so is the second: as far as that goes, since it is the first that counts.
Written put_small(Client& client, const std::string& name, ByteView content, const std::string& tag);

}  // namespace mlx::store::s3
