// The command line that an SSH remote runs.
#include "fixture.h"
#include "store/remote/ssh_remote.h"

using namespace mlx;
using namespace mlx::store;

TEST_CASE("the command line of an SSH remote") {
  using Words = std::vector<std::string>;
  const auto command = [](const char* url, const SshProgram& program = {}) {
    return serve_store_command(parse_ssh_url(url), program);
  };
  CHECK(command("ssh://host/x y") == Words{"ssh", "host", "mlx serve-store --stdio"});
  CHECK(command("ssh://me@host:2222/x") == Words{"ssh", "-p", "2222", "me@host", "mlx serve-store --stdio"});
  CHECK(command("host:x", {"ssh -i 'a key'", ""}) ==
        Words{"sh", "-c", "ssh -i 'a key' \"$@\"", "ssh -i 'a key'", "host", "mlx serve-store --stdio"});
  CHECK(command("host:x", {"", "/opt/my mlx/it's"}).back() == "'/opt/my mlx/it'\\''s' serve-store --stdio");
  CHECK(command("host:x", {"", "~/bin/mlx $(id)"}).back() == "~/'bin/mlx $(id)' serve-store --stdio");
  CHECK(command("host:x", {"", "/usr/local/bin/mlx"}).back() == "/usr/local/bin/mlx serve-store --stdio");
  CHECK(command("host:x", {"", "", true}).back() == "mlx serve-store --stdio --repair");
}
