// A plan by counting sort, then runs of records.

#include "data/spool_window.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.h"

namespace mlx::data {
namespace {

// Two records this close are read at once: a read costs about as much as the copy of these bytes does.
constexpr std::int64_t kGap = 4 << 10;
constexpr std::int64_t kRun = 64 << 10;  // the bytes of a read, unless an item is larger; they stay in the core's cache
constexpr int kReadsAtOnce = 32;         // a disk answers many in the time of one
constexpr std::int64_t kInPiece = 128;   // items, at least: about as long as a short operation of a network

}  // namespace

void SpoolWindow::hold(const Spool& spool, const SpoolItems& items, std::int64_t begin, std::int64_t end) {
  spool_ = &spool;
  items_ = items;
  begin_ = begin, end_ = end;
  item_bytes_ = items.records * spool.record();
  ends_.clear();
  const std::int64_t size = (end - begin) * item_bytes_;
  if (capacity_ >= size) return;
  bytes_.reset();  // before the next, so that there are never both
  bytes_ = make_block(size);
  capacity_ = size;
}

// The file between the first and the last record is cut into pieces of 2^shift records.
void SpoolWindow::plan() {
  CHECK(end_ - begin_ <= (1 << 26) && spool_->count() < std::int64_t{1} << 38);
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = 0;
  for (std::int64_t i = begin_; i < end_; ++i) {
    const std::int64_t record = items_.first_record(i);
    low = std::min(low, record), high = std::max(high, record);
  }
  const std::int64_t most = std::max<std::int64_t>(1, (end_ - begin_) / kInPiece);
  const int shift = std::bit_width(static_cast<std::uint64_t>((high - low) / most));
  const auto piece_of = [&](std::int64_t record) { return static_cast<std::size_t>((record - low) >> shift); };
  ends_.assign(piece_of(high) + 1, 0);
  for (std::int64_t i = begin_; i < end_; ++i) ++ends_[piece_of(items_.first_record(i))];
  std::size_t before = 0;
  for (std::size_t& end : ends_) {  // now where each begins; its end once it is filled
    const std::size_t count = end;
    end = before;
    before += count;
  }
  wanted_.resize(static_cast<std::size_t>(end_ - begin_));
  for (std::int64_t i = begin_; i < end_; ++i) {
    const std::int64_t record = items_.first_record(i);
    wanted_[ends_[piece_of(record)]++] = {static_cast<std::uint64_t>(i - begin_), static_cast<std::uint64_t>(record)};
  }
}

void SpoolWindow::read(std::int64_t piece) {
  sort(piece);
  const std::size_t end = ends_[static_cast<std::size_t>(piece)];
  for (std::size_t i = piece == 0 ? 0 : ends_[static_cast<std::size_t>(piece - 1)]; i < end;) {
    const std::size_t until = end_of_run(i, end);
    read_run(i, until);
    i = until;
  }
}

void SpoolWindow::read_from_disk() {
  for (std::int64_t i = 0; i < pieces(); ++i) sort(i);
  std::size_t told = 0;  // the item before which the kernel was told of all
  int waiting = 0;       // runs of which it was told
  for (std::size_t i = 0; i < wanted_.size(); --waiting) {
    for (; waiting < kReadsAtOnce && told < wanted_.size(); ++waiting) told = read_ahead(told);
    const std::size_t until = end_of_run(i, wanted_.size());
    read_run(i, until);
    i = until;
  }
}

void SpoolWindow::sort(std::int64_t piece) {
  const std::size_t begin = piece == 0 ? 0 : ends_[static_cast<std::size_t>(piece - 1)];
  std::sort(wanted_.begin() + static_cast<std::ptrdiff_t>(begin),
            wanted_.begin() + static_cast<std::ptrdiff_t>(ends_[static_cast<std::size_t>(piece)]),
            [](const Wanted& a, const Wanted& b) { return a.record < b.record; });
}

std::int64_t SpoolWindow::end_of(const Wanted& wanted) const {
  return std::min(spool_->count(), static_cast<std::int64_t>(wanted.record) + items_.records);
}

// The first item from `from` on that does not lie close to the one before it, or `end`.
std::size_t SpoolWindow::end_of_run(std::size_t from, std::size_t end) const {
  const std::int64_t size = spool_->record(), begin = wanted_[from].record;
  std::int64_t last = end_of(wanted_[from]);
  std::size_t until = from + 1;
  for (; until < end; ++until) {
    const std::int64_t gap = (static_cast<std::int64_t>(wanted_[until].record) - last) * size;
    const std::int64_t larger = std::max(last, end_of(wanted_[until]));
    if (gap > kGap || (larger - begin) * size > kRun) break;
    last = larger;
  }
  return until;
}

// Has the kernel begin to read a run of items; returns the item after it.
std::size_t SpoolWindow::read_ahead(std::size_t from) const {
  const std::size_t until = end_of_run(from, wanted_.size());
  const std::int64_t begin = wanted_[from].record, end = end_of(wanted_[until - 1]);
  spool_->read_ahead(begin, end - begin);
  return until;
}

void SpoolWindow::read_run(std::size_t from, std::size_t until) {
  const std::int64_t first = wanted_[from].record;
  std::int64_t last = first;
  for (std::size_t i = from; i < until; ++i) last = std::max(last, end_of(wanted_[i]));
  if (until == from + 1) return spool_->read(first, last - first, bytes_.get() + wanted_[from].place * item_bytes_);
  std::array<std::uint8_t, kRun> records;
  spool_->read(first, last - first, records.data());
  for (std::size_t i = from; i < until; ++i) copy(wanted_[i], records.data(), first);
}

// `records`: of the file, from the record `first` on.
void SpoolWindow::copy(const Wanted& wanted, const std::uint8_t* records, std::int64_t first) {
  const std::int64_t size = spool_->record(), record = wanted.record;
  std::copy_n(records + (record - first) * size, (end_of(wanted) - record) * size,
              bytes_.get() + wanted.place * item_bytes_);
}

}  // namespace mlx::data
