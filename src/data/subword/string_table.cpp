// Open addressing.

#include "data/subword/string_table.h"

#include <bit>

namespace mlx::data::subword {

std::size_t StringTable::place_of(std::string_view text) const {
  const std::uint64_t hash = hash_bytes(text);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number == kNone) return at;
    const bool same = slot.hash == static_cast<std::uint32_t>(hash >> 32) && slot.length == text.size() &&
                      std::memcmp(bytes_.data() + slot.at, text.data(), text.size()) == 0;
    if (same) return at;
  }
}

void StringTable::reserve(std::size_t count) {
  const std::size_t wanted = std::bit_ceil(count * 2 + 2);
  if (wanted > slots_.size()) grow(wanted);
}

void StringTable::grow(std::size_t slots) {
  std::vector<Slot> before(slots);
  before.swap(slots_);
  for (const Slot& slot : before)
    if (slot.number != kNone) slots_[place_of({bytes_.data() + slot.at, slot.length})] = slot;
}

void StringTable::set(std::string_view text, std::int32_t number) {
  if ((count_ + 1) * 2 > slots_.size()) grow(slots_.size() * 2);
  Slot& slot = slots_[place_of(text)];
  if (slot.number == kNone) {
    slot.at = static_cast<std::uint32_t>(bytes_.size());
    slot.length = static_cast<std::uint32_t>(text.size());
    slot.hash = static_cast<std::uint32_t>(hash_bytes(text) >> 32);
    bytes_ += text;
    if (text.size() > longest_) longest_ = text.size();
    ++count_;
  }
  slot.number = number;
}

}  // namespace mlx::data::subword
