// ssh HOST mlx rank --key, with the key on its standard input.
#include "cmd/launch_keys.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/ssh.h"
#include "cmd/ask_host.h"
#include "dist/network.h"

namespace mlx::cmd {
namespace {

// For messages on other hosts, where "localhost" would be another one.
std::string name_of(const dist::Host& host) {
  std::array<char, 256> name{};
  return host.here() && ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : host.name;
}

[[noreturn]] void refuse(const ReadyHost& host, Conversation& ssh) {
  const int code = ssh.wait();
  const std::string said = last_line_of(ssh.errors());
  SshTarget target;
  target.host = host.host.name;
  throw Error(
      ErrorKind::kIo,
      fmt::format("{}: it does not take the key of the launch: {}", host.host.name,
                  said.empty() ? fmt::format("`mlx rank --key` ended there with {}", code) : said),
      code == kSshFailed ? ssh_hint(target, ssh.errors()).value_or("try: ssh " + target.login() + " true") : "");
}

}  // namespace

LaunchKeys hand_out_key(const std::vector<ReadyHost>& hosts, Context& context) {
  dist::hide_memory();
  std::vector<dist::Host> named;
  named.reserve(hosts.size());
  const auto processes = [](const ReadyHost& host) { return std::max(1, host.host.ranks); };  // one that only records
  for (const ReadyHost& host : hosts) named.push_back({name_of(host.host), processes(host)});
  const dist::LaunchKey key = dist::make_launch_key(std::move(named));
  LaunchKeys out;
  std::vector<std::pair<const ReadyHost*, Conversation*>> asked;
  out.holders.reserve(hosts.size());
  int first = 0;
  for (const ReadyHost& host : hosts) {
    dist::HeldKey held{key, first, processes(host)};
    first += held.count;
    out.holders.push_back(held.name());
    if (host.host.here()) {
      out.here = std::make_unique<dist::KeyHolder>(std::move(held));
      continue;
    }
    SshTarget target;
    target.host = host.host.name;
    const std::string command = remote_word(host.facts.program) + " rank --key";
    out.there.push_back(std::make_unique<Conversation>(ssh_command(target, ssh_program(context.environment()), command),
                                                       context.progress().interruption()));
    asked.emplace_back(&host, out.there.back().get());
    out.there.back()->write(dist::encode(held));
  }
  for (const auto& [host, ssh] : asked) {
    char ready = 0;
    if (ssh->read(&ready, 1) == 0) refuse(*host, *ssh);
  }
  return out;
}

std::string network_of(const std::vector<ReadyHost>& hosts) {
  std::vector<std::string> addresses;
  for (const ReadyHost& host : hosts) {
    if (host.host.here()) continue;
    if (!dist::is_own_address(host.facts.caller)) return "";
    addresses.insert(addresses.end(), {host.facts.caller, host.facts.address});
  }
  return dist::common_network(addresses);
}

}  // namespace mlx::cmd
