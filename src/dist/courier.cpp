// A job of the thread begins a message and sees to all that are under way, until there is another to begin.
#include "dist/courier.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace mlx::dist {
namespace {

// How long the thread leaves messages alone while nobody waits for one: asking MPI takes some of the core's time. First
// little, since a message that was just sent may be waited for on the other side.
constexpr std::chrono::microseconds kFirstRest{50}, kRest{1000};

}  // namespace

Courier::Courier(Communicator& communicator, bool in_background)
    : communicator_(communicator), thread_(in_background ? std::make_unique<Background>() : nullptr) {}

Courier::~Courier() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  wake_.notify_one();
}

Courier::Ticket Courier::send(int to, int tag, const void* data, std::size_t bytes) {
  return begin([=, this] { return communicator_.send(to, tag, data, bytes); });
}

Courier::Ticket Courier::receive(int from, int tag, void* data, std::size_t bytes) {
  return begin([=, this] { return communicator_.receive(from, tag, data, bytes); });
}

Courier::Ticket Courier::begin(Begin message) {
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = ++posted_;
    under_way_.insert(ticket);
  }
  wake_.notify_one();
  if (!thread_) {
    open_.push_back({ticket, message()});
    return ticket;
  }
  thread_->post([this, ticket, message = std::move(message)] {
    try {
      see_to(ticket, message);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failed_) failed_ = std::current_exception();
      changed_.notify_all();
    }
  });
  return ticket;
}

void Courier::see_to(Ticket ticket, const Begin& message) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_ || stopping_) return;
  }
  open_.push_back({ticket, message()});
  for (auto rest = kFirstRest;; rest = std::min(2 * rest, kRest)) {
    settle(awaited_);
    if (open_.empty()) return;
    std::unique_lock lock(mutex_);
    const auto is_wanted = [&] { return awaited_ || stopping_ || posted_ != ticket; };
    wake_.wait_for(lock, rest, is_wanted);
    if (stopping_ || posted_ != ticket) return;
  }
}

void Courier::settle(bool pauses) {
  transfers_.clear();
  for (const Open& each : open_) transfers_.push_back(each.transfer);
  if (pauses)
    communicator_.advance(transfers_);
  else
    communicator_.poll(transfers_);
  bool any = false;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    open_[i].transfer = transfers_[i];
    any = any || transfers_[i].id == 0;
  }
  if (!any) return;
  const std::lock_guard lock(mutex_);
  for (const Open& each : open_)
    if (each.transfer.id == 0) under_way_.erase(each.ticket);
  std::erase_if(open_, [](const Open& each) { return each.transfer.id == 0; });
  changed_.notify_all();
}

bool Courier::is_open(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  return under_way_.contains(ticket);
}

void Courier::wait(Ticket ticket) {
  while (!thread_ && is_open(ticket)) settle(true);
  if (!thread_) return;
  await([&] { return !under_way_.contains(ticket); });
}

template <typename Done>
void Courier::await(const Done& done) {
  std::unique_lock lock(mutex_);
  awaited_ = true;
  wake_.notify_one();
  changed_.wait(lock, [&] { return failed_ || done(); });
  awaited_ = false;
  if (!done()) std::rethrow_exception(failed_);
}

void Courier::poll() {
  if (!thread_ && !open_.empty()) settle(false);
}

void Courier::idle() {
  while (!thread_ && !open_.empty()) settle(true);
  if (!thread_) return;
  await([&] { return under_way_.empty(); });
  thread_->wait();
}

}  // namespace mlx::dist
