// Two people with a remote between them, for tests of whose operations count.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "history_maker.h"
#include "registry/keys/trust.h"
#include "registry/sync/sync.h"
#include "store/remote/transfer.h"

namespace mlx::registry::test {

struct Colleagues {
  TempFolder folder, ada_home, bob_home;
  RemoteConfig origin{"origin", join_path(folder.path(), "origin")};
  Clone ada{"ada", ada_home.path()}, bob{"bob", bob_home.path()};
  NoProgress quiet;

  void push(Clone& c) { registry::push(c.repo(), origin, quiet); }
  SyncResult fetch(Clone& c) {
    SyncResult result = registry::fetch(c.repo(), origin, {FetchContent::kEverything}, quiet);
    c.repo().store().reload();
    return result;
  }
  static Digest key(Clone& c) { return c.repo().signer().public_key; }
  // Declares the same [people] in both clones, as git would bring it.
  void declare(const std::string& name, Clone& who, std::vector<Right> may, std::vector<Digest> until = {}) {
    for (Clone* c : {&ada, &bob}) {
      trust_person(c->root, {name, {key(who)}, may, {}}, false);
      if (!until.empty()) end_trust(c->root, name, until, false);
    }
  }
  // Publishes an operation as a head of the remote, as somebody with access to the remote could.
  Digest publish(Clone& with, const Operation& operation) {
    const auto remote = store::open_remote(origin.url, {}, *with.disk, with.pool);
    const auto batch = with.repo().store().begin();
    const Digest id = batch->add(store::ObjectKind::kOperation, encode(operation));
    batch->commit();
    store::send_objects(with.repo().store(), *remote, {{store::ObjectKind::kOperation, id}}, quiet);
    REQUIRE(remote->publish_heads(remote->heads(), {id}));
    return id;
  }
};

// Not signed yet (clone.h).
inline Operation unsigned_tag(Clone& c, const Version& version, const std::string& name) {
  Operation operation;
  operation.kind = "tag.create";
  operation.actor = "00112233aabbccdd";
  operation.parents = c.repo().heads();
  operation.time = 5;
  operation.body = canonical(Json{{"artifact", version.artifact}, {"digest", version.digest.text()}, {"tag", name}});
  return operation;
}

inline const std::vector<Right> kEveryRight(std::begin(kAllRights), std::end(kAllRights));

}  // namespace mlx::registry::test
