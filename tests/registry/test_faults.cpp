// The steps at which a change of a repository touches the disk are made to fail: the power goes before every one of
// them, the other faults visit one in four, to take seconds. After each, what stands is sound, nothing committed is
// lost, and the same change goes through when it is tried again.
//
// A change is one row of kActions, done as its command does it. Two things are outside of what fails here: meta.db,
// which SQLite writes and syncs itself, and files for people (pointers), which are replaced as a whole.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "../store/power_loss_disk.h"
#include "../stride.h"
#include "base/fd.h"
#include "clone.h"
#include "fault_helpers.h"
#include "registry/interop/pointer_merge.h"
#include "registry/keys/keys.h"
#include "registry/maintenance/check_metadata.h"
#include "registry/sync/open_repository.h"
#include "registry/sync/sync.h"
#include "registry/versions/domains.h"
#include "registry/versions/references.h"
#include "store/worktree/checkout.h"
#include "store/worktree/update.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

namespace {

constexpr ScryptCost kCheap{10, 1, 1};
constexpr const char* kOldPassphrase = "old";
constexpr const char* kNewPassphrase = "new";

// A project with the dataset data/x, the remote `origin` and another clone beside it, seen through a disk.
struct Clones {
  std::string folder;
  store::Disk& disk;
  std::string passphrase = kOldPassphrase;
  Pool pool{1};
  NoProgress quiet;
  std::unique_ptr<Repository> open;

