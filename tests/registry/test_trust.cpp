// Whose operations count: what is not vouched for is refused with who and what, before it is applied.
#include "registry/keys/trust.h"

#include <doctest/doctest.h>

#include "base/fd.h"
#include "base/json.h"
#include "colleagues.h"
#include "fails_with.h"
#include "registry/record/judge.h"
#include "registry/record/people.h"
#include "registry/record/trust_changes.h"
#include "registry/sync/numbers.h"
#include "registry/sync/seen_heads.h"
#include "registry/sync/sync.h"
#include "registry/versions/references.h"
#include "store/remote/transfer.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

// Bob promotes while nobody is declared; then he may commit and no more.
void bob_promotes_and_may_not(Colleagues& p) {
  make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  p.fetch(p.bob);
  move_alias(p.bob.repo(), "production", resolve(p.bob.repo(), "clf@v1"));
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, {Right::kCommit});
}

}  // namespace

TEST_CASE("one person needs no ceremony: clones with one key take each other's operations") {
  TempFolder folder;
  const RemoteConfig origin{"origin", join_path(folder.path(), "origin")};
  Clone a, b;
  NoProgress quiet;
  make(a.repo(), "clf", "one");
  push(a.repo(), origin, quiet);
  CHECK(fetch(b.repo(), origin, {}, quiet).met.empty());
  make(b.repo(), "clf", "two");
  push(b.repo(), origin, quiet);
  CHECK(fetch(a.repo(), origin, {}, quiet).operations == 1);
  CHECK(a.repo().actor() != b.repo().actor());  // one person, two clones
}

TEST_CASE("a fresh clone takes the keys that it meets first, and no others later") {
  Colleagues p;
  make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  CHECK(p.fetch(p.bob).met == std::vector<Digest>{Colleagues::key(p.ada)});
  make(p.bob.repo(), "clf", "two");
  p.push(p.bob);
  const std::string before = dump(p.ada.repo());
  CHECK(fails_with(ErrorKind::kRefused, store::ssh_fingerprint(Colleagues::key(p.bob)), [&] { p.fetch(p.ada); }) == "");
  CHECK(dump(p.ada.repo()) == before);
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, {Right::kCommit});
  CHECK(p.fetch(p.ada).operations == 1);
  CHECK(dump(p.ada.repo()) == dump(p.bob.repo()));
}

TEST_CASE("[people] grants single rights: a person who may commit may not promote") {
  Colleagues p;
  bob_promotes_and_may_not(p);
  CHECK(fails_with(ErrorKind::kRefused, "bob may not promote", [&] { p.push(p.bob); }) == "");
  // An mlx that does not ask pushes it all the same; others refuse it.
  write_file_atomically(p.bob.path("mlx.toml"), "");
  p.push(p.bob);
  CHECK(fails_with(ErrorKind::kRefused, "bob may not promote", [&] { p.fetch(p.ada); }) == "");
  CHECK_FALSE(try_resolve(p.ada.repo(), "clf@production"));
  p.declare("bob", p.bob, {Right::kCommit, Right::kPromote});
  p.fetch(p.ada);
  CHECK(resolve(p.ada.repo(), "clf@production").number == 1);
}

TEST_CASE("bug: an operation that [people] refuses was recorded, and the clone could never push again") {
  Colleagues p;
  make(p.ada.repo(), "clf", "one");
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, {Right::kCommit});
  describe_actor(p.ada.repo(), {"Ada", "", ""});
  p.push(p.ada);
  p.fetch(p.bob);
  Repository& bob = p.bob.repo();
  const Version version = resolve(bob, "clf@v1");
  const std::string before = dump(bob);
  const auto promote = [&] { move_alias(bob, "production", version); };
  CHECK(fails_with(ErrorKind::kRefused, "bob may not promote", promote) == "");
  CHECK(fails_with(ErrorKind::kRefused,
                   "bob has commit; promote is missing: somebody in [people] runs `mlx key trust bob", promote) == "");
  CHECK(fails_with(ErrorKind::kRefused, "--may commit,promote", promote) == "");
  CHECK(fails_with(ErrorKind::kRefused, "bob may not erase", [&] { forget_actor(bob, p.ada.repo().actor()); }) == "");
  CHECK(fails_with(ErrorKind::kRefused, "bob may not assign domains", [&] {
          bob.record("domain.assign", {{"artifact", "data/x"}, {"domain", "people"}});
        }) == "");
  CHECK(dump(bob) == before);
  make(bob, "clf", "two");
  p.push(p.bob);
  CHECK(p.fetch(p.ada).operations == 1);
  // Whoever stands nowhere there records nothing.
  write_file_atomically(p.bob.path("mlx.toml"), "");
  trust_person(p.bob.root, {"ada", {Colleagues::key(p.ada)}, kEveryRight, {}}, false);
  CHECK(fails_with(ErrorKind::kRefused, "nobody in [people] of mlx.toml has the key", [&] { make(bob, "clf", "x"); }) ==
        "");
  CHECK_FALSE(may_record(bob, "version.create"));
}

