// What somebody with every right to record may not do to what others made: their runs, attachments, numbers, tags, and
// who made a version.
#include <doctest/doctest.h>

#include <chrono>

#include "base/json.h"
#include "base/progress.h"
#include "fails_with.h"
#include "history_maker.h"
#include "registry/maintenance/gc.h"
#include "registry/maintenance/rebuild.h"
#include "registry/record/remarks.h"
#include "registry/sync/numbers.h"
#include "registry/sync/sync.h"
#include "registry/versions/references.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

// Ada's clone, and bob, who signs what no mlx would make.
struct Others {
  TempFolder ada_home, bob_home;
  Clone ada{"ada", ada_home.path()}, bob{"bob", bob_home.path()};

  Others() {
    for (Clone* c : {&ada, &bob}) (void)c->repo().signer();  // who has none has no actor
  }
  Operation by(Clone& who, const std::string& kind, const Json& body, const std::vector<Digest>& parents) {
    Operation operation;
    operation.kind = kind;
    operation.parents = parents;
    operation.time = 5;
    operation.body = canonical(body);
    return signed_by(who.repo(), operation);
  }
  // Taken in behind all that ada's clone has.
  Digest after(const std::string& kind, const Json& body) {
    const Operation operation = by(bob, kind, body, ada.repo().heads());
    ada.repo().merge({operation});
    return operation.id;
  }
  Json version_body(const Version& version, std::int64_t number, const std::string& message) {
    return {{"artifact", version.artifact},
            {"bytes", 1},
            {"digest", version.digest.text()},
            {"files", 1},
            {"kind", "model"},
            {"message", message},
            {"number", number},
            {"parent", nullptr},
            {"run", ""}};
  }
  std::string told() {
    std::string all;
    for (const Remark& remark : remarks(ada.repo())) all += remark.text + "\n";
    return all;
  }
  bool tells(const std::string& words) { return told().find(words) != std::string::npos; }
  // The tables are what the operations say, in whatever order they came.
  bool is_projection() {
    const std::string before = dump(ada.repo()), said = told();
    NoProgress quiet;
    ada.close();
    rebuild_database(ada.root, *ada.disk, ada.pool, quiet);
    ada.open();
    return dump(ada.repo()) == before && told() == said;
  }
};

}  // namespace

TEST_CASE("bug: anybody's operations changed a run") {
  Others o;
  const Version model = make(o.ada.repo(), "clf", "weights");
  const std::string done = start_run(o.ada.repo(), run_start("train", "k"));
  end_run(o.ada.repo(), done, RunStatus::kDone, {{"model", model.digest}}, Json{{"accuracy", 0.99}});
  const std::string running = start_run(o.ada.repo(), run_start("train", "l"));
  record_checkpoint(o.ada.repo(), {running, 100, Digest::of("hers"), true});
  o.after("run.resume", {{"run", done}, {"step", 0}});
  o.after("run.end", {{"run", done},
                      {"status", "failed"},
                      {"outputs", Json::array()},
                      {"summary", Json::object()},
                      {"error", "bob says so"},
                      {"metrics", nullptr},
                      {"points", 0}});
  for (const std::int64_t step : {1'000'000, 1'000'001, 1'000'002})
    o.after("run.checkpoint", {{"run", running}, {"step", step}, {"manifest", Digest::of("x").text()}, {"best", true}});
  CHECK(read_run(o.ada.repo(), done).status == RunStatus::kDone);
  CHECK(read_run(o.ada.repo(), done).outputs.size() == 1);
  REQUIRE(checkpoints(o.ada.repo(), running).size() == 1);
  CHECK(checkpoints(o.ada.repo(), running)[0].manifest == Digest::of("hers"));
  CHECK(remarks(o.ada.repo()).size() == 5);
  CHECK(o.tells("has no effect: the run was started by " + o.ada.repo().actor()));
  end_run(o.ada.repo(), running, RunStatus::kInterrupted, {}, Json::object());
  CHECK(o.is_projection());
}

TEST_CASE("bug: somebody else's run was resumed in their name") {
  Others o;
  const std::string run = start_run(o.ada.repo(), run_start("train", "k"));
  end_run(o.ada.repo(), run, RunStatus::kInterrupted, {}, Json::object());
  CHECK(is_own_run(o.ada.repo(), run));
  bring(o.ada.repo(), o.bob.repo());
  CHECK_FALSE(is_own_run(o.bob.repo(), run));
  CHECK(fails_with(ErrorKind::kRefused, "somebody else started it", [&] { resume_run(o.bob.repo(), run, 0); }) == "");
  Clone laptop("laptop", o.ada_home.path());  // hers as well
  bring(o.ada.repo(), laptop.repo());
  resume_run(laptop.repo(), run, 0);
  CHECK(read_run(laptop.repo(), run).status == RunStatus::kRunning);
}

