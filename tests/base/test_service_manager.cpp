// What a service manager is told, and what it hands over. That a server takes its socket: tests/cli/test_serve_unit.sh.
#include <doctest/doctest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>

#include "base/path.h"
#include "base/service_manager.h"

using namespace mlx;

namespace {

Environment environment_of(std::map<std::string, std::string> variables) {
  Environment out;
  out.variable = [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return out;
}

// A manager that listens at a path, or at "@NAME".
struct Manager {
  Fd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  explicit Manager(const std::string& place) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, place.data(), place.size());
    if (place[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + place.size());
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  }
  std::string heard() const {
    std::array<char, 256> text{};
    const ssize_t size = ::recv(socket.get(), text.data(), text.size(), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text.data(), static_cast<std::size_t>(size));
  }
};

}  // namespace

TEST_CASE("service manager: it is told at a path and at an abstract name") {
  const TempFolder folder;
  for (const std::string& place : {folder.path() + "/notify", "@mlx-test-" + std::to_string(::getpid())}) {
    const Manager manager(place);
    tell_service_manager(environment_of({{"NOTIFY_SOCKET", place}}), "READY=1\nSTATUS=ready");
    CHECK(manager.heard() == "READY=1\nSTATUS=ready");
    CHECK(manager.heard() == "nothing");
  }
}

TEST_CASE("service manager: without one nothing happens") {
  for (const std::string& place : {std::string(), std::string("/"), std::string("relative"), std::string("/nowhere/x"),
                                   "/" + std::string(200, 'x')})
    tell_service_manager(environment_of({{"NOTIFY_SOCKET", place}}), "READY=1");
  CHECK(sockets_of_service_manager({}).empty());
  CHECK(sockets_of_service_manager(environment_of({{"LISTEN_PID", "1"}, {"LISTEN_FDS", "1"}})).empty());
  const std::string own = std::to_string(::getpid());
  CHECK(sockets_of_service_manager(environment_of({{"LISTEN_PID", own}})).empty());
  CHECK(sockets_of_service_manager(environment_of({{"LISTEN_PID", own}, {"LISTEN_FDS", "some"}})).empty());
  CHECK(sockets_of_service_manager(environment_of({{"LISTEN_PID", own}, {"LISTEN_FDS", "-1"}})).empty());
}
