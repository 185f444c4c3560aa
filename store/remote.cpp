// Which kind of remote a URL names: one row a scheme.
#include "store/remote.h"

#include "base/error.h"
#include "store/folder_remote.h"
#include "store/s3/remote.h"
#include "store/ssh_remote.h"
#include "store/ssh_url.h"

namespace mlx::store {

namespace {

struct Backend {
  const char* scheme;
  std::unique_ptr<Remote> (*open)(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool);
};

constexpr Backend kBackends[] = {
    {"file", open_folder_remote},
    {"ssh", open_ssh_remote},
    {"s3", open_s3_remote},
};

}  // namespace

bool is_remote_path(const std::string& url) {
  return url.find("://") == std::string::npos && !is_ssh_url(url);
}

std::unique_ptr<Remote> open_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool) {
  if (url.empty()) fail(ErrorKind::kUsage, "a remote needs a path or a URL");
  std::size_t end = url.find("://");
  if (end == std::string::npos) {
    return is_ssh_url(url) ? open_ssh_remote(url, options, disk, pool) : open_folder_remote(url, options, disk, pool);
  }
  std::string scheme = url.substr(0, end);
  for (const Backend& backend : kBackends) {
    if (scheme == backend.scheme) return backend.open(url, options, disk, pool);
  }
  std::string known;
  for (const Backend& backend : kBackends) known += fmt::format(", {}://", backend.scheme);
  throw Error(ErrorKind::kUsage, fmt::format("{}: unknown kind of remote '{}'", url, scheme),
              fmt::format("a remote is a folder's path or a URL that begins with {}", known.substr(2)));
}

}  // namespace mlx::store
