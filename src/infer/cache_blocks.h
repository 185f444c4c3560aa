// The blocks of a cache of keys and values that several sequences share (Kwon et al. 2023, "PagedAttention"). A full
// block is known by the tokens in it and before it, so that a sequence which begins with the same tokens uses it again.
// Blocks that no sequence uses keep what they hold until their place is needed; the least recently used go first.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace mlx::infer {

class CacheBlocks {
 public:
  explicit CacheBlocks(std::int64_t count);

  // The digest of a full block's tokens and of all before it. `before`: of the block before it, none for the first.
  static Digest content(const std::optional<Digest>& before, std::span<const std::int32_t> tokens);

  // The block that holds this content, which now has one more user; none if there is none.
  std::optional<std::int32_t> use(const Digest& content);
  // A block without content, which now has one user. The caller sees to it that one is free: free() > 0.
  std::int32_t take();
  // A block that the caller uses has this content from now on, unless another one has it already.
  void hold(std::int32_t block, const Digest& content);
  void release(std::int32_t block);  // one user less

  std::int64_t count() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t free() const { return static_cast<std::int64_t>(unused_.size()); }  // without a user

 private:
  struct Block {
    std::int64_t users = 0;
    std::optional<Digest> content;
    std::list<std::int32_t>::iterator place;  // in unused_, if it has no user
  };

  Block& at(std::int32_t block) { return blocks_[static_cast<std::size_t>(block)]; }
  void add_user(std::int32_t block);

  std::vector<Block> blocks_;
  std::list<std::int32_t> unused_;  // the least recently used first
  std::unordered_map<Digest, std::int32_t, DigestHash> by_content_;
};

}  // namespace mlx::infer