TEST_CASE("a run that was allowed to start can end, whatever [people] says meanwhile") {
  Clone c;
  const std::string run = start_run(c.repo(), run_start("train", "key"));
  TempFolder home;
  Clone other("other", home.path());
  trust_person(c.root, {"other", {other.repo().signer().public_key}, kEveryRight, {}}, false);
  end_run(c.repo(), run, RunStatus::kDone, {}, Json::object(), "");
  CHECK(fails_with(ErrorKind::kRefused, "nobody in [people]",
                   [&] { start_run(c.repo(), run_start("train", "key 2")); }) == "");
}

TEST_CASE("bug: a compromised key could not be retired, and came back with the next one") {
  Colleagues p;
  TempFolder new_home;
  Clone again("again", new_home.path());  // eve with her new key
  Clone& eve = p.bob;
  make(p.ada.repo(), "clf", "one");
  p.declare("ada", p.ada, kEveryRight);
  p.declare("eve", eve, {Right::kCommit, Right::kPromote});
  p.push(p.ada);
  p.fetch(eve);
  move_alias(eve.repo(), "production", resolve(eve.repo(), "clf@v1"));
  p.push(eve);
  p.fetch(p.ada);
  Repository& ada = p.ada.repo();
  const Digest old_key = Colleagues::key(eve), new_key = Colleagues::key(again);
  TrustChange change{"eve", new_key};
  SUBCASE("replaced") {
    change.replace = true;
  }
  SUBCASE("distrusted, and trusted with another key") {
    end_trust(p.ada.root, "eve", ada.heads(), false);
  }
  const TrustedPerson person = changed_person(ada, change);
  CHECK(person.keys == std::vector<Digest>{new_key});
  CHECK(person.before == std::vector<FormerTrust>{{old_key, {Right::kCommit, Right::kPromote}, ada.heads()}});
  trust_person(p.ada.root, person, false);
  CHECK(declared_people(p.ada.root).people.at(1).before == person.before);
  CHECK(fails_with(ErrorKind::kRefused, "--again", [&] { changed_person(ada, {"eve", old_key}); }) == "");
  CHECK(changed_person(ada, {"eve", old_key, {}, false, true}).keys == std::vector<Digest>{new_key, old_key});
  // What it signed before counts in a fresh clone, what it signs now nowhere.
  for (Clone* c : {&eve, &again}) write_file_atomically(c->path("mlx.toml"), read_text(p.ada.path("mlx.toml")));
  CHECK(p.fetch(again).operations == 2);
  const Operation late = unsigned_tag(eve, resolve(eve.repo(), "clf@v1"), "late");
  CHECK(fails_with(ErrorKind::kRefused, "no longer counts", [&] { make(eve.repo(), "clf", "late"); }) == "");
  make(again.repo(), "clf", "two");
  p.push(again);
  CHECK(p.fetch(p.ada).operations == 1);
  p.publish(eve, signed_by(eve.repo(), late));
  CHECK(fails_with(ErrorKind::kRefused, "eve signed it after", [&] { p.fetch(p.ada); }) == "");
}

TEST_CASE("bug: fresh clones refused what a right had been used for before it was withdrawn") {
  Colleagues p;
  make(p.ada.repo(), "clf", "one");
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, {Right::kCommit, Right::kPromote});
  p.push(p.ada);
  p.fetch(p.bob);
  move_alias(p.bob.repo(), "production", resolve(p.bob.repo(), "clf@v1"));
  p.push(p.bob);
  p.fetch(p.ada);
  trust_person(p.ada.root, changed_person(p.ada.repo(), {"bob", Colleagues::key(p.bob), {Right::kCommit}}), false);
  Clone fresh("fresh", p.ada_home.path());
  for (Clone* c : {&fresh, &p.bob}) write_file_atomically(c->path("mlx.toml"), read_text(p.ada.path("mlx.toml")));
  CHECK(p.fetch(fresh).operations == 2);
  CHECK(fails_with(ErrorKind::kRefused, "bob may not promote",
                   [&] { move_alias(p.bob.repo(), "staging", resolve(p.bob.repo(), "clf@v1")); }) == "");
}

