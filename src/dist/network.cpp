// Addresses by their bits, and the system's interfaces.
#include "dist/network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>

namespace mlx::dist {

std::string common_network(const std::vector<std::string>& addresses) {
  constexpr int kShortest = 8;
  std::uint32_t first = 0, differ = 0;
  for (const std::string& text : addresses) {
    in_addr address{};
    if (::inet_pton(AF_INET, text.c_str(), &address) != 1) return "";
    const std::uint32_t bits = ntohl(address.s_addr);
    if (&text == &addresses.front()) first = bits;
    differ |= bits ^ first;
  }
  const int prefix = std::countl_zero(differ);
  if (addresses.empty() || prefix < kShortest) return "";
  const std::uint32_t mask = prefix == 32 ? ~0u : ~(~0u >> prefix), network = first & mask;
  return fmt::format("{}.{}.{}.{}/{}", network >> 24, network >> 16 & 255, network >> 8 & 255, network & 255, prefix);
}

bool is_own_address(const std::string& address) {
  in_addr wanted{};
  ifaddrs* all = nullptr;
  if (::inet_pton(AF_INET, address.c_str(), &wanted) != 1 || ::getifaddrs(&all) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  for (const ifaddrs* each = all; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
    if (reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr == wanted.s_addr) return true;
  }
  return false;
}

}  // namespace mlx::dist
