// Pauses double from one failure to the next.
#include "dist/returns.h"

#include <algorithm>

namespace mlx::dist {

void Returns::lose(const std::string& host, double now) {
  Absence& of = hosts_[host];
  if (of.missing) return;
  const bool again = of.was_back && now - of.back < kSoon;
  of.pause = again ? std::min(2 * of.pause, kLongest) : interval_;
  of.next = now + of.pause;
  of.missing = true;
}

void Returns::take_back(const std::string& host, double now) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || !found->second.missing) return;
  found->second.missing = false;
  found->second.was_back = true;
  found->second.back = now;
}

bool Returns::asks(const std::string& host, double now) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || !found->second.missing || now < found->second.next) return false;
  found->second.next = now + found->second.pause;
  return true;
}

std::vector<std::string> Returns::missing() const {
  std::vector<std::string> out;
  for (const auto& [name, of] : hosts_)
    if (of.missing) out.push_back(name);
  return out;
}

std::vector<std::string> Returns::suspects(double now) const {
  std::vector<std::string> out;
  for (const auto& [name, of] : hosts_)
    if (of.was_back && !of.missing && now - of.back < kSoon) out.push_back(name);
  return out;
}

}  // namespace mlx::dist
