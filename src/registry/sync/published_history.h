// Applies a remote's operations as a fetching clone would, each by the rules of its kind. Used by a server, which
// judges what it receives and has no database of the project (published_heads.cpp).
//
// The result is cached in the remote's folder, so that a push costs only as much as it brings. If the cache cannot be
// written, is in use, is damaged, or comes from another mlx, the result is computed again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "registry/operations/operation.h"
#include "registry/operations/operation_stage.h"
#include "registry/record/lost.h"
#include "store/pack/store.h"
#include "store/sqlite.h"

namespace mlx::registry {

class PublishedHistory {
 public:
  PublishedHistory(const store::Store& store, const Kinds& kinds);  // the remote's store

  // The operations that must be present with all that they name.
  struct Required {
    std::vector<Digest> operations;
    bool all = false;  // all that the heads reach: nothing was published before, or it is not known what
  };
  // Applies what `before` reaches, then what `heads` reach. Required are new operations in force, and those that come
  // into force again after an undo or an erasure had excused them. Throws kRefused if a clone would refuse the
  // operations, if they have nothing in common with the remote's, or if one is missing. With `all_kept` the heads reach
  // all of `before`.
  Required take_in(const std::vector<Digest>& before, const std::vector<Digest>& heads, bool all_kept);

  // Call after take_in(). True if the blobs that an operation in force names must be present: those of erased versions,
  // and those that the kind does not keep (forgotten names), need not be.
  bool keeps_blobs(const Operation& operation);

  Losses lost();  // call after take_in(): versions whose content is not required

  void remember();  // call once all that is required was found

 private:
  using DigestSet = std::unordered_set<Digest, DigestHash>;

  void open();
  void begin_anew();
  void stage_beyond(const std::vector<Digest>& heads, OperationStage& beyond);
  bool extends(const std::vector<Digest>& heads, OperationStage& beyond);
  void apply(OperationStage& beyond);
  void require_related(OperationStage& beyond);
  bool take_in_before(const std::vector<Digest>& before);
  DigestSet excused();

  const store::Store& store_;
  const Kinds& kinds_;
  std::optional<store::Database> db_;
  std::optional<store::Transaction> transaction_;  // of db_, if the result is to be cached
};

}  // namespace mlx::registry
