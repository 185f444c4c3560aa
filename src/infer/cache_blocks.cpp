// See cache_blocks.h.

#include "infer/cache_blocks.h"

#include "base/error.h"

namespace mlx::infer {

CacheBlocks::CacheBlocks(std::int64_t count) : blocks_(static_cast<std::size_t>(count)) {
  for (std::int32_t i = 0; i < count; ++i) at(i).place = unused_.insert(unused_.end(), i);
}

Digest CacheBlocks::content(const std::optional<Digest>& before, std::span<const std::int32_t> tokens) {
  Sha256 hash;
  if (before) hash.update(before->bytes);
  hash.update({reinterpret_cast<const std::uint8_t*>(tokens.data()), tokens.size_bytes()});
  return hash.finish();
}

void CacheBlocks::add_user(std::int32_t block) {
  if (at(block).users++ == 0) unused_.erase(at(block).place);
}

std::optional<std::int32_t> CacheBlocks::use(const Digest& content) {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  add_user(found->second);
  return found->second;
}

std::int32_t CacheBlocks::take() {
  CHECK(!unused_.empty());
  const std::int32_t block = unused_.front();
  add_user(block);
  if (auto& content = at(block).content) {
    by_content_.erase(*content);
    content.reset();
  }
  return block;
}

void CacheBlocks::hold(std::int32_t block, const Digest& content) {
  CHECK(at(block).users > 0 && !at(block).content);
  if (by_content_.emplace(content, block).second) at(block).content = content;
}

// What has no content is taken first.
void CacheBlocks::release(std::int32_t block) {
  CHECK(at(block).users > 0);
  if (--at(block).users > 0) return;
  at(block).place = unused_.insert(at(block).content ? unused_.end() : unused_.begin(), block);
}

}  // namespace mlx::infer
