// Ranks that something else than mlx has started, and nobody listens to (pulse.h), watch each other: each tells the
// first once a second that it lives, and the first tells all (side_channel.h). Who hears nothing of a rank for some
// seconds names it.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "dist/communicator.h"
#include "dist/side_channel.h"
#include "dist/watch.h"

namespace mlx::dist {

class MutualWatch {
 public:
  struct Hears {
    std::function<void(const std::string& what)> lost;  // a rank is, as Watch::lost() names it: for people
    std::function<void()> end;                          // this rank is to end, because one is lost; it may not return
    std::function<bool()> is_asked_to_end;              // whether something has asked this process to
    std::function<void(const std::string& what)> unwatched;  // why a rank takes no part in this
  };
  // All ranks make one at the same time. `ranks` must outlive it. `hears` is called by a thread of its own.
  MutualWatch(Communicator& ranks, Hears hears);
  ~MutualWatch();  // tells the others that this rank has ended
  MutualWatch(const MutualWatch&) = delete;
  MutualWatch& operator=(const MutualWatch&) = delete;

 private:
  void watch_all(const Meeting& meeting);
  void watch_first(const MeetingPoint& point);

  Communicator& ranks_;
  Hears hears_;
  std::optional<Meeting> meeting_;  // of the first rank
  std::atomic<bool> ends_ = false;
  std::jthread thread_;  // last, so that it ends first
};

}  // namespace mlx::dist
