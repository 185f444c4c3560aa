// Blocks in memory, or one file without a name; windows of records read ahead.

#include "data/spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/path.h"

namespace mlx::data {
namespace {

// Two records this close are read at once. A read costs about as much as the copy of these bytes does.
constexpr std::int64_t kGap = 8 << 10;
constexpr std::int64_t kLargestWindow = std::int64_t{64} << 20;
constexpr std::int64_t kSourcesAtOnce = 2;  // a training's and its validation's

[[noreturn]] void cannot(int error, const char* what, const std::string& folder) {
  throw Error(ErrorKind::kIo,
              fmt::format("{}: cannot {} a temporary file for data beyond the memory limit: {}", folder, what,
                          std::strerror(error)),
              "set TMPDIR to a folder on a disk with more room, or raise --memory");
}

// A file without a name. File systems without O_TMPFILE (NFS) get one whose name is removed at once.
Fd nameless_file(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (fd >= 0) return Fd(fd);
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) cannot(errno, "make", folder);
  std::string name = join_path(folder, ".mlx-tmp-data-XXXXXX");
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) cannot(errno, "make", folder);
  ::unlink(name.c_str());
  return Fd(fd);
}

// Records in random order lie on a page each: with small pages, their addresses take longer to find than the records.
std::unique_ptr<std::uint8_t[]> new_block(std::int64_t bytes) {
  auto block = std::make_unique_for_overwrite<std::uint8_t[]>(static_cast<std::size_t>(bytes));
  advise_large_pages(block.get(), static_cast<std::size_t>(bytes));
  return block;
}

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
  if (file_) {
    const auto bytes = static_cast<std::size_t>(count * record_);
    const std::size_t got =
        read_at(file_.get(), out, bytes, static_cast<std::uint64_t>(first * record_), budget_.folder());
    if (got < bytes) fail(ErrorKind::kIo, "{}: a temporary file is shorter than it was", budget_.folder());
    return;
  }
  while (count > 0) {
    const std::int64_t here = std::min(count, in_block() - (first & (in_block() - 1)));
    out = std::copy_n(at(first), here * record_, out);
    first += here, count -= here;
  }
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
  if (used == 0 && (!s.file_ || s.blocks_.empty())) s.blocks_.push_back(new_block(bytes));
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
  s.file_ = nameless_file(s.budget_.folder());
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
  std::int64_t left = records * s.record_, at = written_ * s.record_;
  while (left > 0) {
    const ssize_t put = ::pwrite(s.file_.get(), from, static_cast<std::size_t>(left), at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) cannot(errno, "write", s.budget_.folder());
    from += put, at += put, left -= put;
  }
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

SpoolReader::SpoolReader(SpoolPtr spool) : spool_(std::move(spool)) {
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

// Makes the window that was read ahead the current one, and begins to read the next. The first is one batch, each of
// the others twice the one before it, so that an epoch starts without a wait.
void SpoolReader::take_window() {
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
  const std::int64_t each = items_.batch * (item_bytes() + static_cast<std::int64_t>(sizeof(Wanted)));
  const std::int64_t most = std::max<std::int64_t>(1, spool_->budget_.window() / each);
  const std::int64_t batches = std::min(most, batches_);
  batches_ = std::min(most, 2 * batches_);
  window.begin = planned_;
  window.end = planned_ = std::min(items_.end, planned_ + batches * items_.batch);
  const std::int64_t bytes = (window.end - window.begin) * item_bytes();
  if (window.capacity >= bytes) return;
  window.bytes.reset();  // before the next, so that there are never both
  window.bytes = new_block(bytes);
  window.capacity = bytes;
}

void SpoolReader::fill(Window& window) {
  wanted_.resize(static_cast<std::size_t>(window.end - window.begin));
  for (std::int64_t i = 0; i < window.end - window.begin; ++i)
    wanted_[static_cast<std::size_t>(i)] = {items_.first_record(window.begin + i), i};
  std::ranges::sort(wanted_, {}, &Wanted::record);
  for (std::size_t i = 0; i < wanted_.size();) i = fill_run(i, window.bytes.get());
}

// Reads the items from `from` on that lie close to each other; returns the first that does not.
std::size_t SpoolReader::fill_run(std::size_t from, std::uint8_t* to) {
  const std::int64_t record = spool_->record_, last = spool_->count_;
  const auto end_of = [&](const Wanted& wanted) { return std::min(last, wanted.record + items_.records); };
  const std::int64_t begin = wanted_[from].record;
  std::int64_t end = end_of(wanted_[from]);
  std::size_t until = from + 1;
  for (; until < wanted_.size(); ++until) {
    const std::int64_t gap = (wanted_[until].record - end) * record;
    const std::int64_t larger = std::max(end, end_of(wanted_[until]));
    if (gap > kGap || (larger - begin) * record > Spool::kBlock) break;
    end = larger;
  }
  if (until == from + 1) {
    spool_->read(begin, end - begin, to + wanted_[from].place * item_bytes());
    return until;
  }
  run_.resize(static_cast<std::size_t>(std::max<std::int64_t>(Spool::kBlock, (end - begin) * record)));
  spool_->read(begin, end - begin, run_.data());
  for (std::size_t i = from; i < until; ++i) {
    const Wanted& wanted = wanted_[i];
    std::copy_n(run_.data() + (wanted.record - begin) * record, (end_of(wanted) - wanted.record) * record,
                to + wanted.place * item_bytes());
  }
  return until;
}

}  // namespace mlx::data
