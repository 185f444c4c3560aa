// Blocks in memory, or one file without a name.

#include "data/spool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr std::int64_t kLargestWindow = std::int64_t{256} << 20;
constexpr std::int64_t kSourcesAtOnce = 2;  // a training's and its validation's

}  // namespace

MemoryBudget::MemoryBudget(std::int64_t bytes, std::string folder) : state_(std::make_shared<State>()) {
  state_->bytes = bytes;
  state_->left = bytes;
  state_->folder = std::move(folder);
}

bool MemoryBudget::take(std::int64_t bytes) const {
  if (!state_) return true;
  if (state_->left.fetch_sub(bytes) >= bytes) return true;
  state_->left.fetch_add(bytes);
  return false;
}

void MemoryBudget::give(std::int64_t bytes) const {
  if (state_) state_->left.fetch_add(bytes);
}

std::int64_t MemoryBudget::window() const {
  return state_ ? std::min(kLargestWindow, state_->bytes / (2 * kSourcesAtOnce)) : kLargestWindow;
}

std::unique_ptr<std::uint8_t[]> make_block(std::int64_t bytes) {
  auto block = std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>(bytes));
  advise_large_pages(block.get(), static_cast<std::size_t>(bytes));
  return block;
}

Spool::Spool(std::int64_t record, MemoryBudget budget) : record_(record), budget_(std::move(budget)) {
  CHECK(record > 0);
  set_block(kMemoryBlock);
}

void Spool::set_block(std::int64_t bytes) {
  block_bits_ = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(1, bytes / record_))) - 1;
}

Spool::~Spool() {
  budget_.give(taken_);
}

void Spool::read(std::int64_t first, std::int64_t count, void* to) const {
  CHECK(0 <= first && count >= 0 && first + count <= count_);
  auto* out = static_cast<std::uint8_t*>(to);
  if (file_) return file_->read(first * record_, out, count * record_);
  while (count > 0) {
    const std::int64_t here = std::min(count, in_block() - (first & (in_block() - 1)));
    out = std::copy_n(at(first), here * record_, out);
    first += here, count -= here;
  }
}

void Spool::read_ahead(std::int64_t first, std::int64_t count) const {
  if (file_) file_->read_ahead(first * record_, count * record_);
}

bool Spool::is_cached() const {
  constexpr std::int64_t kLooks = 64;
  if (!file_) return true;
  std::int64_t cached = 0;
  for (std::int64_t i = 0; i < kLooks; ++i) cached += file_->is_cached(count_ * i / kLooks * record_);
  return cached > kLooks * 3 / 4;
}

void Spool::scan(std::int64_t begin, std::int64_t end,
                 const std::function<void(std::int64_t, const std::uint8_t*, std::int64_t)>& visit) const {
  Bytes read_from_file;
  while (begin < end) {
    const std::int64_t here = std::min(end - begin, in_block() - (begin & (in_block() - 1)));
    const std::uint8_t* records = nullptr;
    if (file_) {
      read_from_file.resize(static_cast<std::size_t>(here * record_));
      read(begin, here, read_from_file.data());
      read_ahead(begin + here, std::min(end - begin - here, 4 * in_block()));
      records = read_from_file.data();
    } else {
      records = at(begin);
    }
    visit(begin, records, here);
    begin += here;
  }
}

void Spool::scan(const IndexSet& items, const std::function<void(const std::uint8_t*)>& visit) const {
  if (items.size() == 0) return;
  std::int64_t item = 0;
  scan(items[0], items[items.size() - 1] + 1, [&](std::int64_t first, const std::uint8_t* records, std::int64_t count) {
    for (; item < items.size() && items[item] < first + count; ++item) visit(records + (items[item] - first) * record_);
  });
}

const std::uint8_t* Spool::find(std::int64_t index, Bytes& scratch) const {
  if (!file_) return at(index);
  scratch.resize(static_cast<std::size_t>(record_));
  read(index, 1, scratch.data());
  return scratch.data();
}

SpoolWriter::SpoolWriter(std::int64_t record, MemoryBudget budget) : spool_(new Spool(record, std::move(budget))) {}

std::span<std::uint8_t> SpoolWriter::room() {
  Spool& s = *spool_;
  std::int64_t used = s.file_ ? s.count_ - written_ : s.count_ & (s.in_block() - 1);
  if (used == s.in_block()) {
    write(s.blocks_.back().get(), used);
    used = 0;
  }
  const std::int64_t bytes = s.in_block() * s.record_;
  if (used == 0 && (!s.file_ || s.blocks_.empty())) s.blocks_.push_back(make_block(bytes));
  return {s.blocks_.back().get() + used * s.record_, static_cast<std::size_t>(bytes - used * s.record_)};
}

void SpoolWriter::append(const void* records, std::int64_t count) {
  Spool& s = *spool_;
  if (!s.file_) {
    if (s.budget_.take(count * s.record_))
      s.taken_ += count * s.record_;
    else
      spill();
  }
  const auto* from = static_cast<const std::uint8_t*>(records);
  while (count > 0) {
    const std::span<std::uint8_t> to = room();
    const std::int64_t here = std::min(count, static_cast<std::int64_t>(to.size()) / s.record_);
    std::memcpy(to.data(), from, static_cast<std::size_t>(here * s.record_));
    from += here * s.record_;
    s.count_ += here, count -= here;
  }
}

// Moves what is in memory to a file, before which there is one small block from now on.
void SpoolWriter::spill() {
  Spool& s = *spool_;
  s.file_.emplace(s.budget_.folder());
  for (Spool::Block& block : s.blocks_) {
    write(block.get(), std::min(s.in_block(), s.count_ - written_));
    block.reset();
  }
  s.blocks_.clear();
  s.set_block(Spool::kBlock);
  s.budget_.give(std::exchange(s.taken_, 0));
}

void SpoolWriter::write(const std::uint8_t* from, std::int64_t records) {
  const Spool& s = *spool_;
  s.file_->write(written_ * s.record_, from, records * s.record_);
  written_ += records;
}

SpoolPtr SpoolWriter::finish() {
  Spool& s = *spool_;
  if (s.file_) {
    if (!s.blocks_.empty()) write(s.blocks_.back().get(), s.count_ - written_);
    s.blocks_.clear();
  }
  return std::move(spool_);
}

}  // namespace mlx::data
