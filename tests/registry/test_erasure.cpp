// What an erasure takes and what it does not: the versions that it names and that stand before it in the graph.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/fd.h"
#include "base/json.h"
#include "fails_with.h"
#include "fault_helpers.h"
#include "history_maker.h"
#include "registry/keys/keys.h"
#include "registry/maintenance/gc.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/sync.h"
#include "registry/versions/domains.h"
#include "store/format/chunk_list.h"
#include "store/format/codec.h"
#include "store/remote/encrypted_remote.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

constexpr ScryptCost kCheapest{10, 1, 1};

// Clones of one encrypted project; what they keep themselves is encrypted where `encrypted`.
struct Encrypted {
  explicit Encrypted(bool encrypted) {
    for (Clone* c : {&a, &b}) {
      c->close();
      remove_tree(c->path(".mlx"));
      make_folders(c->path(".mlx"));
    }
    Keys(a.path(".mlx/keys"), *a.disk)
        .create(store::make_keys(
            store::passphrase_member(as_bytes(std::string_view("pass")), "passphrase", kCheapest, 1), 1));
    Repository::init(a.root, *a.disk, encrypted);
    open(a);
    a.repo().keys().change([](store::UnlockedKeys& keys) { store::rotate_domain(keys, "people", 2); });
    for (const std::string& name : list_folder(a.path(".mlx"))) {
      if (name.starts_with("keys")) write_file_atomically(b.path(".mlx/" + name), read_text(a.path(".mlx/" + name)));
    }
    Repository::init(b.root, *b.disk, encrypted);
    open(b);
    assign_domain(a.repo(), "data/p", "people");
  }
  static void open(Clone& c) {
    c.open();
    c.repo().keys().set_unlocker(std::make_shared<KnownPassphrase>("pass"));
  }
  Version add(Clone& c, const std::string& artifact, const std::string& text) {
    c.repo().store().use_domain(domain_of(c.repo(), artifact));
    return make(c.repo(), artifact, text, ArtifactKind::kDataset);
  }
  void push(Clone& c) { registry::push(c.repo(), origin, quiet); }
  void fetch(Clone& c) {
    registry::fetch(c.repo(), origin, {FetchContent::kEverything}, quiet);
    c.close();
    open(c);
  }
  std::string text(Clone& c, const Version& version) {
    store::Store& store = c.repo().store();
    return std::string(as_text(store.read_blob(store.entries(version.digest).at(0).content)));
  }
  std::size_t keys_of(Clone& c, const std::string& domain) {
    const store::KeyFile file = c.repo().keys().file();
    return static_cast<std::size_t>(std::ranges::count_if(
        file.keys, [&](const store::DataKey& key) { return key.domain == domain && !key.erased(); }));
  }
  store::GcReport gc(Clone& c) {
    store::GcOptions options;
    options.grace_seconds = 0;
    options.remove = true;
    return collect_garbage(c.repo(), options, quiet);
  }

  TempFolder folder;
  RemoteConfig origin{"origin", join_path(folder.path(), "origin"), true};
  Clone a, b;
  NoProgress quiet;
};

}  // namespace

TEST_CASE("an erasure destroys the versions that it names, and the domain's keys") {
  Encrypted t(true);
  const Version gone = t.add(t.a, "data/p", "somebody"), other = t.add(t.a, "data/x", "nobody");
  t.push(t.a);
  t.fetch(t.b);
  erase(t.a.repo(), plan_erasure(t.a.repo(), "people"));
  CHECK(erasure_of(t.a.repo(), gone.digest));
  CHECK(t.keys_of(t.a, "people") == 0);
  CHECK(t.text(t.a, other) == "nobody");
  t.push(t.a);
  t.fetch(t.b);
  CHECK(erasure_of(t.b.repo(), gone.digest));
  CHECK(t.keys_of(t.b, "people") == 0);
  CHECK(fails_with(ErrorKind::kRefused, "was erased", [&] { t.text(t.b, gone); }) == "");
}

