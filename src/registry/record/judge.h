// Judges what this repository records, takes in and publishes by [people] of mlx.toml (keys/trust.h). Operations from
// elsewhere are judged before anything of them is recorded.
#pragma once

#include <string>
#include <vector>

#include "registry/keys/trust.h"
#include "registry/operations/operation_stage.h"
#include "registry/repository.h"

namespace mlx::registry {

// What this clone records is judged before it is: kRefused, naming who lacks which right and what helps. A run that was
// allowed to begin may end, whatever [people] says meanwhile: that is judged when it is published. Of the operation
// only kind, body and actor are looked at.
void require_may_record(Repository& repository, const Operation& operation);
void require_may_record(Repository& repository, const std::string& kind);
bool may_record(Repository& repository, const std::string& kind);

// kRefused, with who and what, where one of them does not count here. The keys that are met for the first time, and
// taken, where this clone had no operations at all.
std::vector<Digest> require_vouched(Repository& repository, OperationStage& arriving);
// The same of what is about to be published: nobody else would take what [people] does not vouch for.
void require_publishable(Repository& repository, OperationStage& leaving);

}  // namespace mlx::registry
