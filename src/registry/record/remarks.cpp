#include "registry/record/remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "registry/operations/operation_text.h"
#include "registry/record/people.h"

namespace mlx::registry {

namespace {

std::vector<Remark> remarks_where(Repository& repository, const std::function<bool(const Digest&)>& wanted) {
  std::vector<Remark> found;
  std::vector<std::pair<std::string, std::string>> said;  // text, and whose operation
  store::Statement select = repository.db().prepare(
      "SELECT o.bytes, r.ignored, r.what, r.whose, o.id FROM remarks r JOIN operations o ON o.id = r.operation ORDER "
      "BY "
      "o.seq");
  while (select.step()) {
    if (!wanted(select.digest(4))) continue;
    found.push_back({decode(select.blob(0)), select.int64(1) != 0, {}});
    said.emplace_back(select.text(2), select.text(3));
  }
  if (found.empty()) return found;
  const Names names(repository);
  for (std::size_t i = 0; i < found.size(); ++i) {
    Remark& remark = found[i];
    const Person *by = names.of(remark.operation), *whose = names.of(said[i].second);
    remark.text =
        fmt::format("operation {} ({}) by {}{}: {} {}", remark.operation.id.brief(),
                    operation_text(repository.kinds(), remark.operation), by ? by->name : remark.operation.actor,
                    remark.ignored ? " has no effect" : "", said[i].first, whose ? whose->name : said[i].second);
  }
  return found;
}

}  // namespace

std::vector<Remark> remarks(Repository& repository) {
  return remarks_where(repository, [](const Digest&) { return true; });
}

std::vector<Remark> remarks_on(Repository& repository, const Digest& version) {
  std::vector<Remark> found = remarks(repository);
  std::erase_if(found, [&](const Remark& remark) {
    const std::vector<Digest> subjects = operation_subject(repository.kinds(), remark.operation).versions;
    return std::ranges::find(subjects, version) == subjects.end();
  });
  return found;
}

std::vector<std::string> remarks_on(Repository& repository, OperationStage& operations) {
  std::vector<std::string> texts;
  if (operations.empty()) return texts;
  for (Remark& remark : remarks_where(repository, [&](const Digest& id) { return operations.has(id); }))
    texts.push_back(std::move(remark.text));
  return texts;
}

}  // namespace mlx::registry
