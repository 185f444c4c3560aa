// Types of file systems as statfs(2) and linux/magic.h number them.
#include "store/network_disk.h"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"

namespace mlx::store {

namespace {

constexpr std::array<std::uint32_t, 11> kNetworkTypes = {
    0x6969,      // NFS
    0xff534d42,  // CIFS
    0xfe534d42,  // SMB2
    0x517b,      // SMB
    0x0bd00bd0,  // Lustre
    0x47504653,  // GPFS
    0x00c36400,  // Ceph
    0x5346414f,  // AFS
    0x01021997,  // 9P
    0x19830326,  // BeeGFS
    0x65735546,  // FUSE: sshfs and its like; a local one is only slower this way
};

}  // namespace

bool is_on_network(const std::string& path) {
  struct statfs status {};
  int code = 0;
  do {
    code = ::statfs(parent_path(path).c_str(), &status);
  } while (code != 0 && errno == EINTR);
  if (code != 0) return false;  // opening it reports the error
  return std::ranges::find(kNetworkTypes, static_cast<std::uint32_t>(status.f_type)) != kNetworkTypes.end();
}

void probe_locks(const std::string& path) {
  // Not the database itself: closing any descriptor of it would drop SQLite's own locks.
  std::string probe = path + "-locks";
  Fd fd = open_file(probe, O_RDWR | O_CREAT);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  if (::fcntl(fd.get(), F_SETLK, &lock) == 0 || errno == EAGAIN || errno == EACCES) return;
  throw Error(ErrorKind::kIo, fmt::format("{}: locks do not work on this file system: {}", path, std::strerror(errno)),
              "mount it with locks (NFS: without nolock, with lockd running), or keep .mlx on a local disk");
}

}  // namespace mlx::store
