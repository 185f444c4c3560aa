// A kind of operation is one row: what its row says holds for gc, push, fetch, undo and the log, also for a kind that
// nothing else knows of.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"
#include "clone.h"
#include "fails_with.h"
#include "history_maker.h"
#include "registry/maintenance/gc.h"
#include "registry/operations/application.h"
#include "registry/operations/body.h"
#include "registry/operations/content.h"
#include "registry/operations/operation_text.h"
#include "registry/record/operation_log.h"
#include "registry/sync/sync.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

const std::string kDigest = Digest::of("a version").text(), kOther = Digest::of("another").text();

// A body of each kind with a digest wherever one can stand.
const std::map<std::string, Json>& sample_bodies() {
  const Json version = {{"role", "data"}, {"version", kDigest}};
  static const std::map<std::string, Json> bodies = {
      {"version.create", {{"artifact", "clf"}, {"digest", kDigest}, {"parent", kOther}, {"number", 1}}},
      {"version.renumber", {{"artifact", "clf"}, {"digest", kDigest}, {"from", 1}, {"to", 2}}},
      {"version.lost", {{"versions", {kDigest, kOther}}}},
      {"alias.move", {{"artifact", "clf"}, {"alias", "best"}, {"digest", kDigest}, {"replaces", {kOther}}}},
      {"tag.create", {{"artifact", "clf"}, {"tag", "x"}, {"digest", kDigest}}},
      {"tag.delete", {{"artifact", "clf"}, {"tag", "x"}, {"digest", kDigest}}},
      {"attach", {{"version", kDigest}, {"kind", "report"}, {"name", "x"}, {"blob", kOther}}},
      {"operation.undo", {{"operation", kDigest}}},
      {"actor.describe", {{"blob", kDigest}}},
      {"actor.forget", {{"actor", "0123456789abcdef"}}},
      {"history.join", {{"roots", {kDigest, kOther}}}},
      {"domain.assign", {{"artifact", "clf"}, {"domain", "x"}}},
      {"key.erase", {{"domain", "x"}, {"keys", {1}}, {"versions", {kDigest}}}},
      {"access.add", {{"name", "ada"}, {"key", kOther}, {"models", {"clf"}}}},
      {"access.revoke", {{"name", "ada"}, {"key", kOther}}},
      {"run.start", {{"run", "x"}, {"key", kOther}, {"inputs", {version}}, {"code", {{"diff", kOther}}}}},
      {"run.checkpoint", {{"run", "x"}, {"step", 1}, {"manifest", kDigest}}},
      {"run.resume", {{"run", "x"}, {"step", 1}}},
      {"run.end", {{"run", "x"}, {"metrics", kOther}, {"outputs", {version}}}},
      {"run.log", {{"run", "x"}, {"logs", {{{"role", "rank 0"}, {"log", kOther}}}}}},
  };
  return bodies;
}

// Every digest that stands anywhere in it.
void collect_digests(const Json& json, std::multiset<std::string>& found) {
  if (json.is_string() && json.get_ref<const std::string&>().starts_with("sha256:")) found.insert(json);
  if (!json.is_structured()) return;
  for (const Json& item : json) collect_digests(item, found);
}

// A made-up kind: a blob about a version, projected into no table.
Digest applied;
void apply_note(const Application& a) {
  a.require_version(a.string("artifact"), a.digest("version"));
  applied = a.digest("blob");
}
std::string note_text(const Body& body) {
  return "noted " + body.text("artifact");
}
const Kind kNote = {
    "note.add",
    apply_note,
    note_text,
    names({{Role::kReference, "version"}, {Role::kBlob, "blob"}}),
    ContentDomain::kVersion,
    {.thing = "note", .keys = {"artifact"}},
    takes<Right::kCommit>,
};

struct Notes {
  TempFolder folder;
  RemoteConfig origin{"origin", join_path(folder.path(), "origin")};
  Kinds kinds = known_kinds().with(kNote);
  Clone a, b;
  NoProgress quiet;

  Notes() {
    for (Clone* clone : {&a, &b}) {
      clone->close();
      clone->kinds = &kinds;
      clone->open();
    }
  }
  // The blob's digest.
  Digest note(const Version& version, const std::string& text) {
    const auto batch = a.repo().store().begin();
    const Digest blob = batch->add_blob(as_bytes(text));
    batch->commit();
    a.repo().record("note.add",
                    {{"artifact", version.artifact}, {"version", version.digest.text()}, {"blob", blob.text()}});
    return blob;
  }
  SyncResult push() { return registry::push(a.repo(), origin, quiet); }
  void fetch(Clone& c) {
    FetchOptions options;
    options.allow_unrelated = true;
    (void)registry::fetch(c.repo(), origin, options, quiet);
    c.repo().store().reload();
  }
  void collect() {
    a.close();  // what a process has found it pins
    a.open();
    (void)collect_garbage(a.repo(), {.grace_seconds = 0, .remove = true}, quiet);
    a.repo().store().reload();
  }
};

