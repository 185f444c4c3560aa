// A message is copied when it is sent, and again by the receiver when it waits: nobody else touches a rank's memory,
// which is no longer there when an exception has ended the rank.
#include "dist/local_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"

namespace mlx::dist {
namespace {

struct Receive {
  int from = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  bool arrived = false;
  Bytes message;  // once it has arrived
};

struct Lane {  // of one sender, receiver and tag
  std::deque<Bytes> messages;
  std::deque<std::int64_t> receives;
};

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<int, int, int>, Lane> lanes;
  std::map<std::int64_t, Receive> receives;  // by id, until somebody has waited for them
  std::set<int> gone;
  std::int64_t last_id = 0;

  // The mutex is held.
  void match(Lane& lane) {
    while (!lane.messages.empty() && !lane.receives.empty()) {
      Receive& receive = receives.at(lane.receives.front());
      receive.message = std::move(lane.messages.front());
      receive.arrived = true;
      lane.messages.pop_front();
      lane.receives.pop_front();
    }
    changed.notify_all();
  }
};

class LocalRank final : public Communicator {
 public:
  LocalRank(int rank, int ranks, std::shared_ptr<Shared> shared)
      : rank_(rank), ranks_(ranks), shared_(std::move(shared)) {}
  ~LocalRank() override {
    const std::lock_guard lock(shared_->mutex);
    shared_->gone.insert(rank_);
    shared_->changed.notify_all();
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::string name() const override { return fmt::format("rank {}", rank_); }

  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    check(to, tag);
    const auto* const from = static_cast<const std::uint8_t*>(data);
    const std::lock_guard lock(shared_->mutex);
    Lane& lane = shared_->lanes[{rank_, to, tag}];
    lane.messages.emplace_back(from, from + bytes);
    shared_->match(lane);
    return {};
  }
  Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
    check(from, tag);
    const std::lock_guard lock(shared_->mutex);
    Lane& lane = shared_->lanes[{from, rank_, tag}];
    const std::int64_t id = ++shared_->last_id;
    shared_->receives[id] = {from, data, bytes, false, {}};
    lane.receives.push_back(id);
    shared_->match(lane);
    return {id};
  }
  void wait(std::span<Transfer> transfers) override {
    std::unique_lock lock(shared_->mutex);
    for (Transfer& transfer : transfers) {
      shared_->changed.wait(lock, [&] { return has_ended(transfer); });
      take(transfer);
    }
  }
  bool advance(std::span<Transfer> transfers) override {
    std::unique_lock lock(shared_->mutex);
    const auto is_open = [](const Transfer& transfer) { return transfer.id != 0; };
    const auto moves = [&](const Transfer& transfer) { return is_open(transfer) && has_ended(transfer); };
    shared_->changed.wait_for(lock, std::chrono::microseconds(200), [&] {
      return std::ranges::any_of(transfers, moves) || std::ranges::none_of(transfers, is_open);
    });
    return take_ended(transfers);
  }
  bool poll(std::span<Transfer> transfers) override {
    const std::lock_guard lock(shared_->mutex);
    return take_ended(transfers);
  }

 private:
  // The mutex is held in all of them.
  bool has_ended(const Transfer& transfer) const {
    const auto found = shared_->receives.find(transfer.id);
    return found == shared_->receives.end() || found->second.arrived || shared_->gone.contains(found->second.from);
  }
  bool take_ended(std::span<Transfer> transfers) {
    for (Transfer& transfer : transfers)
      if (has_ended(transfer)) take(transfer);
    return std::ranges::all_of(transfers, [](const Transfer& transfer) { return transfer.id == 0; });
  }
  void take(Transfer& transfer) {
    const auto found = shared_->receives.find(std::exchange(transfer.id, 0));
    if (found == shared_->receives.end()) return;
    const Receive& receive = found->second;
    if (!receive.arrived) fail(ErrorKind::kIo, "rank {} is gone", receive.from);
    if (receive.message.size() != receive.bytes) {
      fail(ErrorKind::kIo, "rank {} sent {} bytes instead of {}", receive.from, receive.message.size(), receive.bytes);
    }
    if (receive.bytes > 0) std::memcpy(receive.data, receive.message.data(), receive.bytes);
    shared_->receives.erase(found);
  }
  void check(int other, int tag) const {
    CHECK(other >= 0 && other < ranks_ && other != rank_ && tag >= 0 && tag < kTags);
  }

  int rank_, ranks_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> local_ranks(int count) {
  const auto shared = std::make_shared<Shared>();
  std::vector<std::unique_ptr<Communicator>> out;
  out.reserve(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) out.push_back(std::make_unique<LocalRank>(rank, count, shared));
  return out;
}

}  // namespace mlx::dist
