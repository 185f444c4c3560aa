// Selects the content that a fetch brings from all that the operations name, and the key domain that it is stored
// under.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "registry/record/lost.h"
#include "registry/sync/sync.h"
#include "store/remote/remote.h"

namespace mlx::registry {

// The domain that an operation's content is encrypted under: its artifact's, or the history's for content of runs.
std::string domain_of_content(Repository& repository, const Operation& operation, const Json& body);

// Digests by their key domain in this clone; all under "" if the clone is not encrypted.
using ByDomain = std::map<std::string, std::vector<Digest>>;
ByDomain wanted_manifests(Repository& repository, bool everything);  // of pointers, or of all versions
ByDomain wanted_attachments(Repository& repository);

// Removes what somebody erased and the remote no longer has.
void leave_out_erased(Repository& repository, store::Remote& remote, std::vector<Digest>& manifests);
// Returns the manifests that nobody recorded as lost. Calls `receive` for each lost one, since the remote may have it
// after all; `result` names those that it lacks.
std::vector<Digest> without_lost(Repository& repository, const std::vector<Digest>& manifests, const Losses& lost,
                                 SyncResult& result, const std::function<void(const Digest&)>& receive);

}  // namespace mlx::registry
