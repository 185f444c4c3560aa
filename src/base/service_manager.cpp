// A socket whose name begins with @ is in the abstract namespace (unix(7)).
#include "base/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "base/error.h"

namespace mlx {
namespace {

constexpr int kFirstSocket = 3;  // SD_LISTEN_FDS_START
constexpr int kMostSockets = 1024;

// Of a variable; 0 if it is not set, or no number.
int number_in(const std::optional<std::string>& variable) {
  const std::string text = variable.value_or("");
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

int option_of(int socket, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

}  // namespace

void tell_service_manager(const Environment& environment, std::string_view state) {
  const std::string place = environment.get("NOTIFY_SOCKET").value_or("");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (place.size() < 2 || place.size() >= sizeof address.sun_path || (place[0] != '/' && place[0] != '@')) return;
  std::memcpy(address.sun_path, place.data(), place.size());
  if (place[0] == '@') address.sun_path[0] = '\0';  // a name that no file system has
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + place.size());
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket)
    (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                   reinterpret_cast<const sockaddr*>(&address), length);
}

std::vector<Fd> sockets_of_service_manager(const Environment& environment) {
  std::vector<Fd> out;
  if (number_in(environment.get("LISTEN_PID")) != ::getpid()) return out;
  const int count = number_in(environment.get("LISTEN_FDS"));
  for (int socket = kFirstSocket; socket < kFirstSocket + std::min(count, kMostSockets); ++socket) {
    if (option_of(socket, SO_TYPE) != SOCK_STREAM || option_of(socket, SO_ACCEPTCONN) != 1)
      fail(ErrorKind::kUsage, "LISTEN_FDS: descriptor {} is no stream socket that listens", socket);
    ::fcntl(socket, F_SETFD, FD_CLOEXEC);
    out.emplace_back(socket);
  }
  return out;
}

}  // namespace mlx
