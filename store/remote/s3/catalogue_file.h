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
  // As it stands now; false where there is none. kCorrupt where both of its copies are damaged.
  bool refresh();
  const Catalogue& current() const { return current_; }
  // Makes an empty one unless somebody was faster. First makes sure that the server honours the conditions of PUT:
  // kMissing where it does not.
  void create();
  // Writes both copies again, and an empty one where both are damaged; `format` too. The names of those that were not
  // whole.
  std::vector<std::string> mend();
  // Applies `change` to what stands there until nobody else comes between. `change` returns false to leave it as it is;
  // so does this then.
  bool replace(const std::function<bool(Catalogue&)>& change);

 private:
  void probe_conditions();
  Client& client_;
  Catalogue current_;
  std::string tag_;  // "" while none is known
};

}  // namespace mlx::store::s3
