// Walks from the new heads, and from the old heads at twice the pace. The walks find what both reach near the point
// where the two histories part, so a push costs as much as it brings, and not as much as the remote holds.
#include "registry/sync/published_heads.h"

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "registry/operations/body.h"
#include "registry/operations/content.h"
#include "registry/operations/operation.h"
#include "registry/operations/undone.h"
#include "registry/record/lost.h"
#include "registry/sync/claims.h"
#include "registry/sync/published_history.h"
#include "store/crypto/keys.h"
#include "store/limits.h"
#include "store/remote/transfer.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;
using DigestSet = std::unordered_set<Digest, DigestHash>;

// Old operations that are always read: their versions share most of their files with new ones.
constexpr int kLookBack = 64;
constexpr int kPace = 2;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::kRefused, fmt::format("the heads were not published: {}", what),
              "push from a clone that has everything; `mlx push --repair` sends again what the remote has lost");
}

void insert_all(const std::vector<Digest>& digests, DigestSet& found) {
  found.insert(digests.begin(), digests.end());
}

[[noreturn]] void refuse_lie(const std::string& what) {
  throw Error(ErrorKind::kRefused, fmt::format("the heads were not published: {}", what),
              "no clone would accept it: the signer was wrong or lied");
}

// Roles whose content may be absent.
constexpr Role kExcusing[] = {Role::kTakenBack, Role::kErased, Role::kLost};
bool excuses(const Kind& kind) {
  return std::ranges::any_of(kExcusing, [&](Role role) { return kind.content.has(role); });
}

class Published {
 public:
  Published(const store::Store& store, const Kinds& kinds, bool judged)
      : store_(store), kinds_(kinds), judged_(judged) {}

  // Checks that the versions of the operations in force are present, as claimed, with every attachment that is not
  // excused. If all of the history counts as new, it may have been lost elsewhere, and versions that are absent are
  // skipped.
  void check_required(const PublishedHistory::Required& required, PublishedHistory& history) {
    for (const auto& [version, loss] : history.lost()) lost_.insert(version);
    for (const Digest& id : required.operations) {
      const Operation operation = read(id);
      const Content content = content_of(kinds_, operation);
      check_named(content);
      if (required.all) continue;
      for (const Digest& manifest : content.of(Role::kVersion)) {
        if (!store_.has(ObjectKind::kManifest, manifest)) continue;  // lost, or check_named() had refused it
        if (const std::string wrong = false_claim(kinds_, operation, store_.summarize(manifest)); !wrong.empty())
          refuse_lie(wrong);
      }
      for (const Digest& blob : content.of(Role::kBlob)) {
        if (!store_.has_blob(blob) && history.keeps_blobs(operation))
          refuse(fmt::format("operation {}: attachment {} is missing", id.brief(), blob.brief()));
      }
    }
  }

  void walk(const std::vector<Digest>& before, const std::vector<Digest>& heads) {
    old_.todo.assign(before.begin(), before.end());
    unmet_.insert(before.begin(), before.end());
    std::deque<Digest> todo(heads.begin(), heads.end());
    for (int i = 0; i < kLookBack; ++i) step_back();
    while (!todo.empty()) {
      store_.interruption().check();
      const Digest id = todo.front();
      todo.pop_front();
      unmet_.erase(id);
      if (old_.seen.contains(id) || !walked_.insert(id).second) continue;
      const Operation operation = read(id);
      check_signature(operation);
      todo.insert(todo.end(), operation.parents.begin(), operation.parents.end());
      note(operation);
      for (int i = 0; i < kPace; ++i) step_back();
    }
  }

  // Call after walk(). Old heads that it did not meet are ancestors of other old heads, or were left out.
  void check_all_kept(const std::vector<Digest>& heads) {
    if (unmet_.empty()) return;
    DigestSet seen;
    for (std::vector<Digest> todo = heads; !todo.empty() && !unmet_.empty();) {
      store_.interruption().check();
      const Digest id = todo.back();
      todo.pop_back();
      if (!seen.insert(id).second) continue;
      unmet_.erase(id);
      if (!store_.has(ObjectKind::kOperation, id)) continue;  // lost earlier
      const Operation operation = read(id);
      todo.insert(todo.end(), operation.parents.begin(), operation.parents.end());
    }
    if (unmet_.empty()) return;
    throw Error(ErrorKind::kRefused,
                fmt::format("the heads were not published: they leave out operation {}, which is there",
                            unmet_.begin()->brief()),
                "`mlx pull` first; only `mlx push --repair` leaves out what is there, where the server lets it "
                "(serve-store --repair)");
  }

