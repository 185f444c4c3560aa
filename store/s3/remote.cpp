// The Remote over a catalogue, tables of what the packs hold, and single requests; nothing is ever listed.
#include "store/s3/remote.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/path.h"
#include "store/s3/catalogue_file.h"
#include "store/s3/download.h"
#include "store/s3/pack_tables.h"
#include "store/s3/upload.h"

namespace mlx::store {

namespace {

using namespace s3;

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
        disk_(disk),
        pool_(pool),
        network_(kConnections),
        tables_(client_, options.cache_folder.empty() ? "" : join_path(options.cache_folder, "s3"), disk, network_) {
    if (catalogue_.refresh()) return;
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
    std::vector<ObjectKey> result;
    std::unordered_set<ObjectKey, ObjectKeyHash> seen;
    for (const ObjectKey& key : keys) {
      if (!tables_.find(key) && seen.insert(key).second) result.push_back(key);
    }
    return result;
  }

  void send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) override {
    const std::vector<ObjectKey> wanted = missing(keys);
    if (wanted.empty()) return;
    upload({client_, catalogue_, tables_, disk_, pool_, network_, tables_.folder()}, wanted, read, progress);
  }

  void receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) override {
    follow();
    std::vector<Place> places;
    std::unordered_set<ObjectKey, ObjectKeyHash> seen;
    for (const ObjectKey& key : keys) {
      if (!seen.insert(key).second) continue;
      const std::optional<Place> place = tables_.find(key);
      if (!place) fail(ErrorKind::kNotFound, "{} does not hold the object {}", client_.url_of(""), key.id.brief());
      places.push_back(*place);
    }
    download(client_, tables_, std::move(places), network_, take, progress);
  }

  bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) override {
    refresh();
    // Heads that are found to be these after a first try are that try's, whose answer was lost.
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
    std::optional<Object> object = client_.get(object_name(name), kMaxFile);
    if (!object) return std::nullopt;
    return std::move(object->bytes);
  }

  bool write_file(const std::string& name, const std::optional<Bytes>& expected, ByteView bytes) override {
    const std::optional<Object> there = client_.get(object_name(name), kMaxFile);
    if (there.has_value() != expected.has_value() || (there && there->bytes != *expected)) return false;
    return client_.put(object_name(name), bytes, {there ? there->tag : std::string()}).done;
  }

 private:
  static std::string object_name(const std::string& name) {
    CHECK(!name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
    return "file-" + name;
  }

  void refresh() {
    if (!catalogue_.refresh()) fail(ErrorKind::kCorrupt, "{}: has gone", client_.url_of("catalogue"));
  }

  void follow() {
    refresh();
    tables_.follow(catalogue_.current().packs);
  }

  Client client_;
  CatalogueFile catalogue_;
  Disk& disk_;
  Pool& pool_;
  Pool network_;
  PackTables tables_;
};

}  // namespace

std::unique_ptr<Remote> open_s3_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool) {
  Settings settings = resolve_settings(url, options.environment);
  std::unique_ptr<HttpClient> http = open_http({settings.ca_bundle, settings.stall_seconds});
  return std::make_unique<S3Remote>(std::move(settings), std::move(http), options, disk, pool);
}

}  // namespace mlx::store
