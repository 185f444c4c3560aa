// Sixty-four bits of the kernel's randomness as text.
#include "registry/operations/random_id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>

#include "base/bytes.h"
#include "base/error.h"

namespace mlx::registry {

std::string random_id() {
  std::array<std::uint8_t, 8> bytes{};
  // Up to 256 bytes are never interrupted once the generator is ready (getrandom(2)).
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) fail_errno(errno, "getrandom", "read random bytes from");
  }
  return to_hex(bytes);
}

}  // namespace mlx::registry
