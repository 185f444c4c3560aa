// The key of a launch, given to its hosts (dist/launch_key.h), and the network that they are told to meet in: what
// `mlx train --hosts … --encrypt` does before it starts ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "cmd/cli/cli.h"
#include "cmd/hosts.h"
#include "dist/launch_key.h"

namespace mlx::cmd {

// Who holds the key while ranks start. It is gone from here with them.
struct LaunchKeys {
  std::vector<std::string> holders;                  // their names, of each host; empty without a key
  std::unique_ptr<dist::KeyHolder> here;             // for the ranks of this machine
  std::vector<std::unique_ptr<Conversation>> there;  // `ssh HOST mlx rank --key` for each other host
};
// Makes a key, and gives it to a holder on each host. Throws kIo if a host does not take it.
LaunchKeys hand_out_key(const std::vector<ReadyHost>& hosts, Context& context);

// The smallest network with the addresses by which ssh reached the hosts, and this machine's own in those connections;
// "" if it is not known, as behind a jump host.
std::string network_of(const std::vector<ReadyHost>& hosts);

}  // namespace mlx::cmd
