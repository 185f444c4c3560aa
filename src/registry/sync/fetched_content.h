// Which content a fetch brings, of all that the operations name, and the domain that it is kept under.
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

// The domain that the content of an operation is encrypted under: its artifact's, and the history's for what belongs to
// runs.
std::string domain_of_content(Repository& repository, const Operation& operation, const Json& body);

// By the domain that they are kept under here; all under "" where this clone keeps them in clear.
using ByDomain = std::map<std::string, std::vector<Digest>>;
ByDomain wanted_manifests(Repository& repository, bool everything);  // those of pointers, or of all versions
ByDomain wanted_attachments(Repository& repository);

// What somebody erased and the remote does not hold any more is not waited for.
void leave_out_erased(Repository& repository, store::Remote& remote, std::vector<Digest>& manifests);
// Those that nobody gave up as lost. `receive` is called with each of the others, which comes if the remote has it all
// the same; where it has not, `result` says so.
std::vector<Digest> without_lost(Repository& repository, const std::vector<Digest>& manifests, const Losses& lost,
                                 SyncResult& result, const std::function<void(const Digest&)>& receive);

}  // namespace mlx::registry
