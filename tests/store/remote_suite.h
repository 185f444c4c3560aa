// Checks for every kind of remote: the folder, the wire protocol, SSH and S3 all run them. A RemoteUnderTest opens a
// remote of one kind; each check gets a new, empty remote.
//
// tests/store/test_remote_suite.cpp runs those that need no server. For a server elsewhere a script sets
// MLX_TEST_REMOTE (a URL below which remotes may be made), and MLX_TEST_REMOTE_FOLDER if its files can be reached as a
// folder, and calls `test_store -tc="remote suite: the remote in MLX_TEST_REMOTE"`.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "store/remote/remote.h"

namespace mlx::store {

class RemoteUnderTest {
 public:
  virtual ~RemoteUnderTest() = default;
  // Another connection to the same remote, which the first call makes.
  virtual std::unique_ptr<Remote> open() = 0;
  // The remote's files as a folder in which packs are packs/*.pack; "" if they cannot be reached.
  virtual std::string folder() { return {}; }
};

// Runs all checks, each on what `make` returns.
void run_remote_suite(const std::function<std::unique_ptr<RemoteUnderTest>()>& make);

}  // namespace mlx::store
