// A job of the thread begins a message and sees to all that are under way, until there is another to begin.
#include "dist/courier.h"

#include <algorithm>
#include <utility>

namespace mlx::dist {

Courier::Courier(Communicator& communicator, bool in_background)
    : communicator_(communicator), thread_(in_background ? std::make_unique<Background>() : nullptr) {}

Courier::~Courier() {
  stopping_ = true;
}

Courier::Ticket Courier::send(int to, int tag, const void* data, std::size_t bytes) {
  return begin([=, this] { return communicator_.send(to, tag, data, bytes); });
}

Courier::Ticket Courier::receive(int from, int tag, void* data, std::size_t bytes) {
  return begin([=, this] { return communicator_.receive(from, tag, data, bytes); });
}

Courier::Ticket Courier::begin(Begin message) {
  const Ticket ticket = ++posted_;
  {
    const std::lock_guard lock(mutex_);
    under_way_.insert(ticket);
  }
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
  while (!open_.empty() && posted_ == ticket && !stopping_) settle(true);
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
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_ || !under_way_.contains(ticket); });
  if (under_way_.contains(ticket)) std::rethrow_exception(failed_);
}

void Courier::poll() {
  if (!thread_ && !open_.empty()) settle(false);
}

void Courier::idle() {
  while (!thread_ && !open_.empty()) settle(true);
  if (!thread_) return;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failed_ || under_way_.empty(); });
    if (failed_) std::rethrow_exception(failed_);
  }
  thread_->wait();
}

}  // namespace mlx::dist
