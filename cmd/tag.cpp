// mlx tag: gives a version a name that never moves, lists such names, or takes one off again.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/toml.h"
#include "cmd/describe.h"
#include "registry/keys/trust.h"
#include "registry/record/judge.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

struct TagOptions {
  std::string tag, reference;
  bool list = false, remove = false;
};

bool has_tag(const registry::Version& version, const std::string& tag) {
  return std::ranges::find(version.tags, tag) != version.tags.end();
}

Json tag_json(const TagOptions& options, const registry::Version& version, const char* status, Context& context) {
  return {{"schema", "mlx.tag/1"},           {"tag", options.tag}, {"version", version.name()},
          {"digest", version.digest.text()}, {"status", status},   {"dry_run", context.dry_run()}};
}

int create(const TagOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  // `mlx promote` has them the other way round.
  if (options.tag.find('@') != std::string::npos && registry::try_resolve(repository, options.tag)) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' is a version; the name comes first", options.tag),
                fmt::format("mlx tag {} {}", shell_quoted(options.reference), shell_quoted(options.tag)));
  }
  const registry::Version version = registry::resolve(repository, options.reference);
  const bool there = has_tag(version, options.tag);
  if (!there) registry::require_may_record(repository, "tag.create");
  if (!there && !context.dry_run()) registry::create_tag(repository, options.tag, version);
  const char* status = there ? "unchanged" : context.dry_run() ? "would be tagged" : "tagged";
  context.line(fmt::format("{}  {}  {}", context.bold(version.name()), options.tag, status));
  if (context.wants_json()) context.json(tag_json(options, version, there ? "unchanged" : "tagged", context));
  return 0;
}

// The version that loses the tag: the one named, else the only one that has it.
registry::Version tagged_version(const TagOptions& options, registry::Repository& repository) {
  if (!options.reference.empty()) return registry::resolve(repository, options.reference);
  std::vector<registry::Version> found;
  std::vector<std::string> known;
  std::string list;
  for (registry::Version& version : registry::versions(repository)) {
    known.insert(known.end(), version.tags.begin(), version.tags.end());
    if (!has_tag(version, options.tag)) continue;
    list += (list.empty() ? "" : ", ") + version.name();
    found.push_back(std::move(version));
  }
  if (found.size() > 1)
    throw Error(ErrorKind::kConflict, fmt::format("{}: this tag is on {}", options.tag, list),
                fmt::format("say which one loses it: mlx tag -d {} {}", shell_quoted(options.tag),
                            shell_quoted(found.back().name())));
  if (!found.empty()) return found.front();
  const std::string meant = did_you_mean(options.tag, known);
  throw Error(ErrorKind::kNotFound, fmt::format("no version has the tag '{}'", options.tag),
              meant.empty() ? "`mlx tag` lists them" : fmt::format("did you mean '{}'?", meant));
}

int remove(const TagOptions& options, Context& context) {
  registry::Repository& repository = context.repository();
  const registry::Version version = tagged_version(options, repository);
  const bool there = has_tag(version, options.tag);
  if (there) registry::require_may_record(repository, "tag.delete");
  if (there && !context.dry_run()) registry::delete_tag(repository, options.tag, version);
  const char* status = !there ? "unchanged" : context.dry_run() ? "would be taken off" : "taken off";
  context.line(fmt::format("{}  {}  {}", context.bold(version.name()), options.tag, status));
  if (context.wants_json()) context.json(tag_json(options, version, there ? "deleted" : "unchanged", context));
  return 0;
}

int list_tags(Context& context) {
  Json tags = Json::array();
  for (const registry::Version& version : registry::versions(context.repository())) {
    for (const std::string& tag : version.tags) {
      context.line(fmt::format("{}  {}  {}", context.bold(version.artifact + "@" + tag), version.name(),
                               version.digest.brief()));
      tags.push_back({{"tag", tag}, {"version", version.name()}, {"digest", version.digest.text()}});
    }
  }
  if (tags.empty()) context.line("no tags: `mlx tag NAME REF` makes one");
  if (context.wants_json()) context.json({{"schema", "mlx.tag/1"}, {"tags", tags}});
  return 0;
}

int run_tag(const TagOptions& options, Context& context) {
  if (options.list && options.remove) throw Error(ErrorKind::kUsage, "tag: --list and --delete exclude each other");
  if (options.list && !options.tag.empty())
    throw Error(ErrorKind::kUsage, fmt::format("tag: unexpected argument '{}'", options.tag), "--list takes none");
  if (options.remove && options.tag.empty()) throw Error(ErrorKind::kUsage, "tag: --delete needs a NAME");
  if (options.tag.empty()) return list_tags(context);
  if (options.remove) return remove(options, context);
  if (options.reference.empty())
    throw Error(ErrorKind::kUsage, "tag: REF is missing", "usage: mlx tag NAME REF, mlx tag -d NAME, mlx tag");
  return create(options, context);
}

}  // namespace

Command add_tag() {
  auto options = std::make_shared<TagOptions>();
  Command command;
  command.name = "tag";
  command.summary = "Tag a version with a name that never moves, or list tags";
  command.group = "versions";
  command.dry_run = true;
  command.options = {
      optional_argument("NAME", options->tag, "The tag; without one, all are listed"),
      optional_argument("REF", options->reference, "The version", Complete::kReference),
      flag("-l,--list", options->list, "List all tags"),
      flag("-d,--delete", options->remove, "Remove the tag from the version, or from the only one that has it"),
  };
  command.examples = {"mlx tag paper-2026 clf@v3", "mlx tag", "mlx tag -d paper-2026"};
  command.run = [options](Context& context) { return run_tag(*options, context); };
  return command;
}

}  // namespace mlx::cmd
