// Push and fetch between clones through a folder remote.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/fd.h"
#include "fails_with.h"
#include "history_maker.h"
#include "registry/maintenance/check_metadata.h"
#include "registry/maintenance/gc.h"
#include "registry/maintenance/rebuild.h"
#include "registry/sync/numbers.h"
#include "registry/sync/open_repository.h"
#include "registry/sync/repair_remote.h"
#include "registry/sync/sync.h"
#include "registry/versions/references.h"
#include "store/remote/transfer.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

struct Team {
  TempFolder folder;
  RemoteConfig origin{"origin", join_path(folder.path(), "origin")};
  Clone a, b;
  NoProgress quiet;

  SyncResult push(Clone& c) { return registry::push(c.repo(), origin, quiet); }
  SyncResult fetch(Clone& c, bool everything = true) {
    FetchOptions options{everything ? FetchContent::kEverything : FetchContent::kPointers};
    options.allow_unrelated = true;  // these clones begin apart
    const SyncResult result = registry::fetch(c.repo(), origin, options, quiet);
    c.repo().store().reload();
    return result;
  }
};

bool holds(Clone& c, const Digest& manifest) {
  store::Store& store = c.repo().store();
  if (!store.has(store::ObjectKind::kManifest, manifest)) return false;
  bool whole = true;
  store.visit_reachable_manifest(
      manifest, [&](store::ObjectKind kind, const Digest& id) { whole = whole && store.has(kind, id); });
  return whole;
}

}  // namespace

TEST_CASE("a fetch brings what another clone pushed: operations, content, metrics, attachments") {
  Team t;
  HistoryMaker(21).make(t.a.repo(), 30);
  const SyncResult pushed = t.push(t.a);
  CHECK(pushed.operations == t.a.repo().operations().size());
  CHECK(pushed.objects > 0);
  const SyncResult fetched = t.fetch(t.b);
  CHECK(fetched.operations == pushed.operations);
  CHECK(dump(t.b.repo()) == dump(t.a.repo()));
  for (const Version& version : versions(t.b.repo())) {
    CHECK(holds(t.b, version.digest));
    for (const Attachment& attachment : attachments(t.b.repo(), version.digest))
      CHECK(t.b.repo().store().has_blob(attachment.blob));
  }
  SUBCASE("again: nothing moves") {
    CHECK(t.push(t.a).operations == 0);
    CHECK(t.push(t.b).objects == 0);
    const SyncResult again = t.fetch(t.b);
    CHECK(again.operations == 0);
    CHECK(again.objects == 0);
  }
  SUBCASE("and meta.db of the other clone comes back without the remote") {
    t.b.close();
    for (const char* suffix : {"", "-wal", "-shm"}) remove_tree(t.b.path(std::string(".mlx/meta.db") + suffix));
    rebuild_database(t.b.root, *t.b.disk, t.b.pool, t.quiet);
    t.b.open();
    CHECK(dump(t.b.repo()) == dump(t.a.repo()));
  }
  SUBCASE("a third clone gets all from the second's remote") {
    const RemoteConfig second{"second", join_path(t.folder.path(), "second")};
    registry::push(t.b.repo(), second, t.quiet);
    Clone c;
    registry::fetch(c.repo(), second, {FetchContent::kEverything}, t.quiet);
    CHECK(dump(c.repo()) == dump(t.a.repo()));
  }
}

TEST_CASE("bug: a push did not find what another process had committed since it started") {
  Team t;
  make(t.a.repo(), "clf", "one");
  (void)t.a.repo().store().stat();  // it sees what is there now
  Repository other = open_repository(t.a.root, *t.a.disk, t.a.pool);
  const Version second = make(other, "clf", "two");
  CHECK(t.push(t.a).operations == 2);
  t.fetch(t.b);
  CHECK(holds(t.b, second.digest));
}