  std::string root(const std::string& clone = "here") const { return join_path(folder, clone); }
  std::string data(const std::string& file = "") const { return join_path(root(), join_path("data/x", file)); }
  RemoteConfig origin() const { return {"origin", join_path(folder, "origin")}; }
  Repository& repo(const std::string& clone = "here") {
    if (open && open->root() == root(clone)) return *open;
    Environment environment;
    environment.home = shared_home();
    open = std::unique_ptr<Repository>(new Repository(open_repository(root(clone), disk, pool, environment)));
    open->keys().set_unlocker(std::make_shared<KnownPassphrase>(passphrase));
    open->db().run("PRAGMA synchronous = OFF");
    return *open;
  }
};

void write(const std::string& path, std::string_view text) {
  make_folders(parent_path(path));
  write_all(open_file(path, O_WRONLY | O_CREAT | O_TRUNC).get(), as_bytes(text), path);
}

std::string large(char seed) {
  std::string text;
  for (unsigned i = 0; text.size() < 150'000; ++i)
    text += std::to_string((i + static_cast<unsigned>(seed)) * 2654435761u);
  return text;
}

Pointer add(Clones& p, const std::string& artifact = "data/x") {
  Repository& repo = p.repo();
  const std::optional<Pointer> before = read_pointer(repo, artifact);
  repo.store().use_domain(domain_of(repo, artifact));
  const store::ManifestSummary summary = store::add_folder(
      repo.store(), join_path(repo.root(), artifact), before ? &before->digest : nullptr, nullptr, p.pool, p.quiet);
  const Pointer pointer{artifact, ArtifactKind::kDataset, summary.id, summary.files, summary.bytes};
  write_pointer(repo, pointer);
  return pointer;
}

void commit(Clones& p, const std::string& artifact = "data/x") {
  Repository& repo = p.repo();
  NewVersion version;
  version.artifact = artifact;
  version.manifest = repo.store().summarize(read_pointer(repo, artifact).value().digest);
  version.message = "as it stands";
  create_version(repo, version);
}

void add_version(Clones& p, const std::string& text, const std::string& artifact = "data/x") {
  write(join_path(p.root(), artifact + "/text"), text);
  add(p, artifact);
  commit(p, artifact);
}

std::string text_of(Clones& p, const Digest& manifest) {
  const auto entry = p.repo().store().find(manifest, "text");
  return entry ? std::string(as_text(p.repo().store().read_blob(entry->content))) : "";
}

std::string committed_text(Clones& p, const std::string& reference) {
  return text_of(p, resolve(p.repo(), reference).digest);
}

void create(Clones& p, bool encrypted) {
  if (encrypted) {
    make_folders(join_path(p.root(), ".mlx"));
    Keys keys(join_path(p.root(), ".mlx/keys"), p.disk);
    if (!keys.exist()) {
      keys.create(store::make_keys(
          store::passphrase_member(as_bytes(std::string_view(kOldPassphrase)), "passphrase", kCheap, 1), 1));
    }
  }
  Repository::init(p.root(), p.disk, encrypted);
}

// data/x at v1 and v2 ("one", "two") and a large file in both.
void two_versions(Clones& p) {
  create(p, false);
  write(p.data("large"), large('a'));
  add_version(p, "one");
  add_version(p, "two");
}

// A clone `other` with a history and data of its own.
void something_to_fetch(Clones& p) {
  make_folders(p.root("other"));
  Repository::init(p.root("other"), p.disk);
  make(p.repo("other"), "data/y", large('b'), ArtifactKind::kDataset);
}

void encrypted_versions(Clones& p) {
  create(p, true);
  p.repo().keys().change([](store::UnlockedKeys& keys) { store::rotate_domain(keys, "people", 2); });
  assign_domain(p.repo(), "data/p", "people");
  add_version(p, "one");
  add_version(p, "somebody", "data/p");
}

void change_passphrase(Clones& p) {
  p.repo().keys().change([](store::UnlockedKeys& keys) {
    const store::Member fresh =
        store::passphrase_member(as_bytes(std::string_view(kNewPassphrase)), "passphrase", kCheap, 3);
    store::replace_member(keys, keys.file.members.at(0).public_key, fresh, 3);
  });
}

bool opens(Clones& p, const std::string& passphrase) {
  p.open.reset();
  p.passphrase = passphrase;
  try {
    (void)p.repo().keys().unlocked();
    return true;
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kRefused);
    return false;
  }
}

std::map<std::string, std::string> worktree(Clones& p) {
  std::map<std::string, std::string> files;
  for (const std::string& name : list_folder(p.data())) {
    if (!name.starts_with(".mlx-tmp-")) files[name] = read_text(p.data(name));
  }
  return files;
}

struct Action {
  const char* name;
  void (*prepare)(Clones&);
  void (*act)(Clones&);
  bool (*done)(Clones&);     // whether it stands: its whole effect
  void (*between)(Clones&);  // what must hold however far it came
  bool synced = true;        // what it has finished outlives the power
  std::size_t may_take = 0;  // versions that it takes away, the last ones
};

void nothing_more(Clones&) {}

// A version that can be found has all of its lists of files: whoever looks at it (status, fsck) meets no hole.
void versions_have_lists(Clones& p) {
  if (!path_exists(join_path(p.root(), ".mlx/meta.db"))) return;
  p.repo().store().reload();
  for (const Version& version : versions(p.repo())) {
    if (p.repo().store().has(store::ObjectKind::kManifest, version.digest))
      CHECK_FALSE(p.repo().store().entries(version.digest).empty());
  }
}

bool has_what_was_fetched(Clones& p) {
  p.repo().store().reload();
  const auto version = try_resolve(p.repo(), "data/y@v1");
  return version &&
         as_text(p.repo().store().read_blob(p.repo().store().entries(version->digest).at(0).content)) == large('b');
}

void fetch_second(Clones& p) {
  FetchOptions options{FetchContent::kEverything};
  options.allow_unrelated = true;
  fetch(p.repo(), {"second", join_path(p.folder, "second")}, options, p.quiet);
}

// What the remote's heads reach is whole: a new clone gets all of it.
void remote_is_whole(Clones& p) {
  if (!path_exists(join_path(p.origin().url, "heads"))) return;
  TempFolder folder;
  Clones fresh{folder.path(), p.disk};
  make_folders(fresh.root());
  Repository::init(fresh.root(), p.disk);
  fetch(fresh.repo(), p.origin(), {FetchContent::kEverything}, p.quiet);
  fresh.repo().store().reload();
  CHECK(fresh.repo().store().fsck(p.quiet).problems.empty());
  for (const Version& version : versions(fresh.repo())) {
    for (const store::Entry& entry : fresh.repo().store().entries(version.digest))
      CHECK(fresh.repo().store().has_whole_blob(entry.content));
  }
}

const Action kActions[] = {
    {"add",
     [](Clones& p) {
       two_versions(p);
       write(p.data("new"), large('c'));
     },
     [](Clones& p) { add(p); },
     [](Clones& p) {
       const Digest digest = read_pointer(p.repo(), "data/x").value().digest;
       const auto entry = p.repo().store().find(digest, "new");
       return entry && as_text(p.repo().store().read_blob(entry->content)) == large('c');
     },
     [](Clones& p) { CHECK(worktree(p)["new"] == large('c')); }},
    {"commit",
     [](Clones& p) {
       two_versions(p);
       write(p.data("text"), "three");
       add(p);
     },
     [](Clones& p) { commit(p); },
     [](Clones& p) { return versions(p.repo()).size() == 3 && committed_text(p, "data/x@v3") == "three"; },
     [](Clones& p) { CHECK(text_of(p, read_pointer(p.repo(), "data/x").value().digest) == "three"); }},
    {"checkout",
     [](Clones& p) {
       write(p.data(".mlxignore"), "notes\n");
       two_versions(p);
       write(p.data("text"), "three");
       std::filesystem::remove(p.data("large"));
       add(p);
       write(p.data("notes"), "not stored anywhere");
     },
     [](Clones& p) {
       store::checkout(p.repo().store(), resolve(p.repo(), "data/x@v1").digest, p.data(), false, nullptr, p.pool,
                       p.quiet);
     },
     [](Clones& p) {
       return worktree(p) ==
              std::map<std::string, std::string>{
                  {".mlxignore", "notes\n"}, {"large", large('a')}, {"notes", "not stored anywhere"}, {"text", "one"}};
     },
     [](Clones& p) {
       const auto files = worktree(p);
       CHECK(files.at("notes") == "not stored anywhere");
       CHECK((files.at("text") == "three" || files.at("text") == "one"));
       CHECK((!files.contains("large") || files.at("large") == large('a')));
     },
     false},
    {"fetch",
     [](Clones& p) {
       two_versions(p);
       something_to_fetch(p);
       p.open.reset();
       push(p.repo("other"), {"origin", join_path(p.folder, "second")}, p.quiet);
     },
     fetch_second, has_what_was_fetched, versions_have_lists},
    {"clone",
     [](Clones& p) {
       something_to_fetch(p);
       push(p.repo("other"), {"origin", join_path(p.folder, "second")}, p.quiet);
       make_folders(p.root());
     },
     [](Clones& p) {
       create(p, false);
       fetch_second(p);
     },
     has_what_was_fetched, versions_have_lists},
    {"push", two_versions, [](Clones& p) { push(p.repo(), p.origin(), p.quiet); },
     [](Clones& p) {
       return path_exists(join_path(p.origin().url, "heads")) && push_dry_run(p.repo(), p.origin()).operations == 0;
     },
     remote_is_whole},
    {"second push",
     [](Clones& p) {
       two_versions(p);
       push(p.repo(), p.origin(), p.quiet);
       add_version(p, "three");
     },
     [](Clones& p) { push(p.repo(), p.origin(), p.quiet); },
     [](Clones& p) { return push_dry_run(p.repo(), p.origin()).operations == 0; },
     [](Clones& p) {
       CHECK(path_exists(join_path(p.origin().url, "heads")));
       remote_is_whole(p);
     }},
    {"undo", two_versions, [](Clones& p) { undo(p.repo(), "", false); },
     [](Clones& p) { return versions(p.repo()).size() == 1; }, nothing_more, true, 1},
    {"merge-file",
     [](Clones& p) {
       two_versions(p);
       write(p.data("theirs"), "theirs");
       std::filesystem::copy_file(join_path(p.root(), "data/x.mlx"), join_path(p.folder, "base"));
       add(p);
       std::filesystem::rename(join_path(p.root(), "data/x.mlx"), join_path(p.folder, "theirs"));
       std::filesystem::remove(p.data("theirs"));
       write(p.data("ours"), "ours");
       add(p);
     },
     [](Clones& p) {
       const auto read = [&](const std::string& name) {
         return decode_pointer(read_text(join_path(p.folder, name)), name);
       };
       const PointerMerge merged =
           merge_pointers(p.repo(), read("base"), read("here/data/x.mlx"), read("theirs"), store::Favour::kNone, false);
       REQUIRE(merged.conflicts.empty());
       write_pointer(p.repo(), merged.pointer);
     },
     [](Clones& p) {
       const Digest digest = read_pointer(p.repo(), "data/x").value().digest;
       return p.repo().store().find(digest, "ours") && p.repo().store().find(digest, "theirs");
     },
     [](Clones& p) {
       const Digest digest = read_pointer(p.repo(), "data/x").value().digest;
       for (const store::Entry& entry : p.repo().store().entries(digest))
         CHECK(p.repo().store().has_whole_blob(entry.content));
     }},
    {"init --encrypt and first add", [](Clones& p) { make_folders(p.root()); },
     [](Clones& p) {
       create(p, true);
       p.open.reset();
       write(p.data("text"), "one");
       add(p);
     },
     [](Clones& p) { return text_of(p, read_pointer(p.repo(), "data/x").value().digest) == "one"; },
     [](Clones& p) {
       // Whatever stands in packs opens with the keys that stand.
       const std::string packs = join_path(p.root(), ".mlx/packs");
       bool any = false;
       if (is_folder(packs))
         for (const std::string& name : list_folder(packs)) any = any || name.ends_with(".pack");
       if (any) CHECK(opens(p, kOldPassphrase));
     }},
    {"key change-passphrase", encrypted_versions, change_passphrase, [](Clones& p) { return opens(p, kNewPassphrase); },
     [](Clones& p) { CHECK((opens(p, kNewPassphrase) || opens(p, kOldPassphrase))); }},
    {"erase", encrypted_versions, [](Clones& p) { erase(p.repo(), plan_erasure(p.repo(), "people")); },
     [](Clones& p) {
       const std::vector<std::string> left = store::domains(p.repo().keys().file());
       return erasure_of(p.repo(), versions(p.repo(), "data/p").at(0).digest) &&
              std::ranges::find(left, "people") == left.end();
     },
     nothing_more, true, 1},
};

// Versions with the text that they hold.
using Committed = std::vector<std::pair<std::string, Digest>>;
Committed committed(Clones& p) {
  Committed all;
  if (!path_exists(join_path(p.root(), ".mlx/meta.db"))) return all;
  for (const Version& version : versions(p.repo())) all.emplace_back(version.name(), version.digest);
  return all;
}

void expect_sound(Clones& p, const Committed& before, std::size_t may_take) {
  if (!path_exists(join_path(p.root(), ".mlx/meta.db"))) return;
  Repository& repo = p.repo();
  for (const std::string& problem : repo.store().fsck(p.quiet).problems) FAIL_CHECK(problem);
  for (const std::string& problem : check_metadata(repo).problems) FAIL_CHECK(problem);
  for (std::size_t i = 0; i + may_take < before.size(); ++i) {
    const auto& [name, digest] = before[i];
    CHECK(resolve(repo, name).digest == digest);
    for (const store::Entry& entry : repo.store().entries(digest))
      CHECK(repo.store().read_blob(entry.content).size() == entry.size);
  }
}

enum class Fault { kBroken, kFull, kTear, kPowerNames, kPowerForgets };

// One run that fails at call `at`; false once that is behind the last.
bool run_at(const Action& action, const std::string& prepared, Fault fault, int at) {
  TempFolder temp;
  std::filesystem::copy(prepared, temp.path(),
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  UnsyncedDisk sound;
  Clones whole{temp.path(), sound};
  const Committed before = committed(whole);
  whole.open.reset();

  const bool power = fault == Fault::kPowerNames || fault == Fault::kPowerForgets;
  store::PowerLossDisk losing(at);
  using Kind = store::FaultDisk::Fault;
  store::FaultDisk failing(fault == Fault::kBroken ? Kind::kBroken
                           : fault == Fault::kFull ? Kind::kFailAfter
                                                   : Kind::kTear,
                           at);
  bool finished = false;
  {
    Clones place{temp.path(), power ? static_cast<store::Disk&>(losing) : failing};
    try {
      action.act(place);
      finished = true;
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kIo);
      CHECK(error.message.find('/') != std::string::npos);  // the path
    } catch (const store::Killed&) {
    }
  }
  const bool last = (power ? losing.calls() : failing.calls()) < at;
  if (power) losing.lose(fault == Fault::kPowerNames);
  if (!power || action.synced) action.between(whole);
  expect_sound(whole, before, action.may_take);
  if (last) CHECK(finished);
  if (finished && (!power || action.synced)) CHECK(action.done(whole));
  if (power && !action.synced) return !last;
  if (finished || (path_exists(join_path(whole.root(), ".mlx/meta.db")) && action.may_take > 0 && action.done(whole)))
    return !last;  // what died after its operation was written stands, and is not to be done twice
  action.act(whole);
  whole.open.reset();
  CHECK(action.done(whole));
  expect_sound(whole, before, action.may_take);
  return !last;
}

// Visits every `step`-th call; the last run is one that nothing fails in.
void sweep(Fault fault, int step, const std::vector<std::string>& only = {}) {
  const InMemory in_memory;
  for (const Action& action : kActions) {
    if (!only.empty() && std::ranges::find(only, action.name) == only.end()) continue;
    INFO(std::string(action.name));
    TempFolder prepared;
    {
      UnsyncedDisk sound;
      Clones place{prepared.path(), sound};
      action.prepare(place);
    }
    int at = 1;
    for (bool more = true; more; at += step * mlx::test::stride()) {
      CAPTURE(at);
      REQUIRE(at < 200);
      more = run_at(action, prepared.path(), fault, at);
    }
    CHECK(at > 4);
  }
}

}  // namespace