bool has(Clone& c, const Digest& blob) {
  return c.repo().store().has_whole_blob(blob);
}

std::vector<std::string> log_of(Clone& c) {
  std::vector<std::string> lines;
  visit_log(c.repo(), {}, [&](const LogEntry& entry) {
    lines.push_back(operation_text(c.repo().kinds(), entry.operation) + (entry.undone ? " (taken back)" : ""));
  });
  return lines;
}

}  // namespace

TEST_CASE("every kind's row is complete, and gives the role of every digest in its bodies") {
  std::set<std::string_view> names_seen;
  for (const Kind* const kind : known_kinds().rows()) {
    CAPTURE(std::string(kind->name));
    CHECK(names_seen.insert(kind->name).second);
    CHECK((kind->apply != nullptr && kind->text != nullptr && kind->right != nullptr));
    REQUIRE(sample_bodies().contains(std::string(kind->name)));
    const Json& body = sample_bodies().at(std::string(kind->name));
    CHECK_FALSE(kind->text(Body(body)).empty());
    std::multiset<std::string> standing, declared;
    collect_digests(body, standing);
    for (const DigestField& field : kind->content.fields())
      Body(body).visit(field, [&](const Digest& digest) { declared.insert(digest.text()); });
    CHECK(standing == declared);
  }
  CHECK(names_seen.size() == sample_bodies().size());
}

TEST_CASE("no recorded operation holds a digest that its kind's row does not declare") {
  Clone a;
  HistoryMaker(7).make(a.repo(), 60);
  for (const Operation& operation : a.repo().operations()) {
    CAPTURE(operation.body);
    const Json body = parse_json(operation.body, operation.kind);
    std::multiset<std::string> standing, declared;
    collect_digests(body, standing);
    for (const DigestField& field : known_kinds().at(operation.kind).content.fields())
      Body(body).visit(field, [&](const Digest& digest) { declared.insert(digest.text()); });
    CHECK(standing == declared);
  }
}

TEST_CASE("an operation's content is read by role, at any place in the body") {
  Operation end;
  end.kind = "run.end";
  end.body = canonical(sample_bodies().at("run.end"));
  const Content content = content_of(known_kinds(), end);
  CHECK(content.of(Role::kReference) == std::vector<Digest>{Digest::parse(kDigest)});
  CHECK(content.blobs() == std::vector<Digest>{Digest::parse(kOther)});
  CHECK(content.travels());
  end.kind = "run.ends";  // of a newer mlx
  CHECK_FALSE(content_of(known_kinds(), end).travels());
}

TEST_CASE("gc keeps the blob of a kind that a test made up, push sends it, a clone has it") {
  Notes t;
  const Version version = make(t.a.repo(), "clf", "weights");
  const Digest blob = t.note(version, "good on rainy days");
  CHECK(applied == blob);
  t.collect();
  CHECK(has(t.a, blob));
  t.push();
  t.fetch(t.b);
  CHECK(has(t.b, blob));
  (void)collect_garbage_of(t.a.repo(), t.origin, {.grace_seconds = 0, .remove = true}, t.quiet);
  Clone late;
  late.close();
  late.kinds = &t.kinds;
  late.open();
  t.fetch(late);
  CHECK(has(late, blob));
  // What this mlx does not know it does not take in.
  Clone older;
  CHECK(fails_with(ErrorKind::kCorrupt, "'note.add'", [&] { t.fetch(older); }) == "");
  CHECK(older.repo().heads().empty());
}

TEST_CASE("a made-up kind is undone and shown by its row, and its blob is removed and restored with it") {
  Notes t;
  const Version version = make(t.a.repo(), "clf", "weights");
  const Digest first = t.note(version, "first"), second = t.note(version, "second");
  CHECK(log_of(t.a).front() == "noted clf");
  const std::string of_first = t.a.repo().operations()[1].id.hex();
  // The last about a thing goes first, and a version stays while something refers to it.
  CHECK(fails_with(ErrorKind::kConflict, "noted clf", [&] { undo(t.a.repo(), of_first, false); }) == "");
  CHECK(fails_with(ErrorKind::kConflict, "noted clf",
                   [&] { undo(t.a.repo(), t.a.repo().operations()[0].id.hex(), false); }) == "");
  undo(t.a.repo(), "", false);
  CHECK(std::ranges::count(log_of(t.a), "noted clf (taken back)") == 1);
  CHECK(std::ranges::count(log_of(t.a), "noted clf") == 1);
  (void)collect_garbage(t.a.repo(), {.grace_seconds = 3600, .remove = true}, t.quiet);
  CHECK(has(t.a, second));  // it can be brought back for a while
  t.push();                 // nobody needs what was taken back
  t.fetch(t.b);
  CHECK(has(t.b, first));
  CHECK_FALSE(has(t.b, second));
  undo(t.a.repo(), "", true);
  t.push();
  t.fetch(t.b);
  CHECK(has(t.b, second));
  undo(t.a.repo(), "", false);
  t.collect();
  CHECK(has(t.a, first));
  CHECK_FALSE(has(t.a, second));
}
