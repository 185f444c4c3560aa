#include "registry/audit_trust.h"

#include <fmt/format.h>

#include <functional>

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

// At the first of its parents that says so.
void note_backdated(OperationStage& operations, TrustReport& report) {
  Digest last;
  operations.visit_backdated(kClockSkew, [&](const Link& link) {
    if (link.child.id == last || report.notes.size() == kMost) return;
    last = link.child.id;
    report.notes.push_back(fmt::format("{} is backdated: it says {}, and {} before it {}", in_words(link.child),
                                       iso_time(link.child.time), link.parent.brief(), iso_time(link.parent_time)));
  });
}

// As many as memory may hold whatever the history's length, for all cores to judge.
class Chunk {
 public:
  explicit Chunk(const std::function<void(const std::vector<Operation>&)>& judge) : judge_(judge) {}
  void add(const Operation& operation) {
    constexpr std::size_t kMostOperations = 4096, kMostBytes = 8 << 20;
    bytes_ += operation.body.size();
    operations_.push_back(operation);
    if (operations_.size() == kMostOperations || bytes_ >= kMostBytes) flush();
  }
  void flush() {
    judge_(operations_);
    operations_.clear();
    bytes_ = 0;
  }

 private:
  const std::function<void(const std::vector<Operation>&)>& judge_;
  std::vector<Operation> operations_;
  std::size_t bytes_ = 0;
};

}  // namespace

TrustReport verify_trust(const std::string& root, OperationStage& operations, Pool& pool) {
  TrustReport report;
  const People people = declared_people(root);
  const Trust trust(people, {}, !people.declared, [&](const Digest& id) { return operations.parents_of(id); });
  const std::function<void(const std::vector<Operation>&)> judge = [&](const std::vector<Operation>& chunk) {
    const std::vector<std::string> objections = objections_to(chunk, trust, pool);
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (objections[i].empty()) continue;
      auto& list = people.declared || chunk[i].is_signed() ? report.problems : report.notes;
      if (list.size() < kMost) list.push_back(fmt::format("{}: {}", in_words(chunk[i]), objections[i]));
    }
  };
  Chunk chunk(judge);
  operations.visit([&](const Operation& operation) { chunk.add(operation); });
  chunk.flush();
  note_backdated(operations, report);
  return report;
}

}  // namespace mlx::registry
