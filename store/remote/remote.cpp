// Which kind of remote a URL names: one row a scheme.
#include "store/remote/remote.h"

#include <algorithm>

#include "base/error.h"
#include "store/remote/folder_remote.h"
#include "store/remote/s3/remote.h"
#include "store/remote/ssh_remote.h"

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

void check_remote_url(const std::string& url) {
  if (url.empty()) fail(ErrorKind::kUsage, "a remote needs a path or a URL");
  const std::size_t end = url.find("://");
  if (end == std::string::npos) return;
  const std::string scheme = url.substr(0, end);
  std::string known;
  for (const Backend& backend : kBackends) {
    if (scheme == backend.scheme) return;
    known += fmt::format("{}{}://", known.empty() ? "" : ", ", backend.scheme);
  }
  throw Error(ErrorKind::kUsage, fmt::format("{}: unknown kind of remote '{}'", url, scheme),
              fmt::format("a remote is a folder's path or a URL that begins with {}", known));
}

std::unique_ptr<Remote> open_remote(const std::string& url, const RemoteOptions& options, Disk& disk, Pool& pool) {
  check_remote_url(url);
  const std::size_t end = url.find("://");
  if (end == std::string::npos) {
    return is_ssh_url(url) ? open_ssh_remote(url, options, disk, pool) : open_folder_remote(url, options, disk, pool);
  }
  const auto* const backend = std::ranges::find(kBackends, url.substr(0, end), &Backend::scheme);
  return backend->open(url, options, disk, pool);
}

}  // namespace mlx::store