  void check_content() {
    std::ranges::sort(naming_);
    settle_undone();
    try {
      check_noted();
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kRefused) throw;
      // It may belong to an older operation that the walk back did not reach.
      while (!old_.todo.empty()) step_back();
      check_noted();
    }
  }

 private:
  struct Old {
    std::deque<Digest> todo;
    DigestSet seen;
    std::vector<std::pair<Digest, Digest>> versions;  // operation and manifest
  };

  Operation read(const Digest& id) const {
    if (!store_.has(ObjectKind::kOperation, id)) refuse(fmt::format("operation {} is missing", id.brief()));
    return decode(store_.read(ObjectKind::kOperation, id));
  }

  // Without this check a restricted client could publish what nobody can pull.
  void check_signature(const Operation& operation) const {
    if (operation.is_signed()) {
      if (!signature_holds(operation))
        refuse(fmt::format("operation {}: its signature is invalid", operation.id.brief()));
      return;
    }
    for (const Digest& parent : operation.parents) {
      if (read(parent).is_signed())
        refuse(fmt::format("operation {} is not signed, although an earlier one is", operation.id.brief()));
    }
  }

  // Reads one more of the remote's operations. One that was lost or damaged earlier does not block a push.
  void step_back() {
    if (old_.todo.empty()) return;
    const Digest id = old_.todo.front();
    old_.todo.pop_front();
    if (!old_.seen.insert(id).second) return;
    try {
      const Operation operation = decode(store_.read(ObjectKind::kOperation, id));
      old_.todo.insert(old_.todo.end(), operation.parents.begin(), operation.parents.end());
      for (const Digest& manifest : content_of(kinds_, operation).of(Role::kVersion))
        old_.versions.emplace_back(id, manifest);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
    }
  }

  void note(const Operation& operation) {
    if (judged_) return;
    if (taken_back_by(kinds_, operation)) undos_.push_back(operation.id);
    const Content content = content_of(kinds_, operation);
    // An operation cannot erase another clone's `main`.
    if (!content.of(Role::kErased).empty() &&
        text_in(parse_json(operation.body, operation.kind), "domain") != store::kMainDomain)
      insert_all(content.of(Role::kErased), erased_);
    insert_all(content.of(Role::kLost), lost_);  // content recorded as lost is required from nobody
    if (content.travels()) naming_.push_back(operation.id);
  }

  // Undone content may be absent. Restored content must be present, even if it was pushed before.
  void settle_undone() {
    std::map<Digest, std::size_t> deepest;  // of undos of undos: the depth, by the operation at the end of the chain
    for (const Digest& undo : undos_) {
      const Chain chain = chain_of(undo);
      std::size_t& depth = deepest[chain.subject];
      depth = std::max(depth, chain.depth);
    }
    for (const auto& [id, depth] : deepest) {
      if (depth % 2 == 1) taken_back_.insert(id);
      if (depth % 2 == 0) brought_back_.push_back(content_of(kinds_, read(id)));
    }
  }

  struct Chain {
    Digest subject;  // not an undo
    std::size_t depth = 0;
  };
  Chain chain_of(const Digest& undo) {
    std::vector<Digest> passed;
    Chain chain{undo};
    for (;;) {
      if (const auto known = chains_.find(chain.subject); known != chains_.end()) {
        chain = known->second;
        break;
      }
      const Operation operation = read(chain.subject);
      const Kind* const kind = kinds_.find(operation.kind);
      if (!kind || !kind->content.has(Role::kTakenBack)) break;
      const std::optional<Digest> of = taken_back_by(kinds_, operation);
      if (!of) refuse(fmt::format("operation {} undoes nothing", operation.id.brief()));
      passed.push_back(chain.subject);
      chain.subject = *of;
    }
    for (auto id = passed.rbegin(); id != passed.rend(); ++id) {
      ++chain.depth;
      chains_[*id] = chain;
    }
    return chain;
  }

  void check_noted() {
    for (const Content& content : brought_back_) check_named(content);
    for (const Digest& id : naming_) {
      if (!old_.seen.contains(id) && !taken_back_.contains(id)) check_named(content_of(kinds_, read(id)));
    }
  }

  void check_named(const Content& content) {
    for (const Digest& manifest : content.of(Role::kVersion)) check_version(manifest);
    for (const Digest& series : content.of(Role::kSeries)) {
      if (!store_.has_whole_blob(series)) refuse(fmt::format("metrics {} are missing", series.brief()));
    }
    for (const Digest& blob : content.of(Role::kBlob)) {
      if (store_.has_blob(blob) && !store_.has_whole_blob(blob))
        refuse(fmt::format("attachment {} is incomplete", blob.brief()));
    }
  }

  void check_version(const Digest& manifest) {
    if (erased_.contains(manifest) || lost_.contains(manifest) || versions_.contains(manifest)) return;
    if (!store_.has(ObjectKind::kManifest, manifest)) refuse(fmt::format("version {} is missing", manifest.brief()));
    note_old_shards();
    for (const store::ShardRef& shard : store_.shards(manifest)) {
      if (shards_.contains(shard.id)) continue;
      check_shard(manifest, shard);
      shards_.insert(shard.id);
    }
    versions_.insert(manifest);
  }

  void check_shard(const Digest& manifest, const store::ShardRef& shard) {
    store_.interruption().check();
    if (!store_.has(ObjectKind::kShard, shard.id)) refuse(fmt::format("version {} is incomplete", manifest.brief()));
    for (const store::Entry& entry : store::decode_shard(store_.read(ObjectKind::kShard, shard.id))) {
      if (files_.contains(entry.content)) continue;
      if (!store_.has_whole_blob(entry.content))
        refuse(fmt::format("version {} is incomplete: file {} is missing", manifest.brief(), entry.content.brief()));
      if (store_.open_blob(entry.content).size() != entry.size)
        refuse(fmt::format("version {} states another size for file {}", manifest.brief(), entry.content.brief()));
      files_.insert(entry.content);
    }
  }

  // Notes the shards of versions that were published whole, because pushers build on them. A version that was ever
  // undone, erased or recorded as lost is excluded: its content may never have been sent.
  void note_old_shards() {
    if (std::exchange(noted_old_shards_, true) || old_.versions.empty()) return;
    const DigestSet excused = ever_excused();
    for (const auto& [operation, manifest] : old_.versions) {
      if (excused.contains(operation) || excused.contains(manifest)) continue;
      try {
        for (const store::ShardRef& shard : store_.shards(manifest)) {
          if (store_.has(ObjectKind::kShard, shard.id)) shards_.insert(shard.id);
        }
      } catch (const Error& error) {
        // The version was lost.
        if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
      }
    }
  }

  // Everything that an undo or erasure here refers to, reached or not, and the versions that anybody recorded as lost.
  DigestSet ever_excused() const {
    DigestSet found;
    for (const Digest& id : store_.operations()) {
      try {
        const Bytes bytes = store_.read(ObjectKind::kOperation, id);
        const std::string_view text = as_text(bytes);
        // Cheaper than decoding all of them.
        if (std::ranges::none_of(kinds_.rows(), [&](const Kind* kind) {
              return excuses(*kind) && text.find(kind->name) != std::string_view::npos;
            }))
          continue;
        const Content content = content_of(kinds_, decode(bytes));
        for (const Role role : kExcusing) insert_all(content.of(role), found);
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
      }
    }
    return found;
  }

  const store::Store& store_;
  const Kinds& kinds_;
  const bool judged_;  // a PublishedHistory decides what is required
  Old old_;
  DigestSet walked_, unmet_;
  std::vector<Digest> undos_;
  std::unordered_map<Digest, Chain, DigestHash> chains_;  // by undo
  std::vector<Digest> naming_;                            // new operations that name content; there may be many
  DigestSet taken_back_;                                  // those of them that were undone
  std::vector<Content> brought_back_;                     // content of operations that were undone before
  DigestSet erased_, lost_, versions_, shards_, files_;
  bool noted_old_shards_ = false;
};

