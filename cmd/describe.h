// How versions, runs, files and times look in the output of commands, as text and as JSON; shared by the listings.
#pragma once

#include <cstdint>
#include <string>

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "cmd/cli/foreign_text.h"
#include "registry/record/people.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/domains.h"
#include "registry/versions/runs.h"
#include "store/format/manifest.h"
#include "store/worktree/scan.h"

namespace mlx::cmd {

Json version_json(const registry::Version& version);
// "data/words@v1 train": a split by the name that its dataset's version has here, else by the digest.
std::string split_text(registry::Repository& repository, const Digest& data, const std::string& split);
Json erasure_json(const std::optional<registry::Erasure>& erasure);  // null if there was none
std::string erasure_text(const registry::Erasure& erasure);  // "on 2026-01-31 12:00 by ID, with the domain 'main'"
Json run_json(registry::Repository& repository, const registry::Run& run);
Json entry_json(const store::Entry& entry);  // "path_hex" too where the path is not UTF-8
// "new", "modified", "deleted"; and of the same files once more, "moved" (one of "deleted" and one of "new" with its
// content) and "mode_changed" (those of "modified" whose content is the same).
Json difference_json(const store::Difference& difference);

// Who did something by an operation of theirs, as they were known then: "Ann", else their id.
std::string author_name(const registry::Names& names, const std::string& actor, const Digest& operation);
std::string author_text(const registry::Names& names, const std::string& actor,
                        const Digest& operation);  // with e-mail
Json author_json(const registry::Names& names, const std::string& actor, const Digest& operation);

std::string files_text(std::uint64_t files, std::uint64_t bytes);            // "4 files, 30.9 MiB"
std::string names_text(Context& context, const registry::Version& version);  // " (production, tag: v1.0)", "" for none
std::string local_time(std::int64_t unix_micros);                            // "2026-01-31 12:00"
std::string duration_text(std::int64_t micros);                              // "1.2 s", "3 min 5 s"

// One line a file: "  new       PATH", "  modified  PATH", "  mode      PATH (644 -> 755)", "  deleted   PATH",
// "  moved     OLD -> NEW"; at most `limit` lines and how many more.
void print_difference(Context& context, const store::Difference& difference, std::size_t limit);

}  // namespace mlx::cmd
