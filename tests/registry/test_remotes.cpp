// Remotes in mlx.toml: the user's text stays as it is.
#include <doctest/doctest.h>

#include "base/fd.h"
#include "base/path.h"
#include "fails_with.h"
#include "registry/sync/sync.h"

using namespace mlx;
using namespace mlx::registry;
using registry::test::fails_with;

namespace {

const char* const kText =
    "# our project\n"
    "[policy]\n"
    "signed = true   # ask Ann\n"
    "\n"
    "[remotes.lab]\n"
    "# the big disk\n"
    "url = \"/mnt/lab\"\n"
    "\n"
    "# pipelines\n"
    "[pipelines.nightly]\n"
    "run = \"train\"\n";

}  // namespace

TEST_CASE("remotes are added and removed as text") {
  TempFolder folder;
  const std::string file = join_path(folder.path(), "mlx.toml");
  CHECK(remotes(folder.path()).empty());
  add_remote(folder.path(), {"origin", "../store"});
  CHECK(read_text(file) == "[remotes.origin]\nurl = \"../store\"\n");
  remove_remote(folder.path(), "origin");
  CHECK(read_text(file) == "");

  write_file_atomically(file, kText);
  add_remote(folder.path(), {"away", "ssh://me@host/a \"b\""});
  CHECK(read_text(file) == std::string(kText) + "\n[remotes.away]\nurl = \"ssh://me@host/a \\\"b\\\"\"\n");
  CHECK(pick_remote(folder.path(), "away").url == "ssh://me@host/a \"b\"");
  add_remote(folder.path(), {"away", "ssh://me@host/a \"b\""});
  CHECK(remotes(folder.path()).size() == 2);
  CHECK(fails_with(ErrorKind::kConflict, "/mnt/lab", [&] { add_remote(folder.path(), {"lab", "elsewhere"}); }) == "");
  remove_remote(folder.path(), "away");
  CHECK(read_text(file) == kText);
  remove_remote(folder.path(), "lab");
  CHECK(read_text(file) ==
        "# our project\n[policy]\nsigned = true   # ask Ann\n\n# pipelines\n[pipelines.nightly]\nrun = \"train\"\n");
}

TEST_CASE("a table that cannot be edited as text is left alone") {
  TempFolder folder;
  const std::string file = join_path(folder.path(), "mlx.toml"), text = "remotes.lab.url = \"/mnt/lab\"\n";
  write_file_atomically(file, text);
  CHECK(remotes(folder.path()).at(0).url == "/mnt/lab");
  CHECK(fails_with(ErrorKind::kConflict, "edit it", [&] { remove_remote(folder.path(), "lab"); }) == "");
  CHECK(read_text(file) == text);
}

TEST_CASE("one remote is picked, and the error says which there are") {
  TempFolder folder;
  const auto pick = [&](const std::string& name) { return pick_remote(folder.path(), name); };
  CHECK(fails_with(ErrorKind::kNotFound, "mlx remote add", [&] { pick(""); }) == "");
  add_remote(folder.path(), {"lab", "/mnt/lab"});
  CHECK(pick("").name == "lab");
  add_remote(folder.path(), {"office", "/mnt/office"});
  CHECK(fails_with(ErrorKind::kNotFound, "lab, office", [&] { pick(""); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, "did you mean 'office'", [&] { pick("ofice"); }) == "");
  CHECK(fails_with(ErrorKind::kNotFound, "no remote is called", [&] { remove_remote(folder.path(), "ofice"); }) == "");
  add_remote(folder.path(), {"origin", "/mnt/origin"});
  CHECK(pick("").name == "origin");
}

TEST_CASE("bad names, passwords and bad files") {
  TempFolder folder;
  const auto add = [&](const std::string& name, const std::string& url) { add_remote(folder.path(), {name, url}); };
  CHECK(fails_with(ErrorKind::kUsage, "cannot name", [&] { add("a b", "x"); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "the URL of the remote", [&] { add("a", ""); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "the URL of the remote", [&] { add("a", "x\ny"); }) == "");
  CHECK(fails_with(ErrorKind::kRefused, "tracked by git", [&] { add("a", "ssh://me:secret@host/x"); }) == "");
  CHECK_FALSE(path_exists(join_path(folder.path(), "mlx.toml")));
  write_file_atomically(join_path(folder.path(), "mlx.toml"), "[remotes.a]\nurk = \"x\"\n");
  CHECK(fails_with(ErrorKind::kUsage, "mlx.toml", [&] { remotes(folder.path()); }) == "");
}