TEST_CASE("what was recorded before [people] refused it is vouched for, and nothing later") {
  Colleagues p;
  bob_promotes_and_may_not(p);
  CHECK(fails_with(ErrorKind::kRefused, "--up-to-now", [&] { p.push(p.bob); }) == "");
  const TrustChange vouch{"bob", Colleagues::key(p.bob), {Right::kPromote}, false, false, true};
  trust_person(p.bob.root, changed_person(p.bob.repo(), vouch), false);
  CHECK_FALSE(trust_person(p.bob.root, changed_person(p.bob.repo(), vouch), false));
  write_file_atomically(p.ada.path("mlx.toml"), read_text(p.bob.path("mlx.toml")));
  p.push(p.bob);
  CHECK(p.fetch(p.ada).operations == 1);
  CHECK(fails_with(ErrorKind::kRefused, "bob may not promote",
                   [&] { move_alias(p.bob.repo(), "staging", resolve(p.bob.repo(), "clf@v1")); }) == "");
}

TEST_CASE("earlier operations of a person who left still count, whatever their clock says later") {
  Colleagues p;
  make(p.ada.repo(), "clf", "one");
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, {Right::kCommit});
  p.push(p.ada);
  p.fetch(p.bob);
  make(p.bob.repo(), "clf", "two");
  p.push(p.bob);
  p.fetch(p.ada);
  p.declare("bob", p.bob, {Right::kCommit}, p.ada.repo().heads());
  Clone fresh("fresh", p.ada_home.path());
  write_file_atomically(fresh.path("mlx.toml"), read_text(p.ada.path("mlx.toml")));
  CHECK(p.fetch(fresh).operations == 2);
  const Version version = resolve(p.bob.repo(), "clf@v2");
  Operation late = unsigned_tag(p.bob, version, "late");
  late.time = 1;  // backdated
  p.publish(p.bob, signed_by(p.bob.repo(), late));
  CHECK(fails_with(ErrorKind::kRefused, "bob signed it after", [&] { p.fetch(p.ada); }) == "");
  CHECK(resolve(p.ada.repo(), "clf@v2").tags.empty());
}

TEST_CASE("bug: an operation was accepted from anybody") {
  Colleagues p;
  const Version version = make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  p.fetch(p.bob);
  const std::string before = dump(p.bob.repo());
  Operation operation = unsigned_tag(p.ada, version, "forged");
  std::string words;
  ErrorKind kind = ErrorKind::kRefused;
  SUBCASE("unsigned") {
    words = "nobody has signed it";
  }
  SUBCASE("with a signature of something else") {
    operation = signed_by(p.ada.repo(), operation);
    operation.time += 1;
    words = "is invalid";
  }
  SUBCASE("by a stranger") {
    TempFolder home;
    Clone stranger("stranger", home.path());
    operation = signed_by(stranger.repo(), operation);
    words = "has not signed anything here before";
  }
  SUBCASE("by one colleague in the name of another") {
    p.declare("ada", p.ada, kEveryRight);
    p.declare("bob", p.bob, kEveryRight);
    operation = signed_by(p.bob.repo(), operation, p.ada.repo().actor());
    words = "does not match its clone and signer";
    kind = ErrorKind::kCorrupt;
  }
  p.publish(p.ada, operation);
  CHECK(fails_with(kind, words, [&] { p.fetch(p.bob); }) == "");
  CHECK(dump(p.bob.repo()) == before);
}

TEST_CASE("bug: an undo undid somebody else's operation") {
  Colleagues p;
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, kEveryRight);
  make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  p.fetch(p.bob);
  Operation undo;
  undo.kind = "operation.undo";
  undo.parents = p.bob.repo().heads();
  undo.body = canonical(Json{{"operation", p.ada.repo().operations().back().id.text()}});
  p.publish(p.bob, signed_by(p.bob.repo(), undo));
  CHECK(fails_with(ErrorKind::kCorrupt, "another actor", [&] { p.fetch(p.ada); }) == "");
  CHECK(versions(p.ada.repo()).size() == 1);
}

