#include "registry/maintenance/audit_trust.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "registry/keys/trust.h"

namespace mlx::registry {
namespace {

constexpr std::int64_t kClockSkew = std::int64_t{3600} * 1'000'000;  // clocks of honest machines differ by less
constexpr std::size_t kMostNotes = 1000;

std::string in_words(const Kinds& kinds, const Operation& operation) {
  return "operation " + described(kinds, operation);
}

// Notes each operation once, with the first parent that is later. If an operation's time is in the future, its own
// clock was wrong, so its children are not noted as backdated.
void note_wrong_times(const Kinds& kinds, OperationStage& operations, std::int64_t now, TrustReport& report) {
  const auto note = [&](std::string line) {
    if (report.notes.size() < kMostNotes) report.notes.push_back(std::move(line));
  };
  const std::int64_t latest = now + kClockSkew;
  operations.visit_later_than(latest, [&](const Operation& operation) {
    note(fmt::format("{} is from the future: it is dated {}, and now is {}", in_words(kinds, operation),
                     iso_time(operation.time), iso_time(now)));
  });
  Digest last;
  operations.visit_backdated(kClockSkew, latest, [&](const Link& link) {
    if (link.child.id == last) return;
    last = link.child.id;
    note(fmt::format("{} is backdated: it is dated {}, but its parent {} is dated {}", in_words(kinds, link.child),
                     iso_time(link.child.time), link.parent.brief(), iso_time(link.parent_time)));
  });
}

}  // namespace

TrustReport verify_trust(const Kinds& kinds, const std::string& root, OperationStage& operations, Pool& pool) {
  TrustReport report;
  const People people = declared_people(root);
  const Trust trust(kinds, people, {}, !people.declared, [&](const Digest& id) { return operations.parents_of(id); });
  operations.visit_slices([&](const std::vector<Operation>& chunk) {
    const std::vector<std::string> objections = objections_to(chunk, trust, pool);
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (objections[i].empty()) continue;
      auto& list = people.declared || chunk[i].is_signed() ? report.problems : report.notes;
      if (list.size() < kMostNotes) list.push_back(fmt::format("{}: {}", in_words(kinds, chunk[i]), objections[i]));
    }
  });
  note_wrong_times(kinds, operations, unix_micros(), report);
  return report;
}

}  // namespace mlx::registry
