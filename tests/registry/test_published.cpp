// What may become the heads of a remote: nothing that names what is not there.
#include <doctest/doctest.h>

#include "base/fd.h"
#include "base/json.h"
#include "clone.h"
#include "fails_with.h"
#include "registry/maintenance/gc.h"
#include "registry/operations/history.h"
#include "registry/record/lost.h"
#include "registry/sync/claims.h"
#include "registry/sync/published_heads.h"
#include "registry/sync/sync.h"
#include "store/crypto/keys.h"
#include "store/remote/folder_remote.h"
#include "store/remote/transfer.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;
using store::ObjectKind;
using store::ObjectRef;

namespace {

struct Pushed {
  TempFolder folder;
  RemoteConfig origin{"origin", join_path(folder.path(), "origin")};
  Clone clone;
  NoProgress quiet;
  std::vector<Digest> before;
  bool repair = false, server = false;

  Pushed() {
    make(clone.repo(), "clf", "first");
    registry::push(clone.repo(), origin, quiet);
    before = open()->heads();
  }
  std::unique_ptr<store::Remote> open() {
    store::RemoteOptions options;
    options.create = true;
    const auto check = server ? (repair ? judge_published : judge_pushed) : repair ? check_published : check_pushed;
    options.check_heads = [check](const store::Store& store, const auto& was, const auto& heads) {
      check(store, was, heads, known_kinds());
    };
    return store::open_remote(origin.url, options, *clone.disk, clone.pool);
  }
  std::vector<ObjectRef> operations() {
    const auto batch = clone.repo().store().begin();
    std::vector<ObjectRef> refs;
    for (const Operation& operation : clone.repo().operations())
      refs.emplace_back(ObjectKind::kOperation, batch->add(ObjectKind::kOperation, encode(operation)));
    batch->commit();
    return refs;
  }
  std::vector<ObjectRef> content(const Digest& manifest) {
    std::vector<ObjectRef> refs;
    clone.repo().store().visit_reachable_manifest(
        manifest, [&](ObjectKind kind, const Digest& id) { refs.emplace_back(kind, id); });
    return refs;
  }
  void send(const std::vector<ObjectRef>& objects) {
    store::send_objects(clone.repo().store(), *open(), objects, quiet);
  }
  // A version that was taken back before its content was sent, and published so: its manifest.
  Digest take_back_unsent() {
    const Digest manifest = make(clone.repo(), "clf", "second").digest;
    undo(clone.repo(), "", false);
    send(operations());
    REQUIRE(open()->publish_heads(before, clone.repo().heads()));
    before = clone.repo().heads();
    return manifest;
  }
  // Signed, behind what is there, and sent.
  Digest sent(const std::string& kind, const Json& body, const std::vector<Digest>& parents) {
    Operation made;
    made.kind = kind;
    made.time = clone.repo().operations().back().time;
    made.parents = parents;
    made.body = canonical(body);
    made = signed_by(clone.repo(), made);
    const auto batch = clone.repo().store().begin();
    batch->add(ObjectKind::kOperation, encode(made));
    batch->commit();
    send({{ObjectKind::kOperation, made.id}});
    return made.id;
  }
  Digest sent(const std::string& kind, const Json& body) { return sent(kind, body, before); }
  std::string refused(const std::string& words, const std::vector<Digest>& heads) {
    const std::string problem =
        fails_with(ErrorKind::kRefused, words, [&] { (void)open()->publish_heads(before, heads); });
    if (open()->heads() != before) return "the heads changed";
    return problem;
  }
};

}  // namespace

TEST_CASE("bug: heads are published only if they and all their ancestors are there") {
  Pushed t;
  CHECK(t.refused("is missing", {Digest::of("nothing")}) == "");
  CHECK(t.refused("there are none", {}) == "");
  make(t.clone.repo(), "clf", "second");
  move_alias(t.clone.repo(), "best", versions(t.clone.repo(), "clf").back());
  const std::vector<ObjectRef> operations = t.operations();
  const std::vector<Digest> heads = t.clone.repo().heads();
  // The head without the operation before it.
  t.send({{ObjectKind::kOperation, heads[0]}});
  CHECK(t.refused("is missing", heads) == "");
  t.send(operations);
  CHECK(t.refused("version", heads) == "");
  registry::push(t.clone.repo(), t.origin, t.quiet);
  CHECK(t.open()->heads() == heads);
}

