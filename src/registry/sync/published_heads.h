// Decides whether heads may be published on a remote that is a local folder: by a push into it, or by the server that a
// client talks to. Whoever names the heads is not believed.
#pragma once

#include <vector>

#include "base/hash.h"
#include "registry/operations/kinds.h"
#include "store/pack/store.h"

namespace mlx::registry {

// Checks that the store has all operations that `heads` reach and `before` does not, with their whole ancestry, and
// what these operations name: versions down to the last chunk (unless an operation among them records the loss), sealed
// series, and of attachments what is there at all. Verifies the signatures of new operations; whose they are is judged
// by those who fetch. Throws kRefused with what is missing and how to mend it. Does not check what `before` reaches, so
// that an earlier loss keeps nobody from pushing. If operations are encrypted, it can only check that the heads are
// there.
void check_published(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                     const Kinds& kinds = known_kinds());
// Also checks that the heads still reach all of `before`, as every push's heads do. Only a repair leaves some out.
void check_pushed(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                  const Kinds& kinds = known_kinds());

// The same for a server, where nobody vouches for the sender and no database of the project exists. It applies the
// operations as a fetching clone would (published_history.h), and refuses what a clone would refuse: bodies that cannot
// be applied, histories that have nothing in common, figures that contradict a version's file list, missing
// attachments. An erasure excuses only what it erases.
void judge_published(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                     const Kinds& kinds = known_kinds());
void judge_pushed(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                  const Kinds& kinds = known_kinds());

}  // namespace mlx::registry
