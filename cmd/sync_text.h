// What push, fetch and pull say of an exchange.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "registry/sync.h"

namespace mlx::cmd {

std::string sync_text(const char* verb, const std::string& remote, const registry::SyncResult& result);
Json sync_json(const char* schema, const std::string& remote, const registry::SyncResult& result);

}  // namespace mlx::cmd