TEST_CASE("bug: heads are published only with what they name, down to the last chunk") {
  Pushed t;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i);
  const Digest manifest = make(t.clone.repo(), "clf", text).digest;
  t.send(t.operations());
  const std::vector<Digest> heads = t.clone.repo().heads();
  std::vector<ObjectRef> content = t.content(manifest);
  REQUIRE(content.size() > 5);
  t.send({content[0]});
  CHECK(t.refused("is incomplete", heads) == "");
  t.send({content[0], content[1]});
  CHECK(t.refused("is incomplete", heads) == "");
  const ObjectRef last = content.back();
  REQUIRE(last.first == ObjectKind::kChunk);
  std::erase_if(content, [&](const ObjectRef& object) { return object == last || object.first != ObjectKind::kChunk; });
  t.send(content);
  CHECK(t.refused("is incomplete", heads) == "");
  t.send(t.content(manifest));
  CHECK(t.open()->publish_heads(t.before, heads));
}

TEST_CASE("an earlier loss keeps nobody from pushing") {
  Pushed t;
  const std::string packs = join_path(t.origin.url, "packs");
  for (const std::string& name : list_folder(packs)) {
    if (name.ends_with(".pack")) remove_tree(join_path(packs, name));
  }
  make(t.clone.repo(), "clf", "second");
  registry::push(t.clone.repo(), t.origin, t.quiet);
  CHECK(t.open()->heads() == t.clone.repo().heads());
}

TEST_CASE("undone content may be absent, restored content must be present") {
  Pushed t;
  const Digest manifest = t.take_back_unsent();
  undo(t.clone.repo(), "", true);
  t.send(t.operations());
  CHECK(t.refused("version", t.clone.repo().heads()) == "");
  t.send(t.content(manifest));
  CHECK(t.open()->publish_heads(t.before, t.clone.repo().heads()));
}

TEST_CASE("bug: a version that was undone before it was sent vouched for its file lists") {
  Pushed t;
  const Digest manifest = t.take_back_unsent();
  // Made again, with its lists of files and nothing that they name.
  std::vector<ObjectRef> lists = t.content(manifest);
  std::erase_if(lists, [](const ObjectRef& object) {
    return object.first != ObjectKind::kManifest && object.first != ObjectKind::kShard;
  });
  make(t.clone.repo(), "clf", "second");
  t.send(t.operations());
  t.send(lists);
  CHECK(t.refused("is incomplete", t.clone.repo().heads()) == "");
  registry::push(t.clone.repo(), t.origin, t.quiet);
}

TEST_CASE("bug: an erasure of everything excused content that was never sent") {
  Pushed t;
  const Digest manifest = make(t.clone.repo(), "clf", "second").digest;
  t.clone.repo().record(
      "key.erase",
      parse_json(fmt::format(R"({{"domain":"main","keys":[7],"versions":["{}"]}})", manifest.text()), "erasure"));
  t.send(t.operations());
  CHECK(t.refused("is missing", t.clone.repo().heads()) == "");
}

TEST_CASE("bug: once the content of one version was lost everywhere, nobody could push again") {
  Pushed t;
  const Digest lost = make(t.clone.repo(), "clf", "second").digest;
  record_lost(t.clone.repo(), {lost});
  t.send(t.operations());
  CHECK(t.open()->publish_heads(t.before, t.clone.repo().heads()));
  t.before = t.open()->heads();
  SUBCASE("only what was given up is excused") {
    make(t.clone.repo(), "clf", "third");
    t.send(t.operations());
    CHECK(t.refused("is missing", t.clone.repo().heads()) == "");
  }
  SUBCASE("nor does it vouch for its lists of files") {
    std::vector<ObjectRef> lists = t.content(lost);
    std::erase_if(lists, [](const ObjectRef& object) {
      return object.first != ObjectKind::kManifest && object.first != ObjectKind::kShard;
    });
    t.send(lists);
    make(t.clone.repo(), "another", "second");  // the same files
    t.send(t.operations());
    CHECK(t.refused("is incomplete", t.clone.repo().heads()) == "");
  }
  SUBCASE("what is made again is lost no longer") {
    CHECK(lost_versions(t.clone.repo()).contains(lost));
    make(t.clone.repo(), "another", "second");
    CHECK_FALSE(lost_versions(t.clone.repo()).contains(lost));
  }
}