TEST_CASE("bug: after the history was lost another one was started, and the first was refused as unrelated") {
  const TempFolder ben_home;
  Team t;
  Clone ben("ben", ben_home.path());
  make(t.a.repo(), "clf", "one");
  t.push(t.a);
  CHECK(t.fetch(ben).met.size() == 1);
  const std::string before = dump(ben.repo());
  const auto lose_history = [](Clone& c) {
    c.close();
    for (const char* name : {"meta.db", "meta.db-wal", "meta.db-shm", "journal"})
      remove_tree(join_path(c.path(".mlx"), name));
    c.open();
  };
  const auto refuses = [&](Clone& c) {
    return fails_with(ErrorKind::kCorrupt, "`mlx pull` fetches", [&] { make(c.repo(), "clf", "two"); });
  };
  SUBCASE("it comes back with a fetch") {
    lose_history(ben);
    CHECK(refuses(ben) == "");
    CHECK(t.fetch(ben).operations == 1);
    CHECK(dump(ben.repo()) == before);
    make(ben.repo(), "clf", "two");
    CHECK(resolve(ben.repo(), "clf@v2").number == 2);
  }
  SUBCASE("and so does what stands in packs and needed it") {
    const RemoteConfig older{"older", join_path(t.folder.path(), "older")};
    std::filesystem::copy(t.origin.url, older.url, std::filesystem::copy_options::recursive);
    make(ben.repo(), "clf", "two");
    t.push(ben);
    const std::string both = dump(ben.repo());
    lose_history(ben);
    CHECK(refuses(ben) == "");
    CHECK(registry::fetch(ben.repo(), older, {FetchContent::kPointers}, t.quiet).operations == 1);
    CHECK(dump(ben.repo()) == both);
  }
  SUBCASE("it begins anew only where no remote is named that may have it") {
    Clone alone;
    (void)tree(alone.repo(), "something");
    lose_history(alone);
    add_remote(alone.root, t.origin);
    const auto rebuild = [&] {
      alone.close();
      rebuild_database(alone.root, *alone.disk, alone.pool, t.quiet);
      alone.open();
    };
    rebuild();
    CHECK(refuses(alone) == "");
    remove_remote(alone.root, "origin");
    rebuild();
    make(alone.repo(), "clf", "two");
    CHECK(fails_with(ErrorKind::kCorrupt, "garbage cannot be identified",
                     [&] { (void)collect_garbage(alone.repo(), {.remove = true}, t.quiet); }) == "");
  }
}

TEST_CASE("bug: heads that a remote had lost were never written again, though clones know them") {
  std::vector<std::string> files;  // that were mended
  Team t;
  make(t.a.repo(), "clf", "one");
  t.push(t.a);
  CHECK_FALSE(mend_heads(t.a.repo(), t.origin, files));
  for (const char* name : {"heads", "heads.copy"}) remove_tree(join_path(t.origin.url, name));
  CHECK(fails_with(ErrorKind::kCorrupt, "push --repair", [&] { t.fetch(t.b); }) == "");
  const std::optional<MendedHeads> mended = mend_heads(t.a.repo(), t.origin, files);
  REQUIRE(mended);
  CHECK(mended->operations == 1);
  CHECK(mended->unknown == 0);
  CHECK(t.fetch(t.b).operations == 1);
  // Of what another clone pushed since, one that does not know it says so, and that clone's next push adds it.
  make(t.b.repo(), "clf", "two");
  t.push(t.b);
  for (const char* name : {"heads", "heads.copy"}) remove_tree(join_path(t.origin.url, name));
  CHECK(mend_heads(t.a.repo(), t.origin, files)->unknown == 1);
  CHECK(t.push(t.b).operations == 1);
  CHECK(t.fetch(t.a).operations == 1);
}

TEST_CASE("long files travel chunk by chunk" * doctest::test_suite("long")) {
  Team t;
  std::string text;
  for (int i = 0; text.size() < 3'000'000; ++i) text += std::to_string(i * 2654435761u) + " ";
  const Version version = make(t.a.repo(), "clf", text);
  t.push(t.a);
  t.fetch(t.b);
  CHECK(as_text(t.b.repo().store().read_blob(t.b.repo().store().entries(version.digest).at(0).content)) == text);
}