TEST_CASE("bug: the first to sign under an actor's id became that actor") {
  Colleagues p;
  Operation old = unsigned_tag(p.ada, Version{}, "old");  // of a history from before there were signatures
  old.kind = "domain.assign";
  old.body = R"({"artifact":"data/x","domain":"people"})";
  old.id = Digest::of(encode(old));
  const auto decodes = [&](Clone& who, const std::string& actor) {
    return fails_with(ErrorKind::kCorrupt, "does not match its clone and signer",
                      [&] { (void)decode(encode(signed_by(who.repo(), unsigned_tag(who, Version{}, "x"), actor))); });
  };
  (void)p.ada.repo().signer();
  CHECK(decodes(p.bob, old.actor) == "");
  CHECK(decodes(p.bob, p.ada.repo().actor()) == "");
  const Operation own = signed_by(p.bob.repo(), unsigned_tag(p.bob, Version{}, "x"));
  CHECK(decode(encode(own)).actor == p.bob.repo().actor());
  CHECK(decode(encode(own)).clone == own.clone);
  // What nobody signed under ada's id is not hers to take back, and hers not that of nobody.
  Operation forged = old;
  forged.actor = p.ada.repo().actor();
  CHECK_FALSE(same_maker(forged, signed_by(p.ada.repo(), unsigned_tag(p.ada, Version{}, "x"))));
}

TEST_CASE("bug: operations signed in another project were accepted in this one") {
  Colleagues p;
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, kEveryRight);
  Clone another("another", p.ada_home.path());  // of ada too
  make(another.repo(), "clf", "an experiment");
  move_alias(another.repo(), "production", resolve(another.repo(), "clf@v1"));
  make(p.bob.repo(), "clf", "of bob");
  p.push(another);  // or put there by whoever can write to it
  const std::string before = dump(p.bob.repo());
  const std::string words = "2 operations with nothing in common with the history of this clone: 2 of " +
                            store::ssh_fingerprint(Colleagues::key(another));
  CHECK(fails_with(ErrorKind::kRefused, words, [&] { p.fetch(p.bob); }) == "");
  CHECK(dump(p.bob.repo()) == before);
  SUBCASE("a repair of the remote leaves it out") {
    registry::push(p.bob.repo(), p.origin, p.quiet, true);
    CHECK(p.fetch(p.ada).operations == 1);
    CHECK(dump(p.ada.repo()) == before);
  }
  SUBCASE("who may not record that it belongs here takes nothing of it") {
    trust_person(p.bob.root, {"bob", {Colleagues::key(p.bob)}, {Right::kPromote}, {}}, false);
    FetchOptions options{FetchContent::kEverything};
    options.allow_unrelated = true;
    CHECK(fails_with(ErrorKind::kRefused, "bob may not commit",
                     [&] { registry::fetch(p.bob.repo(), p.origin, options, p.quiet); }) == "");
    CHECK(dump(p.bob.repo()) == before);
  }
  SUBCASE("joined once, it is everybody's") {
    FetchOptions options{FetchContent::kEverything};
    options.allow_unrelated = true;
    registry::fetch(p.bob.repo(), p.origin, options, p.quiet);
    CHECK(p.bob.repo().heads().size() == 1);
    CHECK(p.bob.repo().operations().back().kind == "history.join");
    settle_numbers(p.bob.repo(), true);
    p.push(p.bob);
    write_file_atomically(another.path("mlx.toml"), read_text(p.ada.path("mlx.toml")));
    p.fetch(another);
    CHECK(dump(another.repo()) == dump(p.bob.repo()));
    p.fetch(p.bob);  // nothing more to join
    CHECK(p.bob.repo().heads() == another.repo().heads());
  }
}

TEST_CASE("bug: a version number that leaves none for the next was accepted") {
  Colleagues p;
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, kEveryRight);
  const Version version = make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  Operation create;
  create.kind = "version.create";
  create.parents = p.ada.repo().heads();
  create.body = canonical(Json{{"artifact", "clf"},
                               {"bytes", 3},
                               {"digest", version.digest.text()},
                               {"files", 1},
                               {"kind", "model"},
                               {"message", ""},
                               {"number", INT64_MAX},
                               {"parent", nullptr},
                               {"run", ""}});
  p.publish(p.ada, signed_by(p.ada.repo(), create));
  CHECK(fails_with(ErrorKind::kCorrupt, "'number'", [&] { p.fetch(p.bob); }) == "");
}