TEST_CASE("bug: operations with invalid signatures were published") {
  Pushed t;
  Operation forged = t.clone.repo().operations().back();
  forged.parents = t.before;
  SUBCASE("signed with nothing") {
    forged.signature = {};
  }
  SUBCASE("not signed, behind one that is") {
    forged.signer = {};
    forged.signature = {};
  }
  const auto batch = t.clone.repo().store().begin();
  forged.id = batch->add(ObjectKind::kOperation, encode(forged));
  batch->commit();
  t.send({{ObjectKind::kOperation, forged.id}});
  CHECK(t.refused("sign", {forged.id}) == "");
}

TEST_CASE("bug: a pusher could leave out heads, and a gc of the remote removed their content") {
  Pushed t;
  const std::vector<Digest> older = t.before;
  const Digest manifest = make(t.clone.repo(), "clf", "second").digest;
  registry::push(t.clone.repo(), t.origin, t.quiet);
  t.before = t.open()->heads();
  CHECK(t.refused("leave out", older) == "");
  t.repair = true;
  REQUIRE(t.open()->publish_heads(t.before, older));
  store::GcOptions options;
  options.remove = true;
  options.grace_seconds = 0;
  const auto collect = [&] { (void)collect_garbage_of(t.clone.repo(), t.origin, options, t.quiet); };
  CHECK(fails_with(ErrorKind::kConflict, "went back", collect) == "");
  t.clone.repo().store().reload();
  CHECK(store::local_store(*t.open())->has(ObjectKind::kManifest, manifest));
  registry::push(t.clone.repo(), t.origin, t.quiet);
  collect();
  CHECK(store::local_store(*t.open())->has(ObjectKind::kManifest, manifest));
}

TEST_CASE("bug: an operation that cannot be applied blocked a remote, and a repair did not leave it out") {
  Pushed t;
  Operation poison;
  poison.kind = "tag.create";
  poison.actor = t.clone.repo().operations().back().actor;
  poison.time = t.clone.repo().operations().back().time;
  poison.parents = t.before;
  poison.body =
      canonical(Json{{"tag", "latest"}, {"artifact", "clf"}, {"digest", t.clone.repo().heads().front().text()}});
  poison = signed_by(t.clone.repo(), poison);
  const auto batch = t.clone.repo().store().begin();
  batch->add(ObjectKind::kOperation, encode(poison));
  batch->commit();
  t.send({{ObjectKind::kOperation, poison.id}});
  REQUIRE(t.open()->publish_heads(t.before, {poison.id}));

  Clone other;
  const auto get = [&] { (void)registry::fetch(other.repo(), t.origin, {FetchContent::kEverything}, t.quiet); };
  CHECK(fails_with(ErrorKind::kCorrupt, "push --repair", get) == "");
  registry::push(t.clone.repo(), t.origin, t.quiet, true);
  CHECK(t.open()->heads() == t.before);
  get();
  CHECK(versions(other.repo(), "clf").size() == 1);
}

