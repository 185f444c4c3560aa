// Which network the ranks of several hosts meet in. Used by launching, to tell MPI.
#pragma once

#include <string>
#include <vector>

namespace mlx::dist {

// The smallest IPv4 network that all addresses are in, as "10.77.0.0/30"; "" if one is no IPv4 address, or if no
// network smaller than 1/256 of all has them.
std::string common_network(const std::vector<std::string>& addresses);
// Whether an interface of this machine has the address.
bool is_own_address(const std::string& address);

}  // namespace mlx::dist
