// Names and numbers of ranks, one after the other.
#include "dist/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/ssh.h"
#include "base/text.h"

namespace mlx::dist {
namespace {

constexpr int kMostRanks = 4096;
constexpr const char* kForms = "write HOST or HOST:RANKS; a user, a port or an address stand in ssh's own config";

[[noreturn]] void refuse(const std::string& place, std::string_view why) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {}", place, why), kForms);
}

int parse_ranks(const std::string& place, std::string_view text) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc() || end != text.data() + text.size() || ranks < 1 || ranks > kMostRanks)
    refuse(place, fmt::format("'{}' is no number of ranks from 1 to {}", printable(text), kMostRanks));
  return ranks;
}

void check_name(const std::string& place, const std::string& name) {
  if (name.empty()) refuse(place, "the name of a host is missing");
  try {
    if (parse_ssh_url(name + ":path").user.empty()) return;
  } catch (const Error&) {
    // Said below.
  }
  refuse(place, fmt::format("'{}' is no name of a host", printable(name)));
}

void add(std::vector<Host>& to, const std::string& place, std::string_view name, std::string_view ranks) {
  Host host;
  host.name = name;
  check_name(place, host.name);
  if (host.name == "127.0.0.1" || host.name == "local") host.name = kThisHost;
  if (ranks.data()) host.ranks = parse_ranks(place, ranks);
  if (std::ranges::find(to, host.name, &Host::name) != to.end())
    refuse(place, fmt::format("the host {} stands there twice", host.name));
  to.push_back(std::move(host));
}

std::string_view after(std::string_view text, std::size_t at) {
  return at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
}

std::vector<Host> in_order(std::vector<Host> hosts, const std::string& place) {
  if (ranks_on(hosts) > kMostRanks) refuse(place, fmt::format("more than {} ranks", kMostRanks));
  std::stable_partition(hosts.begin(), hosts.end(), [](const Host& host) { return host.here(); });
  if (!hosts.front().here()) hosts.insert(hosts.begin(), Host{kThisHost, 0});
  return hosts;
}

}  // namespace

std::vector<Host> parse_hosts(const std::string& text) {
  const std::string place = "--hosts " + printable(text);
  std::vector<Host> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view word = std::string_view(text).substr(at, end - at);
    const std::size_t colon = word.find(':');
    add(out, place, word.substr(0, colon), after(word, colon));
    at = end + 1;
  }
  return in_order(std::move(out), place);
}

std::vector<Host> parse_hostfile(const std::string& text, const std::string& file) {
  std::vector<Host> out;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = fmt::format("{}:{}", file, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, ranks, more;
    if (!(words >> name)) continue;
    words >> ranks >> more;
    if (!more.empty()) refuse(place, fmt::format("'{}' is one word too many", printable(more)));
    constexpr std::string_view kSlots = "slots=";
    if (!ranks.empty() && !ranks.starts_with(kSlots))
      refuse(place, fmt::format("expected slots=N, found '{}'", printable(ranks)));
    const std::size_t colon = name.find(':');
    const std::string_view of_slots =
        ranks.empty() ? std::string_view() : std::string_view(ranks).substr(kSlots.size());
    add(out, place, std::string_view(name).substr(0, colon),
        colon == std::string::npos ? of_slots : after(name, colon));
  }
  if (out.empty()) refuse(file, "it names no host");
  return in_order(std::move(out), file);
}

int ranks_on(const std::vector<Host>& hosts) {
  int out = 0;
  for (const Host& host : hosts) out += std::min(host.ranks, kMostRanks);
  return out;
}

}  // namespace mlx::dist
