// What push, fetch and pull share: which remote is meant, and what they say of an exchange.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "cmd/cli/cli.h"
#include "registry/sync/sync.h"

namespace mlx::cmd {

// The remote of this name; for "" the one of the setting remote.default, `origin`, or the only one.
registry::RemoteConfig chosen_remote(const std::string& name, Context& context);
std::string sync_text(const char* verb, const std::string& remote, const registry::SyncResult& result);
// The artifacts of versions that a fetch brought or would bring, one line each, at most ten.
void print_versions(Context& context, const registry::SyncResult& result);
// What a fetch that changes nothing has found.
std::string would_fetch_text(const std::string& remote, const registry::SyncResult& result);
// As the command line and the setting fetch.filter say.
registry::FetchOptions fetch_options(bool all, bool allow_unrelated, Context& context);
// --allow-unrelated-histories
Option allow_unrelated_flag(bool& allow);
// On operations that came: which had no effect, and which changed what somebody else had made.
void say_remarks(Context& context, const registry::SyncResult& result);
// The keys that a first fetch took.
void say_met(Context& context, const registry::SyncResult& result);
Json sync_json(const char* schema, const std::string& remote, const registry::SyncResult& result);

}  // namespace mlx::cmd