TEST_CASE("bug: a rolled-back remote was not noticed") {
  Colleagues p;
  p.declare("ada", p.ada, kEveryRight);
  make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  const auto remote = store::open_remote(p.origin.url, {}, *p.ada.disk, p.ada.pool);
  const std::vector<Digest> old = remote->heads();
  make(p.ada.repo(), "clf", "two");
  p.push(p.ada);
  const auto lost = [&] { return rolled_back(p.ada.repo(), p.origin, remote->heads(), {}); };
  CHECK(lost().empty());
  REQUIRE(remote->publish_heads(remote->heads(), old));
  CHECK(lost() == p.ada.repo().heads());
  p.fetch(p.ada);  // warns, and keeps it in mind
  CHECK(lost() == p.ada.repo().heads());
  p.push(p.ada);  // puts it back
  CHECK(lost().empty());
}

TEST_CASE("a remote that others have pushed to is not rolled back") {
  Colleagues p;
  p.declare("ada", p.ada, kEveryRight);
  p.declare("bob", p.bob, kEveryRight);
  make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  p.fetch(p.bob);
  make(p.bob.repo(), "clf", "two");
  p.push(p.bob);
  RemoteHistory history = remote_history(p.ada.repo(), p.origin, p.quiet);
  CHECK(history.unknown.size() == 1);
  CHECK(rolled_back(p.ada.repo(), p.origin, history.heads, &history.unknown).empty());
}

TEST_CASE("unsigned history of an older mlx counts up to the operations in [people]") {
  Colleagues p;
  Operation old;
  old.kind = "domain.assign";
  old.actor = "00112233aabbccdd";
  old.time = 5;
  old.body = R"({"artifact":"data/x","domain":"people"})";
  old.id = Digest::of(encode(old));
  p.ada.repo().merge({old});
  make(p.ada.repo(), "clf", "one");
  p.push(p.ada);
  CHECK(fails_with(ErrorKind::kRefused, "nobody has signed it", [&] { p.fetch(p.bob); }) == "");
  p.declare("ada", p.ada, kEveryRight);
  declare_unsigned(p.ada.repo(), false);
  write_file_atomically(p.bob.path("mlx.toml"), read_text(p.ada.path("mlx.toml")));
  CHECK(p.fetch(p.bob).operations == 2);
  CHECK(dump(p.ada.repo()) == dump(p.bob.repo()));
}

TEST_CASE("a wrong [people] is an error with its line") {
  Clone c;
  const auto wrong = [&](const std::string& text, const std::string& words) {
    write_file_atomically(c.path("mlx.toml"), text);
    return fails_with(ErrorKind::kUsage, words, [&] { declared_people(c.root); });
  };
  const std::string key = store::ssh_public_key(c.repo().signer().public_key);
  CHECK(wrong("[people.ada]\nkey = \"ssh-rsa AAAA\"\n", "mlx.toml:2") == "");
  CHECK(wrong("[people.ada]\nmay = [\"commit\"]\n", "key") == "");
  CHECK(wrong("[people.ada]\nkey = \"" + key + "\"\nmay = [\"rule\"]\n", "no right 'rule'") == "");
  CHECK(wrong("[people.ada]\nkey = \"" + key + "\"\nuntil = \"yesterday\"\n", "sha256:") == "");
  CHECK(wrong("[people.ada]\nkey = \"" + key + "\"\nages = 3\n", "ages") == "");
  // bug: both counted as if nothing was said, and let everybody in
  CHECK(wrong("[people.ada]\nkey = \"" + key + "\"\nuntil = []\n", "names no operation") == "");
  CHECK(wrong("[people]\n", "names nobody") == "");
  CHECK(wrong("[people]\nunsigned = []\n", "names nobody") == "");
  CHECK(wrong("[people.ada]\nbefore = [{ key = \"" + key + "\" }]\n", "until") == "");
  CHECK(wrong("[people.ada]\nbefore = []\n", "key") == "");
  write_file_atomically(c.path("mlx.toml"), "[people.ada]\nkey = [\"" + key + "\"]\n");
  CHECK(declared_people(c.root).people.at(0).may == std::vector<Right>{Right::kCommit});
}
