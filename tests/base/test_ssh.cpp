// URLs of SSH hosts, the command line that they become, and what ssh says. Above all: no name in a URL, which anyone
// may have written into mlx.toml, becomes an option or a word of a shell.
#include <doctest/doctest.h>

#include "base/ssh.h"
#include "throws.h"

using namespace mlx;

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
    CHECK(error_of([&] { (void)parse_ssh_url(url); }).kind == ErrorKind::kUsage);
  }
}

TEST_CASE("the command line that reaches a host") {
  using Words = std::vector<std::string>;
  const SshTarget plain = parse_ssh_url("host:x"), full = parse_ssh_url("ssh://me@host:2222/x");
  CHECK(ssh_command(plain, "", "true") == Words{"ssh", "host", "true"});
  CHECK(ssh_command(full, "", "true") == Words{"ssh", "-p", "2222", "me@host", "true"});
  CHECK(ssh_command(plain, "ssh -i 'a key'", "true") ==
        Words{"sh", "-c", "ssh -i 'a key' \"$@\"", "ssh -i 'a key'", "host", "true"});
  CHECK_EQ(remote_word("~/bin/mlx $(id)"), "~/'bin/mlx $(id)'");
  CHECK_EQ(remote_word("/usr/local/bin/mlx"), "/usr/local/bin/mlx");
}

TEST_CASE("what helps where ssh could not connect") {
  const SshTarget target = parse_ssh_url("me@host:x");
  CHECK_EQ(ssh_hint(target, "ssh: connect to host h port 22: Connection refused\n").value_or(""),
           "does an SSH server listen there? try: ssh me@host true");
  CHECK_FALSE(ssh_hint(target, "something else"));
}