TEST_CASE("bug: an attachment was gone once somebody else attached under its name") {
  Others o;
  const Version version = make(o.ada.repo(), "clf", "weights");
  attach(o.ada.repo(), version.digest, "card", "README.md", as_bytes(std::string_view("first try")));
  attach(o.ada.repo(), version.digest, "card", "README.md", as_bytes(std::string_view("the card that ada wrote")));
  const Digest hers = attachments(o.ada.repo(), version.digest).at(0).blob;
  const Digest his = Digest::of("what bob wants it to say");
  o.after("attach",
          {{"version", version.digest.text()}, {"kind", "card"}, {"name", "README.md"}, {"blob", his.text()}});
  const std::vector<Attachment> shown = attachments(o.ada.repo(), version.digest);
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].blob == his);
  CHECK(shown[0].actor == o.bob.repo().actor());
  CHECK(o.tells("replaces the one by " + o.ada.repo().actor()));
  store::GcOptions options;
  options.grace_seconds = 0;
  options.remove = true;
  NoProgress quiet;
  o.ada.repo().db().run("UPDATE taken SET time = 1");
  collect_garbage(o.ada.repo(), options, quiet);
  o.ada.repo().store().reload();
  CHECK(o.ada.repo().store().has_blob(hers));
  store::Statement kept = o.ada.repo().db().prepare("SELECT count(*), sum(blob = ?) FROM attachments");
  REQUIRE(kept.bind(hers).step());
  CHECK(kept.int64(0) == 2);  // hers and his; what she replaced herself is let go
  CHECK(kept.int64(1) == 1);
  kept.reset();
  CHECK(o.is_projection());
}

TEST_CASE("bug: somebody else could give a version's number to another version") {
  Others o;
  const Version one = make(o.ada.repo(), "clf", "one"), evil = make(o.bob.repo(), "clf", "evil");
  o.after("version.create", o.version_body(evil, 2, "harmless"));
  const auto renumber = [&](const Version& version, int from, int to) {
    o.after("version.renumber", {{"artifact", "clf"}, {"digest", version.digest.text()}, {"from", from}, {"to", to}});
  };
  renumber(one, 1, 3);
  CHECK(o.tells("has no effect: v1 was given by " + o.ada.repo().actor()));
  renumber(evil, 2, 1);
  CHECK(o.tells(fmt::format("has no effect: v1 is {}, made by {}", one.digest.brief(), o.ada.repo().actor())));
  CHECK(resolve(o.ada.repo(), "clf@v1").digest == one.digest);
  CHECK(resolve(o.ada.repo(), "clf@v2").digest == evil.digest);
  // Claiming her content's number first does not make it his.
  const Operation claim = o.by(o.bob, "version.create", o.version_body(one, 1, "mine"), {});
  o.ada.repo().merge({claim});
  renumber(one, 1, 4);
  CHECK(resolve(o.ada.repo(), "clf@v1").digest == one.digest);
  renumber(one, 6, 5);  // a number that it never had
  CHECK_FALSE(try_resolve(o.ada.repo(), "clf@v5"));
  renumber(evil, 2, 7);  // his own he may
  CHECK(resolve(o.ada.repo(), "clf@v7").digest == evil.digest);
  CHECK(o.is_projection());
}

TEST_CASE("bug: a claim on a number that was taken already won the conflict") {
  Others o;
  const Version one = make(o.ada.repo(), "clf", "one"), evil = make(o.bob.repo(), "clf", "evil");
  o.after("version.create", o.version_body(evil, 1, ""));
  CHECK(fails_with(ErrorKind::kConflict, "two clones gave this number", [&] { settle_numbers(o.ada.repo(), false); }) ==
        "");
  const std::vector<Renumbered> settled = settle_numbers(o.ada.repo(), true);
  REQUIRE(settled.size() == 1);
  CHECK(settled[0].digest == evil.digest);
  CHECK(resolve(o.ada.repo(), "clf@v1").digest == one.digest);
  CHECK(o.tells("v1 was given by " + o.bob.repo().actor()));
  CHECK(o.is_projection());
}

