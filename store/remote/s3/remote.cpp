// The Remote over a catalogue, tables of what the packs hold, and single requests; nothing is ever listed.
#include "store/remote/s3/remote.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/path.h"
#include "store/maintenance/repair.h"
#include "store/remote/s3/catalogue_file.h"
#include "store/remote/s3/download.h"
#include "store/remote/s3/pack_tables.h"
#include "store/remote/s3/small_object.h"
#include "store/remote/s3/upload.h"

namespace mlx::store::s3 {
namespace {

constexpr int kConnections = 8;
constexpr std::uint64_t kMaxFile = std::uint64_t{16} << 20;  // of a named one

std::vector<Digest> sorted(std::vector<Digest> heads) {
  std::ranges::sort(heads);
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
  return heads;
}

class S3Remote final : public Remote {
 public:
  S3Remote(Settings settings, std::unique_ptr<HttpClient> http, const RemoteOptions& options, Disk& disk, Pool& pool)
      : client_(std::move(settings), std::move(http)),
        catalogue_(client_),
        writes_(options.create),
        disk_(disk),
        pool_(pool),
        network_(kConnections),
        tables_(client_, options.cache_folder.empty() ? "" : join_path(options.cache_folder, "s3"), disk, network_) {
    try {
      if (catalogue_.refresh()) return;
    } catch (const Error& error) {
      if (!writes_ || error.kind != ErrorKind::kCorrupt) throw;
      return;  // using it reports that; the caller may want repair()
    }
    if (!options.create) {
      throw Error(ErrorKind::kNotFound, fmt::format("{}: the bucket holds no mlx remote there", client_.url_of("")),
                  "`mlx push` makes one");
    }
    catalogue_.create();
  }

  std::vector<Digest> heads() override {
    refresh();
    return catalogue_.current().heads;
  }

  std::vector<Digest> operations() override {
    follow();
    return tables_.of_kind(ObjectKind::kOperation);
  }

  std::vector<ObjectKey> missing(const std::vector<ObjectKey>& keys) override {
    follow();
    for (;;) {
      std::vector<ObjectKey> result;
      std::unordered_set<ObjectKey, ObjectKeyHash> seen;
      std::set<std::size_t> answered;  // packs that an answer relies on
      for (const ObjectKey& key : keys) {
        if (const std::optional<Place> place = tables_.find(key)) {
          answered.insert(place->pack);
        } else if (seen.insert(key).second) {
          result.push_back(key);
        }
      }
      // What a push relies on must be on the server, not only in this clone's kept indexes.
      if (!writes_ || !note_lost(tables_.look_at({answered.begin(), answered.end()}))) return result;
    }
  }

  void send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) override {
    const std::vector<ObjectKey> wanted = missing(keys);
    for (const std::string& what : std::exchange(untold_, {}))
      progress.warn(what + "; the objects that are here are sent again");
    if (wanted.empty()) return;
    upload({client_, catalogue_, tables_, disk_, pool_, network_, tables_.folder()}, wanted, read, progress);
  }

  void receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) override {
    follow();
    std::mutex mutex;
    std::unordered_set<ObjectKey, ObjectKeyHash> taken;
    const TakeStored note_taken = [&](StoredObject&& object) {
      const ObjectKey key = object.key;
      take(std::move(object));
      std::lock_guard lock(mutex);
      taken.insert(key);
    };
    for (;;) {
      std::vector<Place> places = places_of(keys, taken);
      std::set<std::size_t> packs;
      for (const Place& place : places) packs.insert(place.pack);
      try {
        download(client_, tables_, std::move(places), network_, note_taken, progress);
        return;
      } catch (const Error& error) {
        // Another pack may hold the objects of a pack that is gone.
        if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
        if (!note_lost(tables_.look_at({packs.begin(), packs.end()}))) throw;
      }
    }
  }

  bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) override {
    refresh();
    // If an earlier attempt's answer was lost, its heads stand there already.
    bool tried = false, published = false;
    const bool replaced = catalogue_.replace([&](Catalogue& catalogue) {
      published = tried && catalogue.heads == sorted(heads);
      if (published || catalogue.heads != sorted(expected)) return false;
      catalogue.heads = sorted(heads);
      tried = true;
      return true;
    });
    return replaced || published;
  }

  std::optional<Bytes> read_file(const std::string& name) override {
    SmallFile file = get_small(client_, object_name(name), kMaxFile).file;
    if (file.readable()) return std::move(file.content);
    if (file.state == SmallFile::State::kAbsent) return std::nullopt;
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: is damaged, and so is its copy", client_.url_of(object_name(name))),
                "`mlx push --repair` from a clone writes it again");
  }

  bool write_file(const std::string& name, const std::optional<Bytes>& expected, ByteView bytes) override {
    const SmallObject there = get_small(client_, object_name(name), kMaxFile);
    if (there.file.readable() != expected.has_value() || (expected && there.file.content != *expected)) return false;
    return put_small(client_, object_name(name), bytes, there.tag).done;
  }

  std::vector<std::string> look_for_lost() override {
    follow();
    note_lost(tables_.look_at(tables_.all()));
    return lost_;
  }

  // Lost packs leave the catalogue: their objects are then missing for everybody.
  bool repair(RepairReport&, Progress& progress) override {
    mended_ = catalogue_.mend();
    for (const std::string& what : look_for_lost()) progress.warn(what + "; the objects that are here are sent again");
    untold_.clear();
    catalogue_.replace([&](Catalogue& catalogue) {
      return std::erase_if(catalogue.packs, [&](const PackEntry& pack) { return lost_packs_.contains(pack); }) > 0;
    });
    return true;
  }

  // The other objects of their packs go into new packs, before the catalogue drops the old ones.
  bool drop(const std::vector<ObjectKey>& keys, RepairReport& report, Progress& progress) override {
    follow();
    const std::vector<std::size_t> packs = tables_.holding(keys);
    if (packs.empty()) return true;
    const std::unordered_set<ObjectKey, ObjectKeyHash> dropped(keys.begin(), keys.end());
    std::vector<ObjectKey> kept;
    std::unordered_map<ObjectKey, std::pair<PackEntry, PackRecord>, ObjectKeyHash> places;
    std::set<PackEntry> left_out;
    for (const std::size_t pack : packs) {
      const PackEntry& entry = *left_out.insert(tables_.pack(pack)).first;
      for (const PackRecord& record : tables_.records_of(pack)) {
        if (!dropped.contains(record.key) && places.emplace(record.key, std::pair(entry, record)).second)
          kept.push_back(record.key);
      }
    }
    tables_.forget(packs);
    std::erase_if(kept, [&](const ObjectKey& key) { return tables_.find(key).has_value(); });
    const ReadStored read = [&](const ObjectKey& key) {
      const auto& [pack, record] = places.at(key);
      return download_one(client_, pack, record);
    };
    if (!kept.empty())
      upload({client_, catalogue_, tables_, disk_, pool_, network_, tables_.folder()}, kept, read, progress);
    report.saved_objects += kept.size();
    catalogue_.replace([&](Catalogue& catalogue) {
      return std::erase_if(catalogue.packs, [&](const PackEntry& pack) { return left_out.contains(pack); }) > 0;
    });
    return true;
  }

  std::vector<std::string> mended() override { return mended_; }

 private:
  // False if there are none.
  bool note_lost(const std::vector<PackEntry>& packs) {
    for (const PackEntry& pack : packs) {
      lost_packs_.insert(pack);
      lost_.push_back(fmt::format("{}: is gone, or cut short", client_.url_of("packs/" + pack.id.hex() + ".pack")));
      untold_.push_back(lost_.back());
    }
    return !packs.empty();
  }

  std::vector<Place> places_of(const std::vector<ObjectKey>& keys,
                               const std::unordered_set<ObjectKey, ObjectKeyHash>& taken) const {
    std::vector<Place> places;
    std::unordered_set<ObjectKey, ObjectKeyHash> seen;
    for (const ObjectKey& key : keys) {
      if (taken.contains(key) || !seen.insert(key).second) continue;
      const std::optional<Place> place = tables_.find(key);
      if (!place) {
        throw Error(ErrorKind::kNotFound,
                    fmt::format("{} does not hold the object {}", client_.url_of(""), key.id.brief()),
                    lost_.empty() ? "" : lost_.front() + "; `mlx push --repair` from a clone that has it");
      }
      places.push_back(*place);
    }
    return places;
  }

  static std::string object_name(const std::string& name) {
    CHECK(!name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
    return "file-" + name;
  }

  void refresh() {
    if (!catalogue_.refresh()) fail(ErrorKind::kCorrupt, "{}: has gone", client_.url_of("catalogue"));
  }

  void follow() {
    refresh();
    note_lost(tables_.follow(catalogue_.current().packs));
  }

  Client client_;
  CatalogueFile catalogue_;
  const bool writes_;
  std::set<PackEntry> lost_packs_;
  std::vector<std::string> lost_, untold_;  // a line each
  std::vector<std::string> mended_;         // names
  Disk& disk_;
  Pool& pool_;
  Pool network_;
  PackTables tables_;
};

}  // namespace
}  // namespace mlx::store::s3

namespace mlx::store {

std::unique_ptr<Remote> open_s3_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool) {
  s3::Settings settings = s3::resolve_settings(url, options.environment);
  std::unique_ptr<s3::HttpClient> http =
      s3::open_http({settings.ca_bundle, settings.stall_seconds, options.interruption});
  return std::make_unique<s3::S3Remote>(std::move(settings), std::move(http), options, disk, pool);
}

}  // namespace mlx::store
