// run_once(): known answers, what is recorded, and an end whatever happens.
#include <doctest/doctest.h>

#include <filesystem>
#include <new>
#include <stdexcept>

#include "../registry/clone.h"
#include "../registry/fault_helpers.h"
#include "../store/fault_disk.h"
#include "base/error.h"
#include "base/json.h"
#include "registry/live_runs.h"
#include "registry/sync/open_repository.h"
#include "work/work.h"

namespace mlx::work {
namespace {

using registry::test::Clone;

NoProgress silent;

Work some_work() {
  Work work;
  work.command = "train";
  work.title = "mlx train";
  work.params = R"({"seed":1})";
  work.numerics = {Digest::of("sources"), kernels::backend_named("ref")};
  work.makes = {"clf"};
  return work;
}

store::ManifestSummary store_text(store::Store& store, const std::string& text) {
  const std::unique_ptr<store::Batch> batch = store.begin();
  store::Entry entry;
  entry.path = "weights";
  entry.size = text.size();
  entry.content = batch->add_blob(as_bytes(text));
  const store::ManifestSummary summary = batch->add_manifest({entry});
  batch->commit();
  return summary;
}

Json make_clf(ActiveRun& run) {
  store_output(run, {"clf", "trained", std::nullopt},
               [](store::Store& store) { return store_text(store, "weights of clf"); });
  return {{"loss", 0.5}};
}

Outcome run_clf(registry::Repository& repository, const Work& work = some_work()) {
  return run_once(repository, work, make_clf, silent);
}

[[noreturn]] Json never(ActiveRun&) {
  FAIL("the body ran");
  throw std::logic_error("unreachable");
}

registry::Run only_run(registry::Repository& repository) {
  const std::vector<registry::Run> all = registry::runs(repository);
  REQUIRE(all.size() == 1);
  return all[0];
}

TEST_CASE("work makes a version, records how, and is not repeated") {
  Clone clone;
  const Outcome first = run_clf(clone.repo());
  CHECK_FALSE(first.unchanged);
  CHECK(first.recorded);
  REQUIRE(first.versions.size() == 1);
  CHECK(first.versions[0].name() == "clf@v1");
  CHECK(first.versions[0].run == first.run.id);
  CHECK(first.run.status == registry::RunStatus::kDone);
  CHECK(first.run.key == key_of(some_work()));
  CHECK(first.run.summary == R"({"loss":0.5})");
  CHECK(first.run.outputs.at(0).version == first.versions[0].digest);
  const Json machine = parse_json(first.run.environment, "environment");
  CHECK(machine.at("numerics") == numerics_id(some_work().numerics).text());
  CHECK(machine.at("kernels") == "ref");
  CHECK(machine.at("threads") == clone.pool.threads());

  const std::size_t operations = clone.repo().operations().size();
  const Outcome again = run_once(clone.repo(), some_work(), never, silent,
                                 [](Work&) { FAIL("work whose answer is known was prepared"); });
  CHECK(again.unchanged);
  CHECK(again.run.id == first.run.id);
  CHECK(again.versions.at(0).name() == "clf@v1");
  CHECK(clone.repo().operations().size() == operations);
}

TEST_CASE("force runs it again; the same bytes are the same version") {
  Clone clone;
  const Outcome first = run_clf(clone.repo());
  Work work = some_work();
  work.force = true;
  const Outcome forced = run_clf(clone.repo(), work);
  CHECK_FALSE(forced.unchanged);
  CHECK(forced.run.id != first.run.id);
  CHECK(forced.versions.at(0).name() == "clf@v1");
  CHECK(registry::versions(clone.repo(), "clf").size() == 1);
}

TEST_CASE("the key contains everything that determines the result, and nothing else") {
  using Change = void (*)(Work&);
  const Change decides[] = {
      [](Work& work) { work.command = "eval"; },
      [](Work& work) {
        work.inputs = {{"data", Digest::of("data")}};
      },
      [](Work& work) { work.params = R"({"seed":2})"; },
      [](Work& work) { work.numerics.sources = Digest::of("other sources"); },
      [](Work& work) { work.numerics.backend = kernels::backend_named("avx2"); },
      [](Work& work) { work.numerics.backend.reset(); },
      [](Work& work) { work.numerics.portable = true; },
  };
  std::vector<Digest> keys{key_of(some_work())};
  for (const Change change : decides) {
    Work work = some_work();
    change(work);
    keys.push_back(key_of(work));
  }
  std::ranges::sort(keys);
  CHECK(std::ranges::adjacent_find(keys) == keys.end());

  Work same = some_work();
  same.title = "mlx train -v";
  same.makes = {"price"};
  same.force = same.runs_unrecorded = true;
  CHECK(key_of(same) == key_of(some_work()));
}

TEST_CASE("the role of an input counts, and portable kernels are the same on every backend") {
  Work one = some_work(), other = some_work();
  one.inputs = {{"data", Digest::of("a")}, {"model", Digest::of("b")}};
  other.inputs = {{"model", Digest::of("a")}, {"data", Digest::of("b")}};
  CHECK(key_of(one) != key_of(other));
  one = other;
  one.numerics = {Digest::of("sources"), kernels::backend_named("avx2"), true};
  other.numerics = {Digest::of("sources"), kernels::backend_named("avx512"), true};
  CHECK(key_of(one) == key_of(other));
}

TEST_CASE("a foreign command is identified by its files, whatever this machine's kernels") {
  const Numerics foreign{Digest::of("train.py"), std::nullopt};
  CHECK(numerics_id(foreign) == numerics_id({Digest::of("train.py"), std::nullopt}));
  CHECK(numerics_id(foreign) != numerics_id({Digest::of("other.py"), std::nullopt}));
  CHECK_FALSE(environment(foreign, 2).contains("kernels"));
}

TEST_CASE("an answer counts only while its version still has the name that the work makes") {
  Clone clone;
  const Outcome first = run_clf(clone.repo());
  Work renamed = some_work();
  renamed.makes = {"price"};
  const auto body = [](ActiveRun& run) {
    store_output(run, {"price", "trained", std::nullopt},
                 [](store::Store& store) { return store_text(store, "weights of clf"); });
    return Json::object();
  };
  const Outcome other = run_once(clone.repo(), renamed, body, silent);
  CHECK_FALSE(other.unchanged);
  CHECK(other.versions.at(0).name() == "price@v1");
  CHECK(other.versions.at(0).digest == first.versions.at(0).digest);
}

TEST_CASE("a body that throws ends its run, and none of its versions is visible") {
  struct Bad {
    std::function<void()> fail;
    const char* status;
    const char* error;
  };
  // bug: an exception that was neither an Error nor bad_alloc left the run "running".
  const Bad all[] = {
      {[] { throw Error(ErrorKind::kCorrupt, "bad weights", "mend them"); }, "failed", "bad weights"},
      {[] { throw Error(ErrorKind::kInterrupted, "interrupted"); }, "interrupted", "interrupted"},
      {[] { throw std::bad_alloc(); }, "failed", "out of memory"},
      {[] { throw std::runtime_error("no such luck"); }, "failed", "no such luck"},
      {[] { throw 7; }, "failed", "unknown error"},
  };
  for (const Bad& bad : all) {
    CAPTURE(bad.error);
    Clone clone;
    const auto body = [&](ActiveRun& run) {
      Json summary = make_clf(run);
      bad.fail();
      return summary;
    };
    CHECK_THROWS(run_once(clone.repo(), some_work(), body, silent));
    const registry::Run run = only_run(clone.repo());
    CHECK(std::string_view(name_of(run.status)) == bad.status);
    CHECK(run.error == bad.error);
    CHECK(registry::versions(clone.repo(), "clf").empty());
    // It is no answer.
    CHECK_FALSE(run_clf(clone.repo()).unchanged);
  }
}

TEST_CASE("a signal that ends the body does not prevent recording the end, and stays pending") {
  Clone clone;
  const auto body = [&](ActiveRun& run) -> Json {
    clone.interruption.raise(2);
    run.repository.interruption().check();
    return {};
  };
  CHECK_THROWS_AS(run_once(clone.repo(), some_work(), body, silent), Error);
  CHECK(clone.interruption.signal() == 2);
  CHECK(only_run(clone.repo()).status == registry::RunStatus::kInterrupted);
}

TEST_CASE("work that is refused before the run begins leaves no run") {
  Clone clone;
  const Prepare refuse = [](Work&) { throw Error(ErrorKind::kUsage, "does not fit"); };
  CHECK_THROWS_WITH_AS(run_once(clone.repo(), some_work(), never, silent, refuse), "does not fit", Error);
  CHECK(registry::runs(clone.repo()).empty());
}

TEST_CASE("work continues in the run to resume, unless that is done or another process works on it") {
  Clone clone;
  const auto stop = [](ActiveRun&) -> Json { throw Error(ErrorKind::kInterrupted, "interrupted"); };
  CHECK_THROWS_AS(run_once(clone.repo(), some_work(), stop, silent), Error);
  const std::string stopped = only_run(clone.repo()).id;
  const auto go_on = [&](ActiveRun& run) {
    CHECK(run.id == stopped);
    CHECK(run.work.resume == "run:" + stopped);
    registry::resume_run(clone.repo(), run.id, 0);
    return make_clf(run);
  };
  const Prepare take_up = [&](Work& work) { work.resume = "run:" + stopped; };
  {
    registry::Repository other = registry::open_repository(clone.root, *clone.disk, clone.pool);
    other.live_runs().hold(stopped);
    CHECK_THROWS_WITH_AS(run_once(clone.repo(), some_work(), never, silent, take_up),
                         doctest::Contains("another process is working on it"), Error);
    other.live_runs().let_go(stopped);
  }
  CHECK(run_once(clone.repo(), some_work(), go_on, silent, take_up).run.id == stopped);
  CHECK(only_run(clone.repo()).status == registry::RunStatus::kDone);
  Work done = some_work();
  done.resume = stopped;
  CHECK(run_once(clone.repo(), done, never, silent).unchanged);
}

TEST_CASE("attachments are recorded with the end") {
  Clone clone;
  const registry::Version model = registry::test::make(clone.repo(), "clf", "weights");
  Work work = some_work();
  work.command = "eval";
  work.inputs = {{"model", model.digest}};
  work.makes.clear();
  const auto body = [&](ActiveRun& run) {
    run.attachments.push_back({model.digest, "evaluation", "test", "{}"});
    CHECK(registry::attachments(clone.repo(), model.digest).empty());
    return Json{{"accuracy", 1.0}};
  };
  const Outcome outcome = run_once(clone.repo(), work, body, silent);
  CHECK(outcome.versions.empty());
  REQUIRE(registry::attachments(clone.repo(), model.digest).size() == 1);
  CHECK(registry::attachments(clone.repo(), model.digest)[0].kind == "evaluation");
  CHECK(run_once(clone.repo(), work, never, silent).unchanged);
}

TEST_CASE("a repository that is removed while the body runs is reported") {
  Clone clone;
  const auto body = [&](ActiveRun&) {
    std::filesystem::remove_all(join_path(clone.root, ".mlx"));
    return Json::object();
  };
  Work work = some_work();
  work.makes.clear();
  CHECK_THROWS_WITH_AS(run_once(clone.repo(), work, body, silent), doctest::Contains("was removed during the run"),
                       Error);
}

// The repository of a clone on another disk.
struct OnDisk {
  OnDisk(Clone& clone, store::Disk& disk) {
    clone.close();
    Environment environment;
    environment.home = clone.home;
    repository.reset(new registry::Repository(registry::open_repository(clone.root, disk, clone.pool, environment)));
  }
  std::unique_ptr<registry::Repository> repository;
};

struct Warnings final : Progress {
  void begin(std::string_view, std::uint64_t, std::string_view) override {}
  void advance(std::uint64_t) override {}
  void note(std::string_view) override {}
  void end() override {}
  void warn(std::string_view text) override { all += text; }
  std::string all;
};

TEST_CASE("on a full disk, work that allows it runs without a record") {
  for (const bool unrecorded : {true, false}) {
    Clone clone;
    (void)clone.repo().signer();
    store::FaultDisk full(store::FaultDisk::Fault::kFailAfter, 1);
    const OnDisk on(clone, full);
    Work work = some_work();
    work.command = "eval";
    work.makes.clear();
    work.runs_unrecorded = unrecorded;
    Warnings warnings;
    bool ran = false;
    const auto body = [&](ActiveRun& run) {
      ran = true;
      CHECK(run.id.empty());
      return Json::object();
    };
    if (unrecorded) {
      CHECK_FALSE(run_once(*on.repository, work, body, warnings).recorded);
      CHECK(warnings.all.find("this eval is not recorded: ") == 0);
    } else {
      CHECK_THROWS_AS(run_once(*on.repository, work, body, warnings), Error);
    }
    CHECK(ran == unrecorded);
  }
}

// A process that dies, or a disk that fails, before any call to it: between the version and the end, too. What is run
// again finds the version or makes it, and is done.
TEST_CASE("stopped or failing at any write, then run again: one version, and one done run") {
  const registry::test::InMemory in_memory;
  for (const store::FaultDisk::Fault fault : {store::FaultDisk::Fault::kDie, store::FaultDisk::Fault::kFail}) {
    bool reached_end = false, version_without_end = false;
    for (int at = 1; !reached_end; ++at) {
      CAPTURE(at);
      Clone clone;
      (void)clone.repo().signer();
      store::FaultDisk disk(fault, at);
      try {
        const OnDisk on(clone, disk);
        run_clf(*on.repository);
      } catch (const store::Killed&) {
      } catch (const Error&) {
      }
      reached_end = disk.calls() < at;
      clone.open();
      const std::vector<registry::Run> before = registry::runs(clone.repo());
      const bool done = !before.empty() && before[0].status == registry::RunStatus::kDone;
      for (const registry::Run& run : before) CHECK(run.status != registry::RunStatus::kRunning);
      const bool version = !registry::versions(clone.repo(), "clf").empty();
      CHECK((version || !done));
      version_without_end = version_without_end || (version && !done);
      const Outcome again = run_clf(clone.repo());
      CHECK(again.unchanged == done);
      CHECK(again.run.status == registry::RunStatus::kDone);
      CHECK(again.versions.at(0).name() == "clf@v1");
      CHECK(registry::versions(clone.repo(), "clf").size() == 1);
    }
    CHECK(version_without_end);
  }
}

}  // namespace
}  // namespace mlx::work