TEST_CASE("EIO at calls of any change: unchanged or done, and a repetition succeeds" * doctest::test_suite("long")) {
  sweep(Fault::kBroken, 4);
}
TEST_CASE("a disk that is full from any call on" * doctest::test_suite("long")) {
  sweep(Fault::kFull, 4);
}
TEST_CASE("death amid any write of any change" * doctest::test_suite("long")) {
  sweep(Fault::kTear, 4);
}
TEST_CASE("a power loss at any call, with everything that was not synced" * doctest::test_suite("long")) {
  sweep(Fault::kPowerNames, 4);
}
TEST_CASE("a power loss at any call, with everything that was not synced and the names of files" *
          doctest::test_suite("long")) {
  sweep(Fault::kPowerForgets, 1);
}

TEST_CASE("bug: a fetch that was killed left versions without their lists of files" * doctest::test_suite("long")) {
  sweep(Fault::kTear, 1, {"fetch", "clone"});
}

TEST_CASE("bug: keys that a killed process had written beside the key file outlived mlx erase") {
  TempFolder folder;
  UnsyncedDisk sound;
  Clones p{folder.path(), sound};
  encrypted_versions(p);
  const std::string left = join_path(p.root(), ".mlx/keys.0123456789abcdef");
  std::filesystem::copy_file(join_path(p.root(), ".mlx/keys"), left);
  erase(p.repo(), plan_erasure(p.repo(), "people"));
  CHECK_FALSE(path_exists(left));
  CHECK(committed_text(p, "data/x@v1") == "one");
}