TEST_CASE("only what pointers name is fetched, until everything is asked for") {
  Team t;
  const Version one = make(t.a.repo(), "clf", "one"), two = make(t.a.repo(), "clf", "two");
  t.push(t.a);
  write_pointer(t.b.repo(),
                {.artifact = "clf", .kind = ArtifactKind::kModel, .digest = one.digest, .files = 1, .size = 3});
  t.fetch(t.b, false);
  CHECK(versions(t.b.repo()).size() == 2);
  CHECK(holds(t.b, one.digest));
  CHECK_FALSE(holds(t.b, two.digest));
  SUBCASE("a push from here needs nothing that it does not have") {
    move_alias(t.b.repo(), "best", resolve(t.b.repo(), "clf@v2"));
    CHECK(t.push(t.b).operations == 1);
  }
  SUBCASE("but a remote that lacks it can not be served from here") {
    const RemoteConfig empty{"empty", join_path(t.folder.path(), "empty")};
    CHECK(fails_with(ErrorKind::kNotFound, two.digest.brief(), [&] { push(t.b.repo(), empty, t.quiet); }) == "");
  }
  SUBCASE("everything") {
    t.fetch(t.b, true);
    CHECK(holds(t.b, two.digest));
  }
}

TEST_CASE("added data whose pointer is not committed as a version is pushed too") {
  Team t;
  const store::ManifestSummary data = tree(t.a.repo(), "images");
  const Pointer pointer{.artifact = "data/x", .kind = ArtifactKind::kDataset, .digest = data.id, .files = 1, .size = 6};
  write_pointer(t.a.repo(), pointer);
  t.push(t.a);
  write_pointer(t.b.repo(), pointer);
  t.fetch(t.b, false);
  CHECK(holds(t.b, data.id));
}

TEST_CASE("a pointer whose data exists nowhere is kNotFound") {
  Team t;
  make(t.a.repo(), "clf", "one");
  t.push(t.a);
  const Digest nowhere = Digest::of("nowhere");
  write_pointer(t.b.repo(),
                {.artifact = "data/x", .kind = ArtifactKind::kDataset, .digest = nowhere, .files = 1, .size = 6});
  CHECK(fails_with(ErrorKind::kNotFound, nowhere.brief(), [&] { t.fetch(t.b, false); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, nowhere.brief(), [&] { t.push(t.b); }) == "");
}

TEST_CASE("a push over operations that this clone does not have is refused until they are pulled") {
  Team t;
  make(t.a.repo(), "clf", "ours");
  t.push(t.a);
  make(t.b.repo(), "clf", "theirs");
  CHECK(fails_with(ErrorKind::kConflict, "mlx pull", [&] { t.push(t.b); }) == "");
  t.fetch(t.b);
  CHECK(fails_with(ErrorKind::kConflict, "--renumber", [&] { settle_numbers(t.b.repo(), false); }) == "");
  settle_numbers(t.b.repo(), true);
  t.push(t.b);
  t.fetch(t.a);
  settle_numbers(t.a.repo(), false);
  CHECK(resolve(t.a.repo(), "clf@v2").message == "made of theirs");
  CHECK(dump(t.a.repo()) == dump(t.b.repo()));
}

TEST_CASE("folders are relative to the root, and a missing remote is an error") {
  Team t;
  make(t.a.repo(), "clf", "one");
  push(t.a.repo(), {"near", "../near"}, t.quiet);
  CHECK(is_folder(join_path(parent_path(t.a.root), "near")));
  CHECK(fails_with(ErrorKind::kNotFound, "nothing-here", [&] {
          fetch(t.a.repo(), {"x", "../nothing-here"}, {}, t.quiet);
        }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "gopher", [&] { fetch(t.a.repo(), {"x", "gopher://x/y"}, {}, t.quiet); }) == "");
}

TEST_CASE("a remote that lies is detected, and nothing of it is kept") {
  Team t;
  make(t.a.repo(), "clf", "one");
  t.push(t.a);
  const std::string before = dump(t.b.repo());
  const auto remote = store::open_remote(t.origin.url, {}, *t.a.disk, t.a.pool);
  const std::vector<Digest> heads = remote->heads();
  const auto send_operation = [&](const Bytes& bytes) {
    const auto batch = t.a.repo().store().begin();
    const Digest id = batch->add(store::ObjectKind::kOperation, bytes);
    batch->commit();
    store::send_objects(t.a.repo().store(), *remote, {{store::ObjectKind::kOperation, id}}, t.quiet);
    return id;
  };
  Operation operation;
  operation.kind = "tag.create";
  operation.actor = "0123456789abcdef";
  operation.parents = heads;
  Digest head;
  std::string words;
  SUBCASE("bytes that are no operation") {
    head = send_operation(to_bytes("junk"));
    words = "";
  }
  SUBCASE("a parent that is nowhere") {
    operation.parents = {Digest::of("nowhere")};
    operation.body = "{}";
    head = send_operation(encode(signed_by(t.a.repo(), operation)));
    words = "history is incomplete";
  }
  SUBCASE("a body without its keys") {
    operation.body = R"({"artifact":"clf"})";
    head = send_operation(encode(signed_by(t.a.repo(), operation)));
    words = "'tag' is missing";
  }
  SUBCASE("a kind of the future") {
    operation.kind = "time.travel";
    operation.body = "{}";
    head = send_operation(encode(signed_by(t.a.repo(), operation)));
    words = "newer mlx";
  }
  SUBCASE("an artifact outside of the worktree") {
    operation.kind = "version.create";
    operation.body = R"({"artifact":"../../home","bytes":1,"digest":")" + Digest::of("x").text() +
                     R"(","files":1,"kind":"dataset","message":"","number":1,"parent":null,"run":""})";
    head = send_operation(encode(signed_by(t.a.repo(), operation)));
    words = "relative path";
  }
  REQUIRE(remote->publish_heads(heads, {head}));
  CHECK(fails_with(ErrorKind::kCorrupt, words, [&] { t.fetch(t.b); }) == "");
  CHECK(dump(t.b.repo()) == before);
  t.b.close();
  t.b.open();
  CHECK(dump(t.b.repo()) == before);
}

