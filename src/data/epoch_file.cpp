// One pass over the spool, which appends each record to its window's piece of the file.

#include "data/epoch_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr std::int64_t kSmallestWrite = 32 << 10, kLargestWrite = 1 << 20;
constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

// What is still to be written of a window.
struct Pending {
  std::int64_t at = 0;  // in the file
  std::uint8_t* bytes = nullptr;
  std::int64_t size = 0;
};

}  // namespace

EpochFile::EpochFile(const Spool& spool, Items items)
    : items_(std::move(items)), record_(spool.record()), file_(spool.folder()) {}

std::unique_ptr<EpochFile> EpochFile::copy(const Spool& spool, Items items, std::int64_t memory) {
  const auto places = static_cast<std::int64_t>(sizeof(std::uint32_t)) * spool.count();
  const std::int64_t windows = (items.end - items.begin + items.window - 1) / items.window;
  const std::int64_t least = std::max(kSmallestWrite, spool.record() + 4);
  if (spool.count() >= kNowhere || places + windows * least + 2 * Spool::kBlock > memory) return nullptr;
  try {
    std::unique_ptr<EpochFile> out(new EpochFile(spool, std::move(items)));
    out->fill(spool, memory - places - 2 * Spool::kBlock);
    return out;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo) throw;
    return nullptr;
  }
}

// `memory`: for what is not written yet.
void EpochFile::fill(const Spool& spool, std::int64_t memory) {
  std::vector<std::uint32_t> place(static_cast<std::size_t>(spool.count()), kNowhere);  // of each record, in the epoch
  for (std::int64_t i = 0; i < count(); ++i)
    place[static_cast<std::size_t>(items_.record(items_.begin + i))] = static_cast<std::uint32_t>(i);

  const std::int64_t room = std::max<std::int64_t>(1, std::min(kLargestWrite, memory / windows()) / entry()) * entry();
  const auto bytes = make_block(room * windows());
  std::vector<Pending> pending(static_cast<std::size_t>(windows()));
  for (std::int64_t i = 0; i < windows(); ++i)
    pending[static_cast<std::size_t>(i)] = {i * items_.window * entry(), bytes.get() + i * room};
  const auto write = [&](Pending& of) {
    file_.write(of.at, of.bytes, of.size);
    of.at += std::exchange(of.size, 0);
  };
  const auto add = [&](std::uint32_t at, const std::uint8_t* record) {
    Pending& of = pending[static_cast<std::size_t>(at / items_.window)];
    if (of.size == room) write(of);
    std::uint8_t* const to = of.bytes + of.size;
    const auto in_window = static_cast<std::uint32_t>(at % items_.window);
    std::memcpy(to, record, static_cast<std::size_t>(record_));
    std::memcpy(to + record_, &in_window, sizeof in_window);
    of.size += entry();
  };
  spool.scan(0, spool.count(), [&](std::int64_t first, const std::uint8_t* records, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      if (const std::uint32_t at = place[static_cast<std::size_t>(first + i)]; at != kNowhere)
        add(at, records + i * record_);
  });
  std::ranges::for_each(pending, write);
}

void EpochFile::read(std::int64_t index, std::uint8_t* to) const {
  const std::int64_t each = std::max<std::int64_t>(1, Spool::kBlock / entry());
  std::int64_t left = std::min(items_.window, count() - index * items_.window), at = index * items_.window * entry();
  file_.read_ahead(at, left * entry());
  Bytes entries(static_cast<std::size_t>(std::min(each, left) * entry()));
  while (left > 0) {
    const std::int64_t here = std::min(each, left);
    file_.read(at, entries.data(), here * entry());
    for (std::int64_t i = 0; i < here; ++i) {
      const std::uint8_t* const from = entries.data() + i * entry();
      std::uint32_t in_window = 0;
      std::memcpy(&in_window, from + record_, sizeof in_window);
      std::memcpy(to + in_window * record_, from, static_cast<std::size_t>(record_));
    }
    file_.drop(at, here * entry());
    at += here * entry(), left -= here;
  }
}

}  // namespace mlx::data
