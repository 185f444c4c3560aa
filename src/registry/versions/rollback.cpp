// See rollback.h.
#include "registry/versions/rollback.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "registry/versions/references.h"

namespace mlx::registry {
namespace {

std::vector<Digest> moves_of(Repository& repository, const std::string& artifact, const std::string& alias) {
  std::vector<Digest> out;
  for (const AliasMove& move : alias_moves(repository, artifact))
    if (move.alias == alias) out.push_back(move.digest);
  return out;
}

// The versions that lead to the present one, and all that the alias has gone back from: a move to one of the line, or
// to an older version that it named before, goes back.
struct Line {
  std::vector<Digest> versions;
  std::set<Digest> taken_back;
};
Line line_of(Repository& repository, const std::string& artifact, const std::vector<Digest>& moves) {
  const auto number = [&](const Digest& digest) {
    const std::optional<Version> version = version_of(repository, artifact, digest);
    return version ? version->number : 0;
  };
  Line out;
  std::vector<Digest>& line = out.versions;
  std::set<Digest> named;
  for (const Digest& digest : moves) {
    const auto at = std::ranges::find(line, digest);
    if (at != line.end())
      out.taken_back.insert(at + 1, line.end());
    else if (named.contains(digest) && number(digest) < number(line.back()))
      out.taken_back.insert(line.back());
    line.erase(at, line.end());
    line.push_back(digest);
    named.insert(digest);
  }
  return out;
}

Version present(Repository& repository, const std::string& artifact, const std::string& alias) {
  const std::string reference = artifact + "@" + alias;
  Version version = resolve(repository, reference);
  if (std::ranges::find(version.aliases, alias) != version.aliases.end()) return version;
  throw Error(ErrorKind::kUsage, fmt::format("{}: '{}' is no alias", reference, alias),
              "an alias, such as production, is what `mlx promote` moves");
}

Version before(Repository& repository, const Version& from, const std::string& alias,
               const std::vector<Digest>& moves) {
  const Line line = line_of(repository, from.artifact, moves);
  for (auto at = line.versions.rbegin(); at != line.versions.rend(); ++at) {
    if (*at == from.digest || line.taken_back.contains(*at)) continue;
    if (auto version = version_of(repository, from.artifact, *at)) return *version;
  }
  throw Error(
      ErrorKind::kNotFound, fmt::format("{}@{}: there is no version before {}", from.artifact, alias, from.name()),
      fmt::format("--to takes any version that it once named; `mlx audit log {} --kind alias.move` lists its moves",
                  shell_quoted(from.artifact)));
}

Version once_named(Repository& repository, const Version& from, const std::string& alias, const std::string& to,
                   const std::vector<Digest>& moves) {
  const bool whole = to.starts_with("run:") || to.find('@') != std::string::npos;
  Version version = resolve(repository, whole ? to : from.artifact + "@" + to);
  if (version.artifact != from.artifact) fail(ErrorKind::kUsage, "--to {}: it is no version of {}", to, from.artifact);
  if (std::ranges::find(moves, version.digest) != moves.end()) return version;
  throw Error(ErrorKind::kUsage, fmt::format("{}@{} never named {}", from.artifact, alias, version.name()),
              fmt::format("`mlx promote {} {}` moves it to a version that is new to it", shell_quoted(version.name()),
                          shell_quoted(alias)));
}

}  // namespace

Rollback plan_rollback(Repository& repository, const std::string& artifact, const std::string& alias,
                       const std::string& to) {
  const Version from = present(repository, artifact, alias);
  const std::vector<Digest> moves = moves_of(repository, artifact, alias);
  return {from, to.empty() ? before(repository, from, alias, moves) : once_named(repository, from, alias, to, moves)};
}

void roll_back(Repository& repository, const std::string& alias, const Rollback& rollback, const std::string& why) {
  const std::string message = fmt::format("rollback from v{}{}{}", rollback.from.number, why.empty() ? "" : ": ", why);
  move_alias(repository, alias, rollback.to, message, rollback.from.digest);
}

}  // namespace mlx::registry