TEST_CASE("bug: claims about a version's files and bytes were never compared with the version") {
  Team t;
  make(t.a.repo(), "clf", "one");
  t.push(t.a);
  t.fetch(t.b);
  const std::size_t known = t.b.repo().operations().size();
  const store::ManifestSummary manifest = tree(t.a.repo(), "two");
  const auto claim = [&](const Digest& digest, std::uint64_t files, std::uint64_t bytes) {
    return t.a.repo().record("version.create", {{"artifact", "clf"},
                                                {"kind", "model"},
                                                {"digest", digest.text()},
                                                {"files", files},
                                                {"bytes", bytes},
                                                {"message", "two"},
                                                {"run", ""},
                                                {"parent", Json()},
                                                {"number", 2}});
  };
  const auto refused = [&](const Operation& lie) {
    const std::string signer = store::ssh_fingerprint(lie.signer);
    CHECK(fails_with(ErrorKind::kRefused, lie.id.brief(), [&] { t.fetch(t.b); }) == "");
    CHECK(fails_with(ErrorKind::kRefused, signer, [&] { t.fetch(t.b); }) == "");
    CHECK(fails_with(ErrorKind::kRefused, "it has 1 with 3", [&] { t.fetch(t.b); }) == "");
    CHECK(t.b.repo().operations().size() == known);
  };
  SUBCASE("of a version that comes with it") {
    const Operation lie = claim(manifest.id, manifest.files, 5'000'000'000);
    t.push(t.a);
    refused(lie);
    const MetadataCheck check = check_metadata(t.a.repo());
    REQUIRE(check.problems.size() == 1);
    CHECK(check.problems[0].find(lie.id.brief()) != std::string::npos);
    CHECK(check.problems[0].find("1 files with 5000000000 bytes, but it has 1 with 3") != std::string::npos);
  }
  SUBCASE("of one that is here already, by another name") {
    const Operation lie = claim(versions(t.b.repo()).front().digest, 7, 3);
    t.push(t.a);
    refused(lie);
  }
  SUBCASE("of one whose content is fetched later") {
    const Operation lie = claim(manifest.id, 9, manifest.bytes);
    t.push(t.a);
    CHECK(fails_with(ErrorKind::kRefused, lie.id.brief(), [&] { t.fetch(t.b, false); }) == "");
    refused(lie);
    CHECK_FALSE(t.b.repo().store().has(store::ObjectKind::kManifest, manifest.id));
  }
}
