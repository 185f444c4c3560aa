// One thread a host: an ssh that hangs keeps no other host from being asked.
#include "cmd/returning_hosts.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "cmd/ask_host.h"

namespace mlx::cmd {

ReturningHosts::ReturningHosts(const std::vector<ReadyHost>& hosts, dist::Returns& returns, Can can,
                               const Environment& environment)
    : returns_(returns), can_(std::move(can)), environment_(environment) {
  const std::vector<std::string> missing = returns.missing();
  for (const ReadyHost& host : hosts)
    if (std::ranges::find(missing, host.host.name) != missing.end())
      threads_.emplace_back([this, &host] { ask(host); });
}

ReturningHosts::~ReturningHosts() {
  {
    const std::scoped_lock lock(mutex_);
    ends_.raise(SIGTERM);
  }
  changed_.notify_all();
}

void ReturningHosts::ask(const ReadyHost& host) {
  std::unique_lock lock(mutex_);
  const auto ends = [&] { return found_ || ends_.signal() != 0; };
  while (!changed_.wait_for(lock, std::chrono::milliseconds(200), ends)) {
    if (!returns_.asks(host.host.name, seconds_now())) continue;
    lock.unlock();
    bool can = false;
    try {
      const Answer answer = ask_host_again(host.host, host.facts.program, environment_, ends_);
      can = answer.obstacles.empty() && can_(host.host, answer.facts);
    } catch (const Error&) {  // it was asked to end, or ssh cannot be started now
    }
    lock.lock();
    if (can) found_ = true;
  }
}

}  // namespace mlx::cmd