// A remote is either encrypted or not; nobody could read a mixture.
bool all_sealed(const store::Store& store, const std::vector<Digest>& heads) {
  const auto sealed = [&](const Digest& head) { return store::is_sealed(store, ObjectKind::kOperation, head); };
  const auto count = std::ranges::count_if(heads, sealed);
  if (count != 0 && count != std::ssize(heads)) refuse("some of them are encrypted and some are not");
  return count != 0;
}

struct Check {
  const Kinds& kinds;
  bool all_kept = false;  // the heads reach all that was there
  bool judged = false;    // nobody else has applied the new operations
};

void check(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
           const Check& how) {
  if (heads.size() > store::kMaxHeads) refuse(fmt::format("there are more than {}", store::kMaxHeads));
  if (heads.empty() && !before.empty()) refuse("there are none now, but there were some");
  for (const Digest& head : heads) {
    if (!store.has(ObjectKind::kOperation, head)) refuse(fmt::format("operation {} is missing", head.brief()));
  }
  if (all_sealed(store, heads)) {
    if (std::ranges::any_of(before, [&](const Digest& head) {
          return store.has(ObjectKind::kOperation, head) && !store::is_sealed(store, ObjectKind::kOperation, head);
        }))
      refuse("they are encrypted, but the remote's operations are not");
    return;
  }
  Published published(store, how.kinds, how.judged);
  published.walk(before, heads);
  if (how.all_kept) published.check_all_kept(heads);
  if (!how.judged) return published.check_content();
  PublishedHistory history(store, how.kinds);
  published.check_required(history.take_in(before, heads, how.all_kept), history);
  history.remember();
}

}  // namespace

void check_published(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                     const Kinds& kinds) {
  check(store, before, heads, {.kinds = kinds});
}

void check_pushed(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                  const Kinds& kinds) {
  check(store, before, heads, {.kinds = kinds, .all_kept = true});
}

void judge_published(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                     const Kinds& kinds) {
  check(store, before, heads, {.kinds = kinds, .judged = true});
}

void judge_pushed(const store::Store& store, const std::vector<Digest>& before, const std::vector<Digest>& heads,
                  const Kinds& kinds) {
  check(store, before, heads, {.kinds = kinds, .all_kept = true, .judged = true});
}

}  // namespace mlx::registry
