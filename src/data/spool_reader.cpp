// Windows of records read ahead.

#include "data/spool_reader.h"

#include <algorithm>
#include <utility>

namespace mlx::data {
SpoolReader::SpoolReader(SpoolPtr spool, Pool& pool, CopyEpochs copies)
    : spool_(std::move(spool)), copies_(copies), pool_(pool), pieces_(pool) {
  if (!spool_->in_memory()) thread_ = std::make_unique<Background>();
}

SpoolReader::~SpoolReader() = default;

void SpoolReader::stop() {
  if (!std::exchange(reading_, false)) return;
  pieces_.stop();
  thread_->wait();
}

void SpoolReader::start(SpoolItems items) {
  stop();
  items_ = std::move(items);
  next_ = planned_ = items_.begin;
  now_.hold(*spool_, items_, items_.begin, items_.begin);
  batches_ = 1;
  begun_ = false;
  epoch_.reset();
}

std::span<const std::uint8_t* const> SpoolReader::next() {
  const std::int64_t count = std::min(items_.batch, items_.end - next_);
  pointers_.clear();
  if (count <= 0) return {};
  if (!spool_->in_memory() && next_ == now_.end()) take_window();
  const bool may_cross = spool_->in_memory() && items_.records > 1;
  if (may_cross) scratch_.resize(static_cast<std::size_t>(count * item_bytes()));
  for (std::int64_t i = 0; i < count; ++i, ++next_) {
    if (spool_->in_memory())
      pointers_.push_back(
          in_blocks(items_.first_record(next_), may_cross ? scratch_.data() + i * item_bytes() : nullptr));
    else
      pointers_.push_back(now_.item(next_));
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
  const std::int64_t each = items_.batch * (item_bytes() + SpoolWindow::kPlan);
  return std::max<std::int64_t>(1, spool_->budget_.window() / each);
}

// Whether items that follow one another in the epoch, such as the first, lie in a part of the spool that fits a window.
bool SpoolReader::near_each_other() const {
  constexpr std::int64_t kLooks = 64;
  const std::int64_t end = std::min(items_.end, items_.begin + kLooks);
  std::int64_t first = spool_->count(), last = 0;
  for (std::int64_t i = items_.begin; i < end; ++i) {
    const std::int64_t record = items_.first_record(i);
    first = std::min(first, record), last = std::max(last, record);
  }
  return (last - first) * spool_->record_ <= spool_->budget_.window();
}

// Decides from where the epoch is read. A copy pays where many items lie on one block of the disk.
void SpoolReader::begin_epoch() {
  begun_ = true;
  const bool cached = copies_ == CopyEpochs::kNever || (copies_ == CopyEpochs::kIfNotCached && spool_->is_cached());
  by_pool_ = cached && pool_.threads() > 1;
  if (cached || items_.records != 1 || near_each_other()) return;
  for (SpoolWindow* window : {&now_, &ahead_}) window->release();  // memory for the copy
  now_.hold(*spool_, items_, items_.begin, items_.begin);
  epoch_ = EpochFile::copy(*spool_, {items_.first_record, items_.begin, items_.end, most_batches() * items_.batch},
                           2 * spool_->budget_.window());
  if (epoch_) batches_ = most_batches();
}

// Makes the window that was read ahead the current one, and begins to read the next. The first is one batch, each of
// the others twice the one before it, so that an epoch starts without a wait.
void SpoolReader::take_window() {
  if (!begun_) begin_epoch();
  if (std::exchange(reading_, false)) {
    pieces_.wait();
    thread_->wait();
    std::swap(now_, ahead_);
  } else {
    hold(now_);
    fill(now_);
  }
  if (planned_ >= items_.end) return;
  hold(ahead_);
  fill_ahead();
}

void SpoolReader::hold(SpoolWindow& window) {
  const std::int64_t most = most_batches(), begin = planned_;
  planned_ = std::min(items_.end, planned_ + std::min(most, batches_) * items_.batch);
  batches_ = std::min(most, 2 * batches_);
  window.hold(*spool_, items_, begin, planned_);
}

void SpoolReader::fill(SpoolWindow& window) {
  if (epoch_) return epoch_->read((window.begin() - items_.begin) / (batches_ * items_.batch), window.bytes());
  window.plan();
  window.read_from_disk();
}

void SpoolReader::fill_ahead() {
  reading_ = true;
  if (!by_pool_) return thread_->post([this] { fill(ahead_); });
  ahead_.plan();
  pieces_.start(ahead_.pieces(), [this](std::int64_t piece) { ahead_.read(piece); });
}

}  // namespace mlx::data
