// Another store: a folder now; SSH and S3 implement the same interface. A remote holds packs of objects and the heads
// of its operation graph; it never holds a database.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/progress.h"
#include "store/store.h"

namespace mlx::store {

using ObjectRef = std::pair<ObjectKind, Digest>;

class Remote {
 public:
  virtual ~Remote() = default;
  virtual std::vector<Digest> heads() = 0;  // heads of the operation graph; empty for a new remote
  // Ids of the operation objects that it holds, in any order: a fetch asks once instead of walking parent by parent.
  virtual std::vector<Digest> operations() = 0;
  // Which of these the remote lacks.
  virtual std::vector<ObjectRef> missing(const std::vector<ObjectRef>& objects) = 0;
  // Sends objects of `from` in packs; durable and verified by the receiver before it returns. Sending the same twice is
  // fine.
  virtual void send(const Store& from, const std::vector<ObjectRef>& objects, Progress& progress) = 0;
  // Receives objects into `to`; each is verified.
  virtual void receive(Store& to, const std::vector<ObjectRef>& objects, Progress& progress) = 0;
  // Compare-and-set; false where the heads are no longer `expected`.
  virtual bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) = 0;
};

// By URL: a folder's path or file://PATH. kUsage for an unknown scheme, kNotFound / kIo where it cannot be reached.
// `create` makes a missing folder.
std::unique_ptr<Remote> open_remote(const std::string& url, bool create, Disk& disk, Pool& pool);

}  // namespace mlx::store