TEST_CASE("bug: an erasure destroyed versions that were made later, or by somebody who did not know of it") {
  for (const bool encrypted : {true, false}) {
    CAPTURE(encrypted);
    Encrypted t(encrypted);
    const Version gone = t.add(t.a, "data/p", "somebody");
    t.push(t.a);
    t.fetch(t.b);
    erase(t.a.repo(), plan_erasure(t.a.repo(), "people"));
    const Version beside = t.add(t.b, "data/p", "somebody else");  // under the key that a has just shredded
    t.push(t.a);
    t.fetch(t.b);
    CHECK(erasure_of(t.b.repo(), gone.digest));
    CHECK_FALSE(erasure_of(t.b.repo(), beside.digest));
    CHECK(t.text(t.b, beside) == "somebody else");
    if (encrypted) CHECK(t.keys_of(t.b, "people") == 1);  // a new one
    t.gc(t.b);
    t.b.close();
    Encrypted::open(t.b);
    CHECK(t.text(t.b, beside) == "somebody else");
    const Version later = t.add(t.b, "data/p", "later");
    t.push(t.b);
    t.fetch(t.a);
    CHECK(t.text(t.a, beside) == "somebody else");
    CHECK(t.text(t.a, later) == "later");
    CHECK(fails_with(ErrorKind::kRefused, "was erased", [&] { t.text(t.a, gone); }) == "");
  }
}

TEST_CASE("bug: after an erasure pushing new data of the domain sent nothing, and heads named absent content") {
  Encrypted t(false);
  t.add(t.a, "data/p", "somebody");
  t.push(t.a);
  erase(t.a.repo(), plan_erasure(t.a.repo(), "people"));
  t.push(t.a);
  const Version fresh = t.add(t.a, "data/p", "new data");
  CHECK(push_dry_run(t.a.repo(), t.origin).operations == 1);
  const SyncResult pushed = push(t.a.repo(), t.origin, t.quiet);
  CHECK(pushed.objects >= 3);
  t.fetch(t.b);
  CHECK(t.text(t.b, fresh) == "new data");
}

TEST_CASE("bug: an erasure of 'main' by one took everything of everybody") {
  Encrypted t(true);
  const Version kept = t.add(t.a, "data/x", "everything");
  t.push(t.a);
  t.fetch(t.b);
  erase(t.a.repo(), plan_erasure(t.a.repo(), "main"));
  CHECK(erasure_of(t.a.repo(), kept.digest));
  t.push(t.a);
  t.fetch(t.b);
  CHECK_FALSE(erasure_of(t.b.repo(), kept.digest));
  CHECK(t.text(t.b, kept) == "everything");
  t.gc(t.b);
  CHECK(t.text(t.b, kept) == "everything");
  erase(t.b.repo(), plan_erasure(t.b.repo(), "main"));  // a command of its own
  CHECK(erasure_of(t.b.repo(), kept.digest));
  CHECK(t.keys_of(t.b, "main") == 0);
}

TEST_CASE("bug: an erasure with a wrong clock destroyed what it does not name, or spared what it does") {
  for (const std::int64_t time : {std::int64_t{1}, kMostTime - 1}) {
    Encrypted t(true);
    const Version named = t.add(t.a, "data/p", "named"), spared = t.add(t.a, "data/p", "spared");
    Operation operation;
    operation.kind = "key.erase";
    operation.actor = t.a.repo().actor();
    operation.parents = t.a.repo().heads();
    operation.time = time;
    operation.body = canonical(
        Json{{"domain", "people"}, {"keys", Json::array()}, {"versions", Json::array({named.digest.text()})}});
    t.a.repo().merge({signed_by(t.a.repo(), operation)});
    CHECK(erasure_of(t.a.repo(), named.digest));
    CHECK_FALSE(erasure_of(t.a.repo(), spared.digest));
    const Version later = t.add(t.a, "data/p", "later");
    CHECK_FALSE(erasure_of(t.a.repo(), later.digest));
    CHECK(t.text(t.a, later) == "later");
  }
}

TEST_CASE("bug: an erasure of one domain destroyed keys of another") {
  Encrypted t(true);
  const Version kept = t.add(t.a, "data/x", "main's");
  Json keys = Json::array();
  for (const store::DataKey& key : t.a.repo().keys().file().keys) keys.push_back(key.id);
  t.a.repo().record("key.erase", {{"domain", "people"}, {"keys", keys}, {"versions", Json::array()}});
  t.a.close();
  Encrypted::open(t.a);
  CHECK(t.keys_of(t.a, "people") == 0);
  CHECK(t.keys_of(t.a, "main") == 1);
  CHECK(t.keys_of(t.a, "history") == 1);
  CHECK(t.text(t.a, kept) == "main's");
}

