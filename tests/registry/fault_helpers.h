// Fixtures of the fault tests: temporary folders in memory, and a known passphrase.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "registry/keys/keys.h"

namespace mlx::registry::test {

// Hundreds of repositories are made, and SQLite waits for the disk in each, so they are kept in memory if possible.
class InMemory {
 public:
  InMemory() {
    if (const char* now = std::getenv("TMPDIR")) before_ = now;
    if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
  }
  ~InMemory() {
    if (before_)
      ::setenv("TMPDIR", before_->c_str(), 1);
    else
      ::unsetenv("TMPDIR");
  }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;

 private:
  std::optional<std::string> before_;
};

class KnownPassphrase final : public Unlocker {
 public:
  explicit KnownPassphrase(std::string text) : text_(std::move(text)) {}
  std::vector<KeyPair> identities() override { return {}; }
  std::optional<Secret> passphrase(const std::string&) override { return Secret(as_bytes(text_)); }

 private:
  std::string text_;
};

}  // namespace mlx::registry::test
