// Another store: a folder, a machine behind SSH, an S3 bucket. A remote holds packs of objects and the heads of its
// operation graph; it never holds a database.
//
// Backends move objects as they are stored, and know them by storage id. They hold no keys, and verify all that they
// decode. transfer.h translates between plain ids and storage ids.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/hash.h"
#include "base/progress.h"
#include "store/format/pack_format.h"
#include "store/pack/store.h"

namespace mlx::store {

using ReadStored = std::function<StoredObject(const ObjectKey&)>;  // called by several threads at once
using TakeStored = std::function<void(StoredObject&&)>;            // called by several threads at once

struct RepairReport;

class Remote {
 public:
  virtual ~Remote() = default;
  // Heads of the operation graph, by the operations' storage ids. Empty for a new remote, kCorrupt if they are lost.
  // publish_heads() counts lost heads as none, so that whoever knows them can write them again.
  virtual std::vector<Digest> heads() = 0;
  // Storage ids of the operation objects that it holds, in any order. A fetch asks once and need not walk from parent
  // to parent.
  virtual std::vector<Digest> operations() = 0;
  // Which of these the remote lacks: each once, in the order given.
  virtual std::vector<ObjectKey> missing(const std::vector<ObjectKey>& keys) = 0;
  // Sends those that it lacks, in packs and in the order given; a delta's base comes before the delta. When it returns,
  // they are durable and the receiver has verified them. What an interrupted call sent stays, and is no longer missing.
  virtual void send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) = 0;
  // Gives each object to `take`, its checksum verified. kNotFound if the remote lacks one.
  virtual void receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) = 0;
  // Compare-and-set; false if the heads are no longer `expected`.
  virtual bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) = 0;
  // A small file beside the heads, such as the wrapped keys of an encrypted remote. Reading a lost one is kCorrupt.
  // Writing replaces it by compare-and-set on its bytes (`expected` is nullopt for an absent or lost file). Names have
  // letters, digits and '-'.
  virtual std::optional<Bytes> read_file(const std::string& name) = 0;
  virtual bool write_file(const std::string& name, const std::optional<Bytes>& expected, ByteView bytes) = 0;
  // The problems of packs that cannot be opened, one line each; their objects are missing. Empty if this side does not
  // know.
  virtual std::vector<std::string> damage() { return {}; }
  // Asks whether the listed packs are still there, without reading them. Objects of a lost pack are missing from then
  // on, for this connection. A line for each lost pack.
  virtual std::vector<std::string> look_for_lost() { return {}; }
  // Reads and verifies everything there, and sets damaged packs aside (repair.h); in a bucket it looks for lost packs.
  // The lost objects are then missing, and can be sent again. False if the remote cannot do that.
  virtual bool repair(RepairReport&, Progress&) { return false; }
  // Removes these objects from all packs there; other objects stay. They are then missing, and can be sent again. For
  // objects that do not match their ids, if only the caller can see that. False for a remote behind a server, which
  // verifies them itself.
  virtual bool drop(const std::vector<ObjectKey>&, RepairReport&, Progress&) { return false; }
  // Names of the small files that opening for writing, or repair(), has written again because a copy was damaged.
  virtual std::vector<std::string> mended() { return {}; }
};

// Throws if `heads` must not replace `before`. A remote in a folder of this machine calls it before it publishes heads,
// because the store does not know what operations name.
using CheckHeads =
    std::function<void(const Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads)>;

struct RemoteOptions {
  bool create = false;       // makes what is not there yet
  Environment environment;   // for the user's own settings of a backend (AWS_PROFILE …)
  std::string cache_folder;  // a backend may keep what never changes there (indexes of packs); "": it keeps nothing
  CheckHeads check_heads;    // may be empty
  bool repair = false;       // a server then lets it leave out operations that are there
  const Interruption* interruption = &Interruption::never();  // ends every wait
};

// By URL: a folder's path or file://PATH, or a scheme of the table in remote.cpp. kUsage for an unknown one, kNotFound
// / kIo if it cannot be reached.
std::unique_ptr<Remote> open_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool);
// kUsage if open_remote() would not know this kind of URL. Connects to nothing.
void check_remote_url(const std::string& url);
// True for a folder's path; false for URLs and HOST:PATH.
bool is_remote_path(const std::string& url);

}  // namespace mlx::store
