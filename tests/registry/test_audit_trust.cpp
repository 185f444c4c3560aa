// What is said afterwards of whose operations are recorded, and of clocks that they were made by.
#include "registry/maintenance/audit_trust.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>

#include "base/fd.h"
#include "colleagues.h"
#include "fails_with.h"
#include "registry/maintenance/gc.h"
#include "registry/operations/clock_doubt.h"
#include "registry/operations/history.h"
#include "registry/record/people.h"

using namespace mlx;
using namespace mlx::registry;
using namespace mlx::registry::test;

TEST_CASE("audit shows what is unsigned, unknown, false or backdated") {
  Colleagues p;
  const Version version = make(p.ada.repo(), "clf", "one");
  std::vector<Operation> history = p.ada.repo().operations();
  const auto judged = [&](const std::vector<Operation>& operations) {
    OperationStage stage;
    for (const Operation& operation : operations) stage.add(operation);
    stage.settle();
    return verify_trust(known_kinds(), p.ada.root, stage, p.ada.pool);
  };
  CHECK(judged(history).problems.empty());
  CHECK(judged(history).notes.empty());
  const auto found = [&](const Operation& operation) {
    std::vector<Operation> with = history;
    with.push_back(operation);
    const TrustReport report = judged(with);
    std::string all;
    for (const std::string& problem : report.problems) all += "problem: " + problem + "\n";
    for (const std::string& note : report.notes) all += "note: " + note + "\n";
    return all;
  };
  Operation operation = unsigned_tag(p.ada, version, "x");  // time 5: long before its parent's
  operation.id = Digest::of(encode(operation));
  CHECK(found(operation).find("nobody has signed it") != std::string::npos);
  CHECK(found(signed_by(p.ada.repo(), operation)).find("is backdated") != std::string::npos);
  Operation altered = signed_by(p.ada.repo(), operation);
  altered.time = 6;
  CHECK(found(altered).find("problem: ") != std::string::npos);
  p.declare("ada", p.ada, kEveryRight);
  CHECK(found(signed_by(p.bob.repo(), operation)).find("nobody in [people]") != std::string::npos);
  p.declare("bob", p.bob, {Right::kPromote});
  CHECK(found(signed_by(p.bob.repo(), operation)).find("bob may not commit") != std::string::npos);
}

TEST_CASE("bug: after an operation of a clock far ahead, honest ones were called backdated") {
  Colleagues p;
  const Version version = make(p.ada.repo(), "clf", "one");
  constexpr std::int64_t kIn2099 = std::int64_t{4'080'000'000} * 1'000'000;
  Operation ahead = unsigned_tag(p.ada, version, "x");
  ahead.time = kIn2099;
  ahead = signed_by(p.ada.repo(), ahead);
  p.ada.repo().merge({ahead});
  create_tag(p.ada.repo(), "y", version);
  OperationStage stage;
  visit_operations(p.ada.repo().db(), [&](const Operation& operation) { stage.add(operation); });
  stage.settle();
  const TrustReport report = verify_trust(known_kinds(), p.ada.root, stage, p.ada.pool);
  CHECK(report.problems.empty());
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].find("tag") != std::string::npos);
  CHECK(report.notes[0].find("is from the future: it is dated 2099-") != std::string::npos);
}

TEST_CASE("bug: a clock far ahead was not reported, and an impossible year was recorded as another") {
  constexpr std::int64_t kYear = std::int64_t{31'556'952} * 1'000'000, kNow = 57 * kYear;
  CHECK(far_ahead(kNow, kNow - kYear).empty());
  CHECK(far_ahead(kNow, kNow + kYear).empty());
  CHECK(far_ahead(kNow + 73 * kYear, kNow).find("73 years after the last") != std::string::npos);
  CHECK(recordable_time(kNow) == kNow);
  CHECK(recordable_time(-kNow) == 0);
  CHECK(fails_with(ErrorKind::kIo, "clock is wrong: it says 12000-",
                   [] { (void)recordable_time(std::int64_t{316'521'000'000} * 1'000'000); }) == "");
  Colleagues p;
  const Version version = make(p.ada.repo(), "clf", "one");
  CHECK(p.ada.repo().clock_doubt().empty());
  p.ada.repo().merge({signed_by(p.ada.repo(), unsigned_tag(p.ada, version, "x"))});  // of 1970: now is long after it
  create_tag(p.ada.repo(), "y", version);
  CHECK(p.ada.repo().clock_doubt().find("years after the last time recorded here") != std::string::npos);
}

TEST_CASE("bug: with a wrong clock gc removed what had arrived seconds before") {
  Colleagues p;
  NoProgress quiet;
  make(p.ada.repo(), "clf", "one");
  const Digest second = make(p.ada.repo(), "clf", "two").digest;
  undo(p.ada.repo(), "", false);
  const std::string folder = join_path(p.ada.repo().mlx_folder(), "packs");
  const auto age = [&](const char* what) {  // as if the clock went forward from here on
    p.ada.repo().db().run(fmt::format("UPDATE taken SET time = time - {}", what));
    for (const std::string& name : list_folder(folder))
      std::filesystem::last_write_time(join_path(folder, name),
                                       std::filesystem::file_time_type::clock::now() - std::chrono::hours(365 * 24));
  };
  const auto keeps_with = [&](std::int64_t grace) {
    p.ada.close();  // what a process has stored stays for it
    p.ada.open();
    const store::GcReport report = collect_garbage(p.ada.repo(), {.grace_seconds = grace}, quiet);
    return report.removed_packs + report.rewritten_packs == 0;
  };
  constexpr std::int64_t kTwoWeeks = 14 * 24 * 3600;
  CHECK(keeps_with(kTwoWeeks));
  SUBCASE("a month is nothing to doubt") {
    age("2678400000000");
    CHECK_FALSE(keeps_with(kTwoWeeks));
  }
  SUBCASE("thirty years are") {
    age("946684800000000");
    CHECK(keeps_with(kTwoWeeks));
    make(p.ada.repo(), "clf", "three");  // nor does the wrong clock vouch for itself
    CHECK(keeps_with(kTwoWeeks));
    CHECK_FALSE(keeps_with(0));
  }
  CHECK(p.ada.repo().store().has(store::ObjectKind::kManifest, second));
}