TEST_CASE("bug: push --repair left a poisoned chunk list in an encrypted remote, where only members can see it") {
  Encrypted t(false);
  const auto random = [](unsigned seed) {
    std::mt19937 generator(seed);
    std::string text(300'000, ' ');
    for (char& c : text) c = static_cast<char>('0' + generator() % 64);
    return text;
  };
  const Version version = t.add(t.a, "data/p", random(1));
  const Digest file = t.a.repo().store().entries(version.digest).at(0).content;
  {
    const std::string other = random(2).substr(0, 100'000);
    const store::ChunkList lie{.size = other.size(), .items = {{Digest::of(other), other.size()}}};
    std::map<store::ObjectKey, store::StoredObject> objects;
    const auto put = [&](store::ObjectKind kind, const Digest& id, ByteView bytes) {
      objects.emplace(store::ObjectKey{id, kind}, store::Codec().encode({id, kind}, id, bytes));
    };
    put(store::ObjectKind::kChunk, Digest::of(other), as_bytes(other));
    put(store::ObjectKind::kChunkList, file, store::encode_chunk_list(lie));
    std::vector<store::ObjectKey> keys;
    for (const auto& [key, object] : objects) keys.push_back(key);
    const auto remote = open_remote(t.a.repo(), t.origin, Direction::kPush);
    store::as_encrypted(*remote)->set_domain("people");
    remote->send(
        keys, [&](const store::ObjectKey& key) { return objects.at(key); }, t.quiet);
  }
  t.push(t.a);
  CHECK(fails_with(ErrorKind::kCorrupt, "", [&] { t.fetch(t.b); }) == "");
  registry::push(t.a.repo(), t.origin, t.quiet, true);
  t.fetch(t.b);
  CHECK(t.text(t.b, version) == random(1));
  CHECK(registry::push(t.a.repo(), t.origin, t.quiet, true).set_aside.empty());  // once
}

TEST_CASE("bug: a clone's keys were in one file, and a flipped bit lost everything encrypted") {
  Encrypted t(true);
  const Version version = t.add(t.a, "data/p", "somebody");
  const std::string first = t.a.path(".mlx/keys"), copy = first + ".copy", whole = read_text(first);
  REQUIRE(read_text(copy) == whole);
  struct stat status {};
  REQUIRE(::stat(copy.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  std::string flipped = whole;
  flipped[400] = static_cast<char>(~flipped[400]);
  for (const std::string& damaged : {first, copy}) {
    for (const std::string& text : {flipped, whole.substr(0, 100), std::string()}) {
      CAPTURE(damaged);
      t.a.close();
      write_file_atomically(damaged, text);
      Encrypted::open(t.a);
      CHECK(t.a.repo().keys().is_half());
      CHECK(t.text(t.a, version) == "somebody");  // whoever unlocks them mends them
      CHECK(read_text(damaged) == whole);
      remove_tree(damaged);
      CHECK(t.a.repo().keys().exist());
      CHECK(t.a.repo().keys().mend());
      CHECK(read_text(damaged) == whole);
      CHECK_FALSE(t.a.repo().keys().mend());
    }
  }
  // One that an earlier version wrote, alone and without its check.
  const Bytes content = *store::without_check(as_bytes(whole));
  remove_tree(copy);
  write_file_atomically(first, std::string(as_text(content)));
  t.a.close();
  Encrypted::open(t.a);
  CHECK(t.text(t.a, version) == "somebody");
  CHECK(read_text(copy) == whole);
  // An erasure takes them out of a copy that a killed process has left as it was, too.
  erase(t.a.repo(), plan_erasure(t.a.repo(), "people"));
  const std::string erased = read_text(first);
  write_file_atomically(copy, whole);
  t.a.close();
  Encrypted::open(t.a);
  (void)t.a.repo().db();
  CHECK(read_text(copy) == erased);
  for (const std::string& path : {first, copy}) write_file_atomically(path, flipped);
  CHECK(fails_with(ErrorKind::kCorrupt, "and so is its copy", [&] { (void)t.a.repo().keys().file(); }) == "");
}
