// The grammar of references: NAME, NAME@SEL, each with an optional :path. resolve_selector() defines what each selector
// means.
#include "registry/versions/references.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "base/toml.h"
#include "registry/operations/names.h"
#include "registry/versions/pointers.h"
#include "registry/versions/runs.h"

namespace mlx::registry {
namespace {

constexpr std::string_view kSha = "sha256:";

// nullopt if the number overflows: it names nothing then.
std::optional<std::int64_t> number_in(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool is_steps_back(std::string_view selector) {
  return selector.starts_with('~') && number_in(selector.substr(1)).has_value();
}

std::string label_of(const Version& version) {
  return fmt::format("{} ({})", version.name(), version.digest.brief());
}

// The one version found; kConflict, naming all of them and (if known) who set each, if there are several.
Version only_one(const std::vector<Version>& found, const std::string& artifact, const std::string& selector,
                 const std::string& hint, const std::map<Digest, std::string>& sayers = {}) {
  if (found.size() == 1) return found.front();
  std::string list;
  for (const Version& version : found) {
    const auto sayer = sayers.find(version.digest);
    list += (list.empty() ? "" : " and ") + label_of(version) +
            (sayer == sayers.end() ? std::string() : " by " + sayer->second);
  }
  throw Error(ErrorKind::kConflict, fmt::format("{}@{}: means {}", artifact, selector, list), hint);
}

std::vector<Version> with_digests(Repository& repository, const std::string& artifact,
                                  const std::set<Digest>& digests) {
  std::vector<Version> found;
  for (const Digest& digest : digests) {
    if (auto version = version_of(repository, artifact, digest)) found.push_back(std::move(*version));
  }
  return found;
}

std::optional<Version> by_number(Repository& repository, const std::string& artifact, const std::string& selector) {
  const auto number = number_in(std::string_view(selector).substr(1));
  if (!number) return std::nullopt;
  store::Statement select =
      repository.db().prepare("SELECT digest FROM version_numbers WHERE artifact = ? AND number = ?");
  std::set<Digest> digests;
  for (select.bind(artifact, *number); select.step();) digests.insert(select.digest(0));
  const std::vector<Version> found = with_digests(repository, artifact, digests);
  if (found.empty()) return std::nullopt;
  return only_one(found, artifact, selector,
                  "two clones made it: `mlx pull --renumber` gives the local one another number");
}

std::optional<Version> by_steps_back(Repository& repository, const std::string& artifact, std::int64_t steps) {
  std::vector<Version> all = versions(repository, artifact);
  std::ranges::stable_sort(all, {}, &Version::number);
  if (steps < 0 || static_cast<std::uint64_t>(steps) >= all.size()) return std::nullopt;
  return all[all.size() - 1 - static_cast<std::size_t>(steps)];
}

std::optional<Version> by_hex(Repository& repository, const std::string& artifact, const std::string& digits) {
  std::vector<Version> found;
  for (Version& version : versions(repository, artifact)) {
    if (version.digest.hex().starts_with(digits)) found.push_back(std::move(version));
  }
  if (found.empty()) return std::nullopt;
  return only_one(found, artifact, digits, "type more digits of the id");
}

std::optional<Version> by_label(Repository& repository, const std::string& artifact, const std::string& label) {
  store::Statement select = repository.db().prepare(
      "SELECT digest, actor FROM aliases WHERE artifact = ?1 AND alias = ?2 UNION ALL SELECT digest, actor FROM tags"
      " WHERE artifact = ?1 AND tag = ?2");
  std::set<Digest> digests;
  std::map<Digest, std::string> sayers;
  for (select.bind(artifact, label); select.step();) {
    digests.insert(select.digest(0));
    sayers.emplace(select.digest(0), select.text(1));
  }
  const std::vector<Version> found = with_digests(repository, artifact, digests);
  if (found.empty()) return std::nullopt;
  return only_one(found, artifact, label,
                  fmt::format("two clones gave it to different versions: resolve an alias with `mlx promote {}@vN {}`, "
                              "a tag with `mlx tag -d {} {}@vN`",
                              shell_quoted(artifact), shell_quoted(label), shell_quoted(label), shell_quoted(artifact)),
                  sayers);
}

// The versions that an alias named, in the order of its moves; a move to the version that it already named is skipped.
// The last one is its present target.
std::vector<Digest> versions_named(const std::vector<AliasMove>& moves, const std::string& alias) {
  std::vector<Digest> named;
  for (const AliasMove& move : moves) {
    if (move.alias == alias && (named.empty() || named.back() != move.digest)) named.push_back(move.digest);
  }
  return named;
}

std::optional<Version> by_alias_steps(Repository& repository, const std::string& artifact, const std::string& alias,
                                      std::int64_t steps) {
  if (!by_label(repository, artifact, alias)) return std::nullopt;  // throws kConflict if its meaning is ambiguous
  const std::vector<Digest> named = versions_named(alias_moves(repository, artifact), alias);
  if (steps < 0 || static_cast<std::uint64_t>(steps) >= named.size()) return std::nullopt;
  return version_of(repository, artifact, named[named.size() - 1 - static_cast<std::size_t>(steps)]);
}

// The previous target of the artifact's alias, if the alias ever moved from one version to another. Several such
// aliases must agree.
std::optional<Version> by_previous(Repository& repository, const std::string& artifact) {
  const std::vector<AliasMove> moves = alias_moves(repository, artifact);
  std::map<std::string, Version> before;  // by alias
  for (const AliasMove& move : moves) {
    if (before.contains(move.alias) || versions_named(moves, move.alias).size() < 2) continue;
    if (auto version = by_alias_steps(repository, artifact, move.alias, 1)) before.emplace(move.alias, *version);
  }
  if (before.empty()) return std::nullopt;
  std::string list;
  bool agree = true;
  for (const auto& [alias, version] : before) {
    list += fmt::format("{}{} ({} before)", list.empty() ? "" : " and ", label_of(version), alias);
    agree = agree && version.digest == before.begin()->second.digest;
  }
  if (agree) return before.begin()->second;
  throw Error(ErrorKind::kConflict, fmt::format("{}@previous: means {}", artifact, list),
              fmt::format("say whose: {}~1", shell_quoted(artifact + "@" + before.begin()->first)));
}

std::optional<Version> resolve_selector(Repository& repository, const std::string& artifact,
                                        const std::string& selector) {
  if (selector == "latest") return by_steps_back(repository, artifact, 0);
  if (is_version_number(selector)) return by_number(repository, artifact, selector);
  if (is_steps_back(selector))
    return by_steps_back(repository, artifact, *number_in(std::string_view(selector).substr(1)));
  const std::string digits = selector.starts_with(kSha) ? selector.substr(kSha.size()) : selector;
  if (is_hex_prefix(digits)) return by_hex(repository, artifact, digits);
  if (auto version = by_label(repository, artifact, selector)) return version;
  if (selector == "previous") return by_previous(repository, artifact);
  const std::size_t tilde = selector.find('~');
  if (tilde != std::string::npos && is_steps_back(selector.substr(tilde)))
    return by_alias_steps(repository, artifact, selector.substr(0, tilde), *number_in(selector.substr(tilde + 1)));
  return std::nullopt;
}

// The one version that a run made.
Version by_run(Repository& repository, const std::string& reference) {
  const Run run = read_run(repository, reference);
  const std::vector<Version> made = made_by(repository, run);
  if (made.size() == 1) return made.front();
  std::string list;
  for (const Version& version : made) list += (list.empty() ? "" : " and ") + label_of(version);
  if (!made.empty()) throw Error(ErrorKind::kConflict, fmt::format("run:{} made {}", run.id, list), "name one of them");
  throw Error(ErrorKind::kNotFound,
              fmt::format("run:{} made no version: it is {} ({})", run.id, name_of(run.status), run.title),
              "`mlx log --runs` shows what each run made");
}

bool is_run(const std::string& reference) {
  return reference.starts_with("run:");
}

// The version that the worktree's pointer names; it need not be committed.
std::optional<Version> by_pointer(Repository& repository, const std::string& artifact) {
  const std::optional<Pointer> pointer = read_pointer(repository, artifact);
  if (!pointer) return std::nullopt;
  if (auto version = version_of(repository, artifact, pointer->digest)) return version;
  Version version;
  version.artifact = artifact;
  version.kind = pointer->kind;
  version.digest = pointer->digest;
  version.files = pointer->files;
  version.bytes = pointer->size;
  return version;
}

// A hint where the work tree has something at `name` that is no artifact; "" where it has not.
std::string way_to_add(const Repository& repository, const std::string& name, const std::vector<std::string>& names) {
  if (!artifact_name_problem(name).empty() || !path_exists(join_path(repository.root(), name))) return "";
  const auto around =
      std::ranges::find_if(names, [&](const std::string& other) { return name.starts_with(other + "/"); });
  if (around != names.end()) return fmt::format("{} lies in the dataset '{}': name that", name, *around);
  return fmt::format("{} is in the work tree and was not added: `mlx add {}` makes it a dataset", name,
                     shell_quoted(name));
}

[[noreturn]] void no_such_artifact(Repository& repository, const std::string& name) {
  std::vector<std::string> names = artifact_names(repository);
  for (const Pointer& pointer : readable_pointers(repository)) names.push_back(pointer.artifact);
  if (std::ranges::find(names, name) != names.end()) {
    throw Error(ErrorKind::kNotFound, fmt::format("'{}' has no versions", name),
                "`mlx commit -m MESSAGE` makes one of what was added");
  }
  if (const std::string way = way_to_add(repository, name, names); !way.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("no artifact is called '{}'", name), way);
  const std::string meant = did_you_mean(name, names);
  throw Error(ErrorKind::kNotFound, fmt::format("no artifact is called '{}'", name),
              meant.empty() ? "`mlx ls` lists all artifacts" : fmt::format("did you mean '{}'?", meant));
}

[[noreturn]] void no_such_version(Repository& repository, const Reference& reference) {
  std::vector<std::string> words = {"latest"};
  for (const Version& version : versions(repository, reference.name)) {
    words.push_back(fmt::format("v{}", version.number));
    words.insert(words.end(), version.aliases.begin(), version.aliases.end());
    words.insert(words.end(), version.tags.begin(), version.tags.end());
  }
  if (reference.selector == "previous") {
    throw Error(ErrorKind::kNotFound, fmt::format("no alias of '{}' named another version before", reference.name),
                fmt::format("`mlx log {}` lists its versions", shell_quoted(reference.name)));
  }
  const std::string meant = did_you_mean(reference.selector, words);
  throw Error(ErrorKind::kNotFound, fmt::format("'{}' has no version '{}'", reference.name, reference.selector),
              meant.empty() ? fmt::format("`mlx log {}` lists its versions", shell_quoted(reference.name))
                            : fmt::format("did you mean '{}@{}'?", reference.name, meant));
}

std::optional<Version> find_version(Repository& repository, const Reference& reference) {
  if (!reference.selector.empty()) return resolve_selector(repository, reference.name, reference.selector);
  if (auto version = by_pointer(repository, reference.name)) return version;
  return by_steps_back(repository, reference.name, 0);
}

}  // namespace

Reference parse_reference(const std::string& text) {
  Reference reference;
  const std::size_t at = text.find('@');
  std::string_view rest = text;
  const auto bad = [&](const std::string& why) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' is not a reference: {}", text, why),
                "write NAME, NAME@v2, NAME@ALIAS or NAME@v2:path");
  };
  const std::size_t name_end = std::min({at, text.find(':'), text.size()});
  reference.name = text.substr(0, name_end);
  while (reference.name.size() > 1 && reference.name.back() == '/') reference.name.pop_back();
  rest.remove_prefix(name_end);
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    const std::size_t from = rest.starts_with(kSha) ? kSha.size() : 0;
    const std::size_t end = std::min(rest.find(':', from), rest.size());
    reference.selector = std::string(rest.substr(0, end));
    rest.remove_prefix(end);
    if (reference.selector.empty()) bad("nothing follows '@'");
  }
  if (rest.starts_with(':')) {
    reference.path = std::string(rest.substr(1));
    if (reference.name == "run") bad("it names a run, but a version is expected");
    if (reference.path.empty()) bad("nothing follows ':'");
  }
  if (const std::string problem = artifact_name_problem(reference.name); !problem.empty()) bad(problem);
  return reference;
}

Version resolve(Repository& repository, const std::string& text) {
  if (is_run(text)) return by_run(repository, text);
  const Reference reference = parse_reference(text);
  if (auto version = find_version(repository, reference)) return *version;
  if (versions(repository, reference.name).empty()) no_such_artifact(repository, reference.name);
  no_such_version(repository, reference);
}

std::optional<Version> try_resolve(Repository& repository, const std::string& text) {
  if (is_run(text)) return by_run(repository, text);
  return find_version(repository, parse_reference(text));
}

}  // namespace mlx::registry
