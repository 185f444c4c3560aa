#include "registry/audit_trust.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/clock.h"
#include "registry/operation_text.h"
#include "registry/trust.h"

namespace mlx::registry {
namespace {

constexpr std::int64_t kClockSkew = std::int64_t{3600} * 1'000'000;  // clocks of honest machines differ by less
constexpr std::size_t kMost = 1000;

std::string in_words(const Operation& operation) {
  return fmt::format("operation {} ({})", operation.id.brief(), operation_text(operation));
}

// Of an operation whose time is still to come, that one's clock was wrong, and not the clocks of those after it.
void note_wrong_times(const std::vector<Operation>& operations, std::int64_t now, TrustReport& report) {
  const auto note = [&](std::string line) {
    if (report.notes.size() < kMost) report.notes.push_back(std::move(line));
  };
  std::unordered_map<Digest, std::int64_t, DigestHash> time_of;  // of those that are not ahead
  for (const Operation& operation : operations) {
    if (operation.time <= now + kClockSkew) {
      time_of.emplace(operation.id, operation.time);
    } else {
      note(fmt::format("{} is ahead of time: it says {}, and now is {}", in_words(operation), iso_time(operation.time),
                       iso_time(now)));
    }
  }
  for (const Operation& operation : operations) {
    for (const Digest& parent : operation.parents) {
      const auto before = time_of.find(parent);
      if (before == time_of.end() || operation.time >= before->second - kClockSkew) continue;
      note(fmt::format("{} is backdated: it says {}, and {} before it {}", in_words(operation),
                       iso_time(operation.time), parent.brief(), iso_time(before->second)));
      break;
    }
  }
}

}  // namespace

TrustReport verify_trust(Repository& repository, const std::vector<Operation>& operations) {
  TrustReport report;
  const People people = declared_people(repository.root());
  std::unordered_map<Digest, std::vector<Digest>, DigestHash> parents;
  for (const Operation& operation : operations) parents.emplace(operation.id, operation.parents);
  const Trust trust(people, {}, !people.declared, [&](const Digest& id) -> std::optional<std::vector<Digest>> {
    const auto at = parents.find(id);
    return at == parents.end() ? std::nullopt : std::optional(at->second);
  });
  std::vector<std::string> objections(operations.size());
  repository.pool().run(static_cast<std::int64_t>(operations.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    objections[at] = trust.objection(operations[at]);
  });
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (objections[i].empty()) continue;
    auto& list = people.declared || operations[i].is_signed() ? report.problems : report.notes;
    if (list.size() < kMost) list.push_back(fmt::format("{}: {}", in_words(operations[i]), objections[i]));
  }
  note_wrong_times(operations, unix_micros(), report);
  return report;
}

}  // namespace mlx::registry