TEST_CASE("bug: a server published operations that no clone could apply") {
  Pushed t;
  t.server = true;
  const std::string there = versions(t.clone.repo(), "clf").front().digest.text(), nowhere = Digest::of("no").text();
  const auto applied = [&](const std::string& kind, const Json& body) {
    return t.refused("no clone could apply", {t.sent(kind, body)});
  };
  CHECK(applied("demon.summon", Json::object()) == "");
  CHECK(applied("tag.create", Json::object()) == "");
  CHECK(applied("tag.create", {{"tag", "latest"}, {"artifact", "clf"}, {"digest", there}}) == "");
  CHECK(applied("tag.create", {{"tag", "a"}, {"artifact", "clf"}, {"digest", nowhere}}) == "");
  CHECK(applied("operation.undo", {{"operation", nowhere}}) == "");
  CHECK(applied("domain.assign", {{"artifact", "../x"}, {"domain", "d"}}) == "");
  CHECK(applied("run.checkpoint", {{"run", "ffffffffffffffff"}, {"step", 1}, {"manifest", there}, {"best", true}}) ==
        "");
  const Digest tag = t.sent("tag.create", {{"tag", "a"}, {"artifact", "clf"}, {"digest", there}});
  REQUIRE(t.open()->publish_heads(t.before, {tag}));
  CHECK(journal_size(join_path(t.origin.url, "history.db")) > 0);
}

TEST_CASE("bug: a server published false figures about a version") {
  Pushed t;
  t.server = true;
  const store::ManifestSummary made = tree(t.clone.repo(), "second");
  t.send(t.content(made.id));
  const auto version = [&](std::uint64_t files, std::uint64_t bytes) {
    return t.sent("version.create", {{"artifact", "clf"},
                                     {"kind", "model"},
                                     {"digest", made.id.text()},
                                     {"number", 2},
                                     {"files", files},
                                     {"bytes", bytes},
                                     {"message", ""},
                                     {"run", ""},
                                     {"parent", nullptr}});
  };
  CHECK(t.refused("claims that the version has", {version(7, made.bytes)}) == "");
  CHECK(t.refused("claims that the version has", {version(1, 5)}) == "");
  CHECK(t.open()->publish_heads(t.before, {version(1, made.bytes)}));
}

TEST_CASE("bug: a server published missing attachments") {
  Pushed t;
  t.server = true;
  const std::string version = versions(t.clone.repo(), "clf").front().digest.text();
  CHECK(t.refused("attachment", {t.sent("attach", {{"version", version},
                                                   {"kind", "card"},
                                                   {"name", "card"},
                                                   {"blob", Digest::of("absent").text()}})}) == "");
  CHECK(t.refused("attachment", {t.sent("actor.describe", {{"blob", Digest::of("absent").text()}})}) == "");
}

TEST_CASE("bug: on a server an erasure excused versions that it does not erase") {
  Pushed t;
  t.server = true;
  const Digest manifest = make(t.clone.repo(), "clf", "second").digest;
  const auto second = t.clone.repo().operations().back();
  const auto erasure = [&](const std::string& domain, const std::vector<Digest>& behind) {
    return t.sent("key.erase", {{"domain", domain}, {"keys", {7}}, {"versions", {manifest.text()}}}, behind);
  };
  const auto version = [&](const Digest& behind) {
    return t.sent("version.create", parse_json(second.body, "version"), {behind});
  };
  SUBCASE("of the future") {
    const Digest assigned = t.sent("domain.assign", {{"artifact", "clf"}, {"domain", "d"}});
    CHECK(t.refused("version", {version(erasure("d", {assigned}))}) == "");
  }
  SUBCASE("of another domain") {
    CHECK(t.refused("version", {erasure("d", {version(t.before[0])})}) == "");
  }
  SUBCASE("which somebody takes out of the domain before it was erased") {
    const Digest made = version(t.sent("domain.assign", {{"artifact", "clf"}, {"domain", "d"}}));
    const Digest erased = erasure("d", {made});
    REQUIRE(t.open()->publish_heads(t.before, {erased}));
    const Digest begun = t.before[0];
    t.before = {erased};
    // Concurrent with the erasure; the longer way puts it behind what assigned the domain.
    Digest moved = t.sent("domain.assign", {{"artifact", "clf"}, {"domain", "e"}}, {begun});
    moved = t.sent("domain.assign", {{"artifact", "clf"}, {"domain", "e"}}, {moved});
    CHECK(t.refused("version", {erased, moved}) == "");
  }
}

