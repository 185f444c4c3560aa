// What may become the heads of a remote: nothing that names what is not there.
#include <doctest/doctest.h>

#include "base/fd.h"
#include "base/json.h"
#include "clone.h"
#include "fails_with.h"
#include "registry/gc.h"
#include "registry/lost.h"
#include "registry/published_heads.h"
#include "registry/sync.h"
#include "store/keys.h"
#include "store/transfer.h"

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
  bool repair = false;

  Pushed() {
    make(clone.repo(), "clf", "first");
    registry::push(clone.repo(), origin, quiet);
    before = open()->heads();
  }
  std::unique_ptr<store::Remote> open() {
    store::RemoteOptions options;
    options.create = true;
    options.check_heads = repair ? check_published : check_pushed;
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
  std::string refused(const std::string& words, const std::vector<Digest>& heads) {
    const std::string problem =
        fails_with(ErrorKind::kRefused, words, [&] { (void)open()->publish_heads(before, heads); });
    if (open()->heads() != before) return "the heads changed";
    return problem;
  }
};

}  // namespace

TEST_CASE("bug: heads are published only where they and all before them are there") {
  Pushed t;
  CHECK(t.refused("is not there", {Digest::of("nothing")}) == "");
  CHECK(t.refused("there are none", {}) == "");
  make(t.clone.repo(), "clf", "second");
  move_alias(t.clone.repo(), "best", versions(t.clone.repo(), "clf").back());
  const std::vector<ObjectRef> operations = t.operations();
  const std::vector<Digest> heads = t.clone.repo().heads();
  // The head without the operation before it.
  t.send({{ObjectKind::kOperation, heads[0]}});
  CHECK(t.refused("is not there", heads) == "");
  t.send(operations);
  CHECK(t.refused("version", heads) == "");
  registry::push(t.clone.repo(), t.origin, t.quiet);
  CHECK(t.open()->heads() == heads);
}

TEST_CASE("bug: heads are published only with what they name, as far as the last chunk") {
  Pushed t;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i);
  const Digest manifest = make(t.clone.repo(), "clf", text).digest;
  t.send(t.operations());
  const std::vector<Digest> heads = t.clone.repo().heads();
  std::vector<ObjectRef> content = t.content(manifest);
  REQUIRE(content.size() > 5);
  t.send({content[0]});
  CHECK(t.refused("not whole", heads) == "");
  t.send({content[0], content[1]});
  CHECK(t.refused("not whole", heads) == "");
  const ObjectRef last = content.back();
  REQUIRE(last.first == ObjectKind::kChunk);
  std::erase_if(content, [&](const ObjectRef& object) { return object == last || object.first != ObjectKind::kChunk; });
  t.send(content);
  CHECK(t.refused("not whole", heads) == "");
  t.send(t.content(manifest));
  CHECK(t.open()->publish_heads(t.before, heads));
}

TEST_CASE("what was lost before keeps nobody from pushing") {
  Pushed t;
  const std::string packs = join_path(t.origin.url, "packs");
  for (const std::string& name : list_folder(packs)) {
    if (name.ends_with(".pack")) remove_tree(join_path(packs, name));
  }
  make(t.clone.repo(), "clf", "second");
  registry::push(t.clone.repo(), t.origin, t.quiet);
  CHECK(t.open()->heads() == t.clone.repo().heads());
}

TEST_CASE("what was taken back need not be there, and has to where it is brought back") {
  Pushed t;
  const Digest manifest = t.take_back_unsent();
  undo(t.clone.repo(), "", true);
  t.send(t.operations());
  CHECK(t.refused("version", t.clone.repo().heads()) == "");
  t.send(t.content(manifest));
  CHECK(t.open()->publish_heads(t.before, t.clone.repo().heads()));
}

TEST_CASE("bug: a version that was taken back before it was sent vouched for its lists of files") {
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
  CHECK(t.refused("not whole", t.clone.repo().heads()) == "");
  registry::push(t.clone.repo(), t.origin, t.quiet);
}

TEST_CASE("bug: an erasure of everything excused content that was never sent") {
  Pushed t;
  const Digest manifest = make(t.clone.repo(), "clf", "second").digest;
  t.clone.repo().record(
      "key.erase",
      parse_json(fmt::format(R"({{"domain":"main","keys":[7],"versions":["{}"]}})", manifest.text()), "erasure"));
  t.send(t.operations());
  CHECK(t.refused("is not there", t.clone.repo().heads()) == "");
}

TEST_CASE("bug: where the content of one version was nowhere any more nobody could ever push again") {
  Pushed t;
  const Digest lost = make(t.clone.repo(), "clf", "second").digest;
  record_lost(t.clone.repo(), {lost});
  t.send(t.operations());
  CHECK(t.open()->publish_heads(t.before, t.clone.repo().heads()));
  t.before = t.open()->heads();
  SUBCASE("only what was given up is excused") {
    make(t.clone.repo(), "clf", "third");
    t.send(t.operations());
    CHECK(t.refused("is not there", t.clone.repo().heads()) == "");
  }
  SUBCASE("nor does it vouch for its lists of files") {
    std::vector<ObjectRef> lists = t.content(lost);
    std::erase_if(lists, [](const ObjectRef& object) {
      return object.first != ObjectKind::kManifest && object.first != ObjectKind::kShard;
    });
    t.send(lists);
    make(t.clone.repo(), "another", "second");  // the same files
    t.send(t.operations());
    CHECK(t.refused("not whole", t.clone.repo().heads()) == "");
  }
  SUBCASE("what is made again is lost no longer") {
    CHECK(lost_versions(t.clone.repo()).contains(lost));
    make(t.clone.repo(), "another", "second");
    CHECK_FALSE(lost_versions(t.clone.repo()).contains(lost));
  }
}

TEST_CASE("bug: operations whose signatures do not hold were published") {
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

TEST_CASE("bug: whoever may push could leave out what is there, and a gc of the remote removed it") {
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
  CHECK(t.open()->local_store()->has(ObjectKind::kManifest, manifest));
  registry::push(t.clone.repo(), t.origin, t.quiet);
  collect();
  CHECK(t.open()->local_store()->has(ObjectKind::kManifest, manifest));
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
