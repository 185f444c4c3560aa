// A message is copied when both sides have named their memory.
#include "dist/local_ranks.h"

#include <fmt/format.h>

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

struct Posted {
  std::int64_t id = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
};

struct Lane {  // of one sender, receiver and tag
  std::deque<Bytes> messages;
  std::deque<Posted> receives;
};

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::tuple<int, int, int>, Lane> lanes;
  std::map<std::int64_t, int> pending;  // receives that are not done: from whom
  std::map<std::int64_t, std::string> failed;
  std::set<int> gone;
  std::int64_t last_id = 0;

  // The mutex is held.
  void match(Lane& lane) {
    while (!lane.messages.empty() && !lane.receives.empty()) {
      const Bytes message = std::move(lane.messages.front());
      const Posted receive = lane.receives.front();
      lane.messages.pop_front();
      lane.receives.pop_front();
      const int from = pending.at(receive.id);
      pending.erase(receive.id);
      if (message.size() != receive.bytes)
        failed[receive.id] = fmt::format("rank {} sent {} bytes instead of {}", from, message.size(), receive.bytes);
      else if (!message.empty())
        std::memcpy(receive.data, message.data(), message.size());
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
    shared_->pending[id] = from;
    lane.receives.push_back({id, data, bytes});
    shared_->match(lane);
    return {id};
  }
  void wait(std::span<Transfer> transfers) override {
    std::unique_lock lock(shared_->mutex);
    for (Transfer& transfer : transfers) {
      const std::int64_t id = std::exchange(transfer.id, 0);
      int from = 0;
      shared_->changed.wait(lock, [&] {
        const auto found = shared_->pending.find(id);
        if (found == shared_->pending.end()) return true;
        from = found->second;
        return shared_->gone.contains(from);
      });
      if (shared_->pending.contains(id)) fail(ErrorKind::kIo, "rank {} is gone", from);
      if (const auto found = shared_->failed.find(id); found != shared_->failed.end())
        fail(ErrorKind::kIo, "{}", found->second);
    }
  }

 private:
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
  for (int rank = 0; rank < count; ++rank) out.push_back(std::make_unique<LocalRank>(rank, count, shared));
  return out;
}

}  // namespace mlx::dist
