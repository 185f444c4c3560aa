// Another store: a folder, a machine behind SSH, an S3 bucket. A remote holds packs of objects and the heads of its
// operation graph; it never holds a database.
//
// Backends move objects as they are stored and know them by storage id: they hold no keys, and decode nothing that they
// do not verify. What stands between plain ids and storage ids is transfer.h.
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
#include "store/pack/pack_format.h"
#include "store/pack/store.h"

namespace mlx::store {

using ObjectRef = std::pair<ObjectKind, Digest>;  // by plain id

using ReadStored = std::function<StoredObject(const ObjectKey&)>;  // called by several threads at once
using TakeStored = std::function<void(StoredObject&&)>;            // called by several threads at once

struct RepairReport;

class Remote {
 public:
  virtual ~Remote() = default;
  // Heads of the operation graph, by the storage ids of the operations; empty for a new remote, kCorrupt where they are
  // lost. To publish_heads() lost ones are none, so that whoever knows them can write them again.
  virtual std::vector<Digest> heads() = 0;
  // Storage ids of the operation objects that it holds, in any order: a fetch asks once instead of walking parent by
  // parent.
  virtual std::vector<Digest> operations() = 0;
  // Which of these the remote lacks: each once, in the order given.
  virtual std::vector<ObjectKey> missing(const std::vector<ObjectKey>& keys) = 0;
  // Sends what it lacks of these, in packs and in the order given (a delta's base goes before the delta). Durable, and
  // verified by the receiver, when it returns; what an interrupted call got through stays, and is no longer missing.
  virtual void send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) = 0;
  // Gives each object to `take`, its checksum verified. kNotFound where the remote lacks one.
  virtual void receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) = 0;
  // Compare-and-set; false where the heads are no longer `expected`.
  virtual bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) = 0;
  // A small file beside the heads, such as the wrapped keys of an encrypted remote: replaced as a whole, by
  // compare-and-set on its bytes (nullopt: there is none, or it is lost, which reading says as kCorrupt). Names are
  // letters, digits and '-'.
  virtual std::optional<Bytes> read_file(const std::string& name) = 0;
  virtual bool write_file(const std::string& name, const std::optional<Bytes>& expected, ByteView bytes) = 0;
  // The store that the remote is, where it stands on a disk of this machine: gc works on it. Null elsewhere.
  virtual Store* local_store() { return nullptr; }
  // What is wrong with packs that cannot be opened, one line each: what stood in them is missing. Empty where that is
  // not known on this side.
  virtual std::vector<std::string> damage() { return {}; }
  // Asks whether what it lists is still there, without reading it: what is not is missing from now on, for this
  // connection. A line for each pack that is lost.
  virtual std::vector<std::string> look_for_lost() { return {}; }
  // Reads and verifies all that it holds, and sets damaged packs aside (repair.h): what was lost is missing then, and
  // can be sent again; in a bucket it looks for what is lost. False, and nothing, where nobody there can.
  virtual bool repair(RepairReport&, Progress&) { return false; }
  // Takes these objects out wherever they stand there, and leaves what stands beside them: they are missing then, and
  // can be sent again. For whoever has seen that they are not what their ids say, where the remote itself cannot.
  // False, and nothing, where it is behind a server, which looks for itself.
  virtual bool drop(const std::vector<ObjectKey>&, RepairReport&, Progress&) { return false; }
  // Small files, by their names there, that opening it for writing or repair() has written again: one of their copies
  // or both were damaged.
  virtual std::vector<std::string> mended() { return {}; }
  // For EncryptedRemote alone: whether what it is given is encrypted, and under which domain's keys from now on ("":
  // it looks under all of them).
  virtual bool encrypted() const { return false; }
  virtual void set_domain(const std::string&) {}
};

// Throws where these heads must not follow those: a remote that is a folder on this machine asks it before it publishes
// any. The store layer does not know what operations name.
using CheckHeads =
    std::function<void(const Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads)>;

struct RemoteOptions {
  bool create = false;       // makes what is not there yet
  Environment environment;   // for what backends leave to the user's own settings (AWS_PROFILE …)
  std::string cache_folder;  // where a backend may keep what never changes (indexes of packs); "" for nowhere
  CheckHeads check_heads;    // may be empty
  bool repair = false;       // asks a server for what only a repair may do: leave out operations that are there
};

// By URL: a folder's path or file://PATH, or a scheme of the table in remote.cpp. kUsage for an unknown one, kNotFound
// / kIo where it cannot be reached.
std::unique_ptr<Remote> open_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool);
// kUsage where open_remote() would know no such kind; reaches nothing.
void check_remote_url(const std::string& url);
// True for a folder's path, which is relative to something; not for URLs and HOST:PATH.
bool is_remote_path(const std::string& url);

}  // namespace mlx::store
