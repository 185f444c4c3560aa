// Edits of TOML as text: one change, and everything else as it was.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/toml_edit.h"
#include "throws.h"

using namespace mlx;

namespace {

const char* const kText =
    "# ours\n"
    "[core]   # first\n"
    "threads = 8   # of \"16\"\n"
    "name = \"a # b\"  # why\n"
    "\n"
    "# about the lab\n"
    "[ remotes.\"lab\" ]\n"
    "url = '/mnt/lab'\n"
    "\n"
    "# the end\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("a key is replaced, added and removed, and nothing else changes") {
  CHECK(with_toml_key(kText, {"core"}, "threads", "4", "f") == replaced(kText, "= 8 ", "= 4 "));
  CHECK(with_toml_key(kText, {"core"}, "name", "\"x\"", "f") == replaced(kText, "\"a # b\"", "\"x\""));
  CHECK(with_toml_key(kText, {"core"}, "level", "1", "f") == replaced(kText, "# why\n", "# why\nlevel = 1\n"));
  CHECK(with_toml_key(kText, {"remotes", "lab"}, "url", "\"u\"", "f") == replaced(kText, "'/mnt/lab'", "\"u\""));
  CHECK(with_toml_key(kText, {"remotes", "new"}, "url", "\"u\"", "f") ==
        std::string(kText) + "\n[remotes.new]\nurl = \"u\"\n");
  CHECK(with_toml_key("", {"core"}, "threads", "4", "f") == "[core]\nthreads = 4\n");
  CHECK(with_toml_key("[core]\na = 1", {"core"}, "b", "2", "f") == "[core]\na = 1\nb = 2\n");
  CHECK(with_toml_key("[core]\r\na = 1\r\n", {"core"}, "a", "2", "f") == "[core]\r\na = 2\r\n");
  CHECK(without_toml_key(kText, {"core"}, "threads", "f") == replaced(kText, "threads = 8   # of \"16\"\n", ""));
  CHECK(without_toml_key(kText, {"core"}, "absent", "f") == kText);
  CHECK(without_toml_key(kText, {"absent"}, "threads", "f") == kText);
}

TEST_CASE("a table goes with its last key, and comments before the next table stay") {
  const std::string one = "[a]\nx = 1\n\n# about b\n[b]\ny = 2\n";
  CHECK(without_toml_key(one, {"a"}, "x", "f") == "# about b\n[b]\ny = 2\n");
  CHECK(without_toml_key(one, {"b"}, "y", "f") == "[a]\nx = 1\n\n# about b\n");
  CHECK(without_toml_table(one, {"b"}, "f") == "[a]\nx = 1\n\n# about b\n");
  CHECK(without_toml_table(one, {"c"}, "f") == one);
  const std::string added = with_toml_key(one, {"c"}, "z", "3", "f");
  CHECK(without_toml_key(added, {"c"}, "z", "f") == one);
}

TEST_CASE("what is not written line by line is refused, and never half edited") {
  const auto refused = [](const std::string& text) {
    try {
      with_toml_key(text, {"core"}, "threads", "4", "f");
    } catch (const Error& error) {
      return error.kind == ErrorKind::kConflict && error.message.starts_with("f: ");
    }
    return false;
  };
  CHECK(refused("core = { threads = 8 }\n"));
  CHECK(refused("core.threads = 8\n"));
  CHECK(refused("text = \"\"\"\n[core]\nthreads = 8\n\"\"\"\n"));
  CHECK(refused("[core]\nthreads = [\n1 ]\n"));
}

TEST_CASE("strings are quoted so that they read back") {
  CHECK(toml_quoted("a \"b\" \\c") == "\"a \\\"b\\\" \\\\c\"");
  CHECK(toml_quoted("a\nb") == "\"a\\u000Ab\"");
}
