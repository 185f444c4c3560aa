// People keep what they signed while it counted: a key that is retired, or loses a right, still counts up to today's
// heads.
#include "registry/record/trust_changes.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "registry/keys/trust.h"

namespace mlx::registry {
namespace {

// True if this key has signed something here that needs one of these rights.
bool has_signed(Repository& repository, const Digest& key, const std::vector<Right>& rights) {
  store::Statement select = repository.db().prepare("SELECT bytes FROM operations WHERE signer = ?");
  for (select.bind(key); select.step();) {
    if (std::ranges::find(rights, repository.kinds().right_of(decode(select.blob(0)))) != rights.end()) return true;
  }
  return false;
}

// What the key has signed still counts. If nothing is recorded, there is nothing to keep.
void add_former(TrustedPerson& person, FormerTrust former) {
  if (former.until.empty() || former.may.empty()) return;
  if (std::ranges::find(person.before, former) == person.before.end()) person.before.push_back(std::move(former));
}

void retire_keys(TrustedPerson& person, const std::vector<Digest>& keys, const std::vector<Digest>& until) {
  for (const Digest& key : keys) {
    add_former(person, {key, person.may, until});
    std::erase(person.keys, key);
  }
}

TrustedPerson person_called(const People& people, const std::string& name) {
  const auto known = std::ranges::find(people.people, name, &TrustedPerson::name);
  return known == people.people.end() ? TrustedPerson{name, {}, {}, {}} : *known;
}

}  // namespace

TrustedPerson changed_person(Repository& repository, const TrustChange& change) {
  TrustedPerson person = person_called(declared_people(repository.root()), change.name);
  const std::vector<Digest> heads = repository.heads();
  const std::vector<Right> before = person.keys.empty() ? std::vector<Right>() : person.may;
  std::vector<Right> may = change.may.empty() ? before : change.may;
  if (may.empty()) may = {Right::kCommit};
  if (change.up_to_now) {
    if (heads.empty()) fail(ErrorKind::kNotFound, "there is no recorded operation to vouch for");
    add_former(person, {change.key, may, heads});
    return person;
  }
  if (!person.until.empty()) {
    const std::vector<Digest> until = std::move(person.until);
    person.until.clear();
    retire_keys(person, std::vector<Digest>(person.keys), until);
  }
  const bool counts = std::ranges::find(person.keys, change.key) != person.keys.end();
  if (!counts && !change.again &&
      std::ranges::find(person.before, change.key, &FormerTrust::key) != person.before.end()) {
    throw Error(ErrorKind::kRefused,
                fmt::format("the key {} of {} counts only up to an operation ([people] of mlx.toml)",
                            store::ssh_fingerprint(change.key), change.name),
                "trust a new key of theirs beside it; --again makes this one count again");
  }
  if (change.replace) {
    std::vector<Digest> others = person.keys;
    std::erase(others, change.key);
    retire_keys(person, others, heads);
  }
  std::vector<Right> lost = before;
  std::erase_if(lost, [&](Right right) { return std::ranges::find(may, right) != may.end(); });
  for (const Digest& key : person.keys) {
    if (!lost.empty() && has_signed(repository, key, lost)) add_former(person, {key, lost, heads});
  }
  if (!counts) person.keys.push_back(change.key);
  person.may = may;
  std::erase_if(person.before, [&](const FormerTrust& former) {
    return former.key == change.key &&
           std::ranges::all_of(former.may, [&](Right right) { return std::ranges::find(may, right) != may.end(); });
  });
  return person;
}

std::vector<Digest> undeclared_signers(Repository& repository) {
  DigestSet declared;
  for (const TrustedPerson& person : declared_people(repository.root()).people) {
    declared.insert(person.keys.begin(), person.keys.end());
    for (const FormerTrust& former : person.before) declared.insert(former.key);
  }
  std::vector<Digest> others;
  store::Statement select = repository.db().prepare("SELECT DISTINCT signer FROM operations WHERE signer IS NOT NULL");
  while (select.step()) {
    if (!declared.contains(select.digest(0))) others.push_back(select.digest(0));
  }
  return others;
}

void declare_unsigned(Repository& repository, bool dry_run) {
  std::vector<Digest> last;
  store::Statement select = repository.db().prepare(
      "SELECT id FROM operations o WHERE signer IS NULL AND NOT EXISTS (SELECT 1 FROM operation_parents p JOIN "
      "operations"
      " c ON c.id = p.child WHERE p.parent = o.id AND c.signer IS NULL)");
  while (select.step()) last.push_back(select.digest(0));
  if (last.empty()) return;
  declare_unsigned(repository.root(), last, dry_run);
}

}  // namespace mlx::registry
