// What the operations of a remote come to, found out as a clone that fetches them does: each is applied by the rules of
// its kind. For a server, which judges what it is sent and has no database of the project (published_heads.cpp).
//
// What was found out is remembered in the remote's folder, so that a push costs what it brings. Whoever may not write
// there, or finds the file in use, damaged or of another mlx, works it out again; nothing else is lost with it.
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
  PublishedHistory(const store::Store& store, const Kinds& kinds);  // of the remote

  // What has to be there with all that it names.
  struct Required {
    std::vector<Digest> operations;
    bool all = false;  // all that the heads reach: what was published before is not known, or there was nothing
  };
  // Applies what `before` reaches and then what `heads` do. Required are operations that are new and in force, and
  // those that come into force again: an undo or an erasure had excused them. kRefused where a clone would refuse them,
  // where they have nothing in common with what is there, or where one is missing. With `all_kept` the heads reach all
  // of `before`.
  Required take_in(const std::vector<Digest>& before, const std::vector<Digest>& heads, bool all_kept);

  // Behind take_in(). Whether the blobs that an operation in force names have to be there: not those of erased
  // versions, nor what its kind does not keep (forgotten names).
  bool keeps_blobs(const Operation& operation);

  Losses lost();  // behind take_in(): versions whose content is asked of nobody

  void remember();  // once all that is required was found

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
  std::optional<store::Transaction> transaction_;  // of db_, where it is to be remembered
};

}  // namespace mlx::registry
