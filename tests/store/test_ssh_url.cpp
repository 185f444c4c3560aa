// URLs of SSH remotes and the command line they become. Above all: no name in a URL, which anyone may have written into
// mlx.toml, becomes an option or a word of a shell.
#include "fixture.h"
#include "store/remote/ssh_url.h"

using namespace mlx;
using namespace mlx::store;

namespace {

std::string shown(const std::string& url) {
  const SshTarget target = parse_ssh_url(url);
  return target.user + "|" + target.host + "|" + target.port + "|" + target.path;
}

}  // namespace

TEST_CASE("SSH URLs are taken apart as git does") {
  CHECK_EQ(shown("ssh://host/srv/data"), "|host||/srv/data");
  CHECK_EQ(shown("ssh://me@host.example:2222/srv/data"), "me|host.example|2222|/srv/data");
  CHECK_EQ(shown("ssh://host/~/data"), "|host||data");
  CHECK_EQ(shown("ssh://[::1]:22/x"), "|::1|22|/x");
  CHECK_EQ(shown("ssh://host/a%20b"), "|host||/a b");
  CHECK_EQ(shown("host:data"), "|host||data");
  CHECK_EQ(shown("me@host:/srv/a b"), "me|host||/srv/a b");
  CHECK_EQ(shown("host:~/data"), "|host||data");
  CHECK_EQ(shown("[::1]:data"), "|::1||data");
  for (const char* ssh : {"ssh://h/x", "h:x", "u@h:/x", "[::1]:x"}) CHECK(is_ssh_url(ssh));
  for (const char* other : {"/a:b", "./a:b", "../x", "s3://bucket/x", "file:///x", "folder"})
    CHECK_FALSE(is_ssh_url(other));
}

TEST_CASE("SSH URLs with what could be an option or a shell's word are refused") {
  for (const char* url : {"ssh://-oProxyCommand=touch x/path",
                          "-oProxyCommand=x:path",
                          "ssh://-l@host/x",
                          "-u@host:x",
                          "ssh://a b/x",
                          "ssh://h`id`/x",
                          "h$(id):x",
                          "h;id:x",
                          "ssh://u'x@host/x",
                          "ssh://host:22x/x",
                          "ssh://host:-1/x",
                          "ssh://host:0/x",
                          "ssh://host:99999/x",
                          "ssh://host:/x",
                          "ssh://host",
                          "ssh://host/",
                          "ssh:///x",
                          "host:",
                          ":x",
                          "ssh://@host/x",
                          "ssh://user:secret@host/x",
                          "ssh://host/~other/x",
                          "host:~other",
                          "ssh://host/a%00b",
                          "ssh://host/a%4",
                          "ssh://[::1/x",
                          "ssh://[-x]/x",
                          "ssh://%68ost/x",
                          "ssh://ho\nst/x"}) {
    CAPTURE(url);
    CHECK(error_of([&] { (void)parse_ssh_url(url); }) == ErrorKind::kUsage);
  }
}

TEST_CASE("the command line of an SSH remote") {
  using Words = std::vector<std::string>;
  const auto command = [](const char* url, const SshProgram& program = {}) {
    return ssh_command(parse_ssh_url(url), program);
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