TEST_CASE("bug: a server published a second, unrelated history") {
  Pushed t;
  t.server = true;
  const Digest apart = t.sent("domain.assign", {{"artifact", "z"}, {"domain", "d"}}, {});
  CHECK(t.refused("nothing in common", {t.before[0], apart}) == "");
  const Digest joined = t.sent("history.join", {{"roots", {apart.text()}}}, [&] {
    std::vector<Digest> parents = {t.before[0], apart};
    std::ranges::sort(parents);
    return parents;
  }());
  CHECK(t.open()->publish_heads(t.before, {joined}));
}

TEST_CASE("bug: a server published absent content that an undo no longer excused") {
  Pushed t;
  t.server = true;
  const Digest manifest = t.take_back_unsent();
  const Operation made = [&] {
    for (const Operation& operation : t.clone.repo().operations())
      if (operation.kind == "version.create" && operation.body.find(manifest.text()) != std::string::npos)
        return operation;
    return Operation();
  }();
  // Somebody who knew the version and not that it was taken back.
  const Digest tag = t.sent("tag.create", {{"tag", "a"}, {"artifact", "clf"}, {"digest", manifest.text()}}, {made.id});
  std::vector<Digest> heads = t.before;
  heads.push_back(tag);
  CHECK(t.refused("version", heads) == "");
  t.send(t.content(manifest));
  CHECK(t.open()->publish_heads(t.before, heads));
}

TEST_CASE("a server's cache is optional, and it sees what a push into the folder brought meanwhile") {
  Pushed t;
  t.server = true;
  const auto push_one = [&](const std::string& name, bool at_server) {
    const Digest tag =
        t.sent("tag.create",
               {{"tag", name}, {"artifact", "clf"}, {"digest", versions(t.clone.repo(), "clf").front().digest.text()}});
    t.server = at_server;
    REQUIRE(t.open()->publish_heads(t.before, {tag}));
    t.before = {tag};
    t.server = true;
  };
  push_one("a", true);
  push_one("b", false);
  push_one("c", true);
  write_file_atomically(join_path(t.origin.url, "history.db"), "damaged");
  push_one("d", true);
  remove_tree(join_path(t.origin.url, "history.db"));
  push_one("e", true);
  CHECK(t.refused("no clone could apply", {t.sent("tag.create", {{"tag", "v1"}})}) == "");
}

TEST_CASE("bug: a fetch that brought no content recorded false figures of a version, and nobody could clone again") {
  Pushed t;
  Clone other("other", "");
  other.home = other.folder.path();
  other.open();
  const auto fetch_into = [&](Clone& clone) { (void)registry::fetch(clone.repo(), t.origin, {}, t.quiet); };
  fetch_into(other);
  const store::ManifestSummary made = tree(t.clone.repo(), "second");
  t.send(t.content(made.id));
  const Json said = {{"artifact", "clf"}, {"kind", "model"}, {"digest", made.id.text()},
                     {"number", 2},       {"files", 7},      {"bytes", 5},
                     {"message", ""},     {"run", ""},       {"parent", nullptr}};
  const Digest lie = t.sent("version.create", said);
  REQUIRE(t.open()->publish_heads(t.before, {lie}));
  CHECK(fails_with(ErrorKind::kRefused, "claims that the version has", [&] { fetch_into(other); }) == "");
  CHECK(!is_recorded(other.repo().db(), lie));

  // What one has recorded all the same is put right by its repair; others then take it in.
  const Operation operation = decode(t.clone.repo().store().read(ObjectKind::kOperation, lie));
  other.repo().merge({operation});
  registry::push(other.repo(), t.origin, t.quiet, true);
  const std::vector<Digest> right = other.repo().heads();
  CHECK(t.open()->heads() == right);
  CHECK(right != std::vector<Digest>{lie});
  registry::push(other.repo(), t.origin, t.quiet, true);
  CHECK(other.repo().heads() == right);
  Clone fresh;
  (void)registry::fetch(fresh.repo(), t.origin, {FetchContent::kEverything}, t.quiet);
  CHECK(is_recorded(fresh.repo().db(), lie));
  CHECK(false_claims(fresh.repo()).empty());
  CHECK(false_claims_of(fresh.repo(), fresh.repo().store().summarize(made.id)).size() == 1);
}