TEST_CASE("bug: a second tag of a name made the first one unusable") {
  Others o;
  const Version one = make(o.ada.repo(), "clf", "one"), two = make(o.ada.repo(), "clf", "two");
  const Operation beside =
      o.by(o.bob, "tag.create", {{"artifact", "clf"}, {"digest", two.digest.text()}, {"tag", "begun"}},
           o.ada.repo().heads());
  create_tag(o.ada.repo(), "begun", one);
  o.after("tag.create", {{"artifact", "clf"}, {"digest", two.digest.text()}, {"tag", "begun"}});
  CHECK(resolve(o.ada.repo(), "clf@begun").digest == one.digest);
  CHECK(o.tells(fmt::format("by {} has no effect: the tag is on {} already, put there by {}", o.bob.repo().actor(),
                            one.digest.brief(), o.ada.repo().actor())));
  CHECK(o.is_projection());
  o.ada.repo().merge({beside});  // who could not know of hers: neither has the better right
  CHECK(fails_with(ErrorKind::kConflict, o.bob.repo().actor(), [&] { resolve(o.ada.repo(), "clf@begun"); }) == "");
  o.after("tag.delete", {{"artifact", "clf"}, {"digest", one.digest.text()}, {"tag", "begun"}});
  CHECK(o.tells("takes off the tag of " + o.ada.repo().actor()));
}

TEST_CASE("bug: an operation without parents could claim to have made a version") {
  Others o;
  const Version one = make(o.ada.repo(), "clf", "one");
  for (int i = 0; i < 4; ++i) {  // in the fixed order some are before hers and some behind
    Json body = o.version_body(one, 1, fmt::format("made by bob, of customer data {}", i));
    body["parent"] = Digest::of("another").text();
    body["files"] = 7;
    o.ada.repo().merge({o.by(o.bob, "version.create", body, {})});
  }
  const Version now = resolve(o.ada.repo(), "clf@v1");
  CHECK(now.actor == o.ada.repo().actor());
  CHECK(now.message == one.message);
  CHECK_FALSE(now.parent);
  CHECK(now.files == one.files);
  const std::vector<Making> all = makings(o.ada.repo(), now);
  REQUIRE(all.size() == 2);
  CHECK(all[0].actor == o.ada.repo().actor());
  CHECK(all[1].actor == o.bob.repo().actor());
  SUBCASE("who made it again knowing hers is not shown") {
    Others p;
    const Version hers = make(p.ada.repo(), "clf", "one");
    p.after("version.create", p.version_body(hers, 1, "again"));
    CHECK(makings(p.ada.repo(), hers).size() == 1);
  }
  SUBCASE("it stays what it is where the tables are made anew") {
    CHECK(o.is_projection());
  }
}

TEST_CASE("bug: applying one person's small operations took cubic time") {
  Others o;
  make(o.ada.repo(), "clf", "one");
  std::vector<Operation> many;
  std::vector<Digest> last = o.ada.repo().heads();
  const auto add = [&](const std::string& kind, const Json& body) {
    many.push_back(o.by(o.bob, kind, body, last));
    last = {many.back().id};
  };
  constexpr int kMany = 400;
  for (int i = 0; i < kMany; ++i) add("actor.forget", {{"actor", o.bob.repo().actor()}});
  for (int i = 0; i < kMany; ++i) add("actor.describe", {{"blob", Digest::of(std::to_string(i)).text()}});
  const auto began = std::chrono::steady_clock::now();
  o.ada.repo().merge(many);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));  // took minutes
  store::Statement known = o.ada.repo().db().prepare("SELECT count(*) FROM people");
  REQUIRE(known.step());
  CHECK(known.int64(0) == kMany);
  known.reset();
  store::Statement forgotten = o.ada.repo().db().prepare("SELECT count(*) FROM forgotten");
  REQUIRE(forgotten.step());
  CHECK(forgotten.int64(0) == 1);
}

TEST_CASE("bug: applying others' operations could not be interrupted") {
  Others o;
  make(o.ada.repo(), "clf", "one");
  const std::string before = dump(o.ada.repo());
  const Operation more = o.by(o.bob, "actor.forget", {{"actor", o.bob.repo().actor()}}, o.ada.repo().heads());
  o.ada.interruption.raise(2);
  CHECK(fails_with(ErrorKind::kInterrupted, "", [&] { o.ada.repo().merge({more}); }) == "");
  const Interruption::Deferred past(o.ada.interruption);
  CHECK(dump(o.ada.repo()) == before);
}
