// Windows of records read ahead.

#include "data/spool_reader.h"

#include <algorithm>
#include <utility>

namespace mlx::data {
namespace {

// Two records this close are read at once. A read costs about as much as the copy of these bytes does.
constexpr std::int64_t kGap = 8 << 10;
constexpr int kReadsAtOnce = 32;  // a disk answers many in the time of one

}  // namespace

SpoolReader::SpoolReader(SpoolPtr spool, CopyEpochs copies) : spool_(std::move(spool)), copies_(copies) {
  if (!spool_->in_memory()) thread_ = std::make_unique<Background>();
}

SpoolReader::~SpoolReader() = default;

void SpoolReader::stop() {
  if (std::exchange(reading_, false)) thread_->wait();
}

void SpoolReader::start(Items items) {
  stop();
  items_ = std::move(items);
  next_ = planned_ = items_.begin;
  now_.end = ahead_.end = items_.begin;
  batches_ = 1;
  begun_ = false;
  epoch_.reset();
}

std::span<const std::uint8_t* const> SpoolReader::next() {
  const std::int64_t count = std::min(items_.batch, items_.end - next_);
  pointers_.clear();
  if (count <= 0) return {};
  if (!spool_->in_memory() && next_ == now_.end) take_window();
  const bool may_cross = spool_->in_memory() && items_.records > 1;
  if (may_cross) scratch_.resize(static_cast<std::size_t>(count * item_bytes()));
  for (std::int64_t i = 0; i < count; ++i, ++next_) {
    if (spool_->in_memory())
      pointers_.push_back(
          in_blocks(items_.first_record(next_), may_cross ? scratch_.data() + i * item_bytes() : nullptr));
    else
      pointers_.push_back(now_.bytes.get() + (next_ - now_.begin) * item_bytes());
  }
  return pointers_;
}

// An item in memory; copied to `scratch` if it lies in more than one block.
const std::uint8_t* SpoolReader::in_blocks(std::int64_t record, std::uint8_t* scratch) const {
  const std::int64_t count = std::min(items_.records, spool_->count_ - record);
  if (record >> spool_->block_bits_ == (record + count - 1) >> spool_->block_bits_) return spool_->at(record);
  spool_->read(record, count, scratch);
  return scratch;
}

std::int64_t SpoolReader::most_batches() const {
  const std::int64_t each = items_.batch * (item_bytes() + static_cast<std::int64_t>(sizeof(Wanted)));
  return std::max<std::int64_t>(1, spool_->budget_.window() / each);
}

// Whether the first items lie in the spool as in the epoch.
bool SpoolReader::in_file_order() const {
  constexpr std::int64_t kLooks = 64;
  const std::int64_t end = std::min(items_.end, items_.begin + kLooks);
  for (std::int64_t i = items_.begin + 1; i < end; ++i)
    if (items_.first_record(i) <= items_.first_record(i - 1)) return false;
  return true;
}

// Decides from where the epoch is read. A copy pays where many items lie on one block of the disk.
void SpoolReader::begin_epoch() {
  begun_ = true;
  cached_ = copies_ == CopyEpochs::kNever || (copies_ == CopyEpochs::kIfNotCached && spool_->is_cached());
  if (cached_ || items_.records != 1 || in_file_order()) return;
  for (Window* window : {&now_, &ahead_}) *window = {items_.begin, items_.begin, nullptr, 0};  // memory for the copy
  epoch_ = EpochFile::copy(*spool_, {items_.first_record, items_.begin, items_.end, most_batches() * items_.batch},
                           2 * spool_->budget_.window());
  if (epoch_) batches_ = most_batches();
}

// Makes the window that was read ahead the current one, and begins to read the next. The first is one batch, each of
// the others twice the one before it, so that an epoch starts without a wait.
void SpoolReader::take_window() {
  if (!begun_) begin_epoch();
  if (std::exchange(reading_, false)) {
    thread_->wait();
    std::swap(now_, ahead_);
  } else {
    prepare(now_);
    fill(now_);
  }
  if (planned_ >= items_.end) return;
  prepare(ahead_);
  reading_ = true;
  thread_->post([this] { fill(ahead_); });
}

void SpoolReader::prepare(Window& window) {
  const std::int64_t most = most_batches();
  const std::int64_t batches = std::min(most, batches_);
  batches_ = std::min(most, 2 * batches_);
  window.begin = planned_;
  window.end = planned_ = std::min(items_.end, planned_ + batches * items_.batch);
  const std::int64_t bytes = (window.end - window.begin) * item_bytes();
  if (window.capacity >= bytes) return;
  window.bytes.reset();  // before the next, so that there are never both
  window.bytes = make_block(bytes);
  window.capacity = bytes;
}

void SpoolReader::fill(Window& window) {
  if (epoch_) return epoch_->read((window.begin - items_.begin) / (batches_ * items_.batch), window.bytes.get());
  wanted_.resize(static_cast<std::size_t>(window.end - window.begin));
  for (std::int64_t i = 0; i < window.end - window.begin; ++i)
    wanted_[static_cast<std::size_t>(i)] = {items_.first_record(window.begin + i), i};
  std::ranges::sort(wanted_, {}, &Wanted::record);
  std::size_t told = 0;  // the item before which the kernel was told of all
  int waiting = 0;       // runs of which it was told
  for (std::size_t i = 0; i < wanted_.size(); --waiting) {
    for (; !cached_ && waiting < kReadsAtOnce && told < wanted_.size(); ++waiting) told = read_ahead(told);
    const std::size_t until = end_of_run(i);
    fill_run(i, until, window.bytes.get());
    i = until;
  }
}

// Has the kernel begin to read a run of items; returns the item after it.
std::size_t SpoolReader::read_ahead(std::size_t from) const {
  const std::size_t until = end_of_run(from);
  const std::int64_t begin = wanted_[from].record, end = end_of(wanted_[until - 1]);
  spool_->file_->read_ahead(begin * spool_->record_, (end - begin) * spool_->record_);
  return until;
}

std::int64_t SpoolReader::end_of(const Wanted& wanted) const {
  return std::min(spool_->count_, wanted.record + items_.records);
}

// The first item from `from` on that does not lie close to the one before it.
std::size_t SpoolReader::end_of_run(std::size_t from) const {
  const std::int64_t record = spool_->record_, begin = wanted_[from].record;
  std::int64_t end = end_of(wanted_[from]);
  std::size_t until = from + 1;
  for (; until < wanted_.size(); ++until) {
    const std::int64_t gap = (wanted_[until].record - end) * record;
    const std::int64_t larger = std::max(end, end_of(wanted_[until]));
    if (gap > kGap || (larger - begin) * record > Spool::kBlock) break;
    end = larger;
  }
  return until;
}

void SpoolReader::fill_run(std::size_t from, std::size_t until, std::uint8_t* to) {
  const std::int64_t record = spool_->record_, begin = wanted_[from].record;
  std::int64_t end = begin;
  for (std::size_t i = from; i < until; ++i) end = std::max(end, end_of(wanted_[i]));
  if (until == from + 1) return spool_->read(begin, end - begin, to + wanted_[from].place * item_bytes());
  run_.resize(static_cast<std::size_t>(std::max<std::int64_t>(Spool::kBlock, (end - begin) * record)));
  spool_->read(begin, end - begin, run_.data());
  for (std::size_t i = from; i < until; ++i) {
    const Wanted& wanted = wanted_[i];
    std::copy_n(run_.data() + (wanted.record - begin) * record, (end_of(wanted) - wanted.record) * record,
                to + wanted.place * item_bytes());
  }
}

}  // namespace mlx::data
