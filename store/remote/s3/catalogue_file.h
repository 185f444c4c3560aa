// The catalogue as it stands on the server: read when it has changed, replaced by compare-and-set. Used by remote.cpp
// and upload.cpp; not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "store/remote/s3/catalogue.h"
#include "store/remote/s3/client.h"

namespace mlx::store::s3 {

class CatalogueFile {
 public:
  explicit CatalogueFile(Client& client) : client_(client) {}
  // Reads the newest catalogue; false if there is none. kCorrupt if both of its copies are damaged.
  bool refresh();
  const Catalogue& current() const { return current_; }
  // Makes an empty one unless another client was faster. First checks that the server honours the conditions of PUT:
  // kMissing if it does not.
  void create();
  // Writes both copies again (an empty catalogue if both are damaged), and those of `format`. The names of the files
  // that were damaged.
  std::vector<std::string> mend();
  // Applies `change` to the newest catalogue, again until no other client's change comes between. If `change` returns
  // false, nothing is written, and this returns false.
  bool replace(const std::function<bool(Catalogue&)>& change);

 private:
  void probe_conditions();
  Client& client_;
  Catalogue current_;
  std::string tag_;  // "" while none is known
};

}  // namespace mlx::store::s3
