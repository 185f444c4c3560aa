// Whether heads may be published on a remote that is a folder here: by a push into it, or by the server that a client
// speaks to. Nobody is believed who names them.
#pragma once

#include <vector>

#include "base/hash.h"
#include "registry/operations/kinds.h"
#include "store/pack/store.h"

namespace mlx::registry {

// Sees that the operations which `heads` reach and `before` do not are in the store with their whole ancestry, and with
// them what they name: versions as far as their last chunk, but for those
// that an operation among them says to be lost, sealed series, and of attachments what is there at all.
// Signatures of new operations are checked, and whose they are is left to those who fetch. kRefused, naming what is
// missing, and what mends it. What `before` reaches is not looked at: what was lost earlier
// keeps nobody from pushing. Of operations that are encrypted it can only be seen that the heads are there.
void check_published(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                     const Kinds& kinds = known_kinds());
// The same, and that the heads still reach all of `before`, as those of every push do: only a repair leaves any out.
void check_pushed(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                  const Kinds& kinds = known_kinds());

// The same where nobody vouches for what is sent: a server's, which knows no database of the project. It applies the
// operations as a clone that fetches them would (published_history.h), and what a clone would refuse is refused: bodies
// that cannot be applied, histories that have nothing in common, figures that the version's list of files belies,
// attachments that are not there, and erasures excuse only what they erase.
void judge_published(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                     const Kinds& kinds = known_kinds());
void judge_pushed(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                  const Kinds& kinds = known_kinds());

}  // namespace mlx::registry
