// What DVC writes: .dvc files as DVC 2 and 3 write them, folder manifests, and everything that is refused.
#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "base/json.h"
#include "formats/dvc.h"

using namespace mlx;
using namespace mlx::formats;

namespace {

// As DVC 3.67 wrote it.
const std::string kFolder =
    "outs:\n- md5: 3199680fb36edf40c564b629cc375c7a.dir\n  size: 10\n  nfiles: 3\n  hash: md5\n  path: data\n";
// As DVC 2 wrote it, with what else it may say.
const std::string kVersion2 =
    "md5: a304afb96060aad90176268345e10355\nframe: '# no comment'\nwdir: ..\nmeta:\n  by: \"J\\u00fcrgen: x\"  # who\n"
    "deps:\n- path: \"in put\"\n  md5: a304afb96060aad90176268345e10355\n"
    "outs:\n  - md5: b1946ac92492d2347c6235b4d2611184\n    size: 6\n    isexec: true\n    path: 'it''s.txt'\n"
    "  - path: metrics.json\n    cache: false\n";

template <typename Parse>
std::string message_of(const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    return error.message;
  }
  return "taken";
}
std::string dvc_complaint(const std::string& text) {
  return message_of([&] { parse_dvc_file(text, "f"); });
}
std::string dir_complaint(const std::string& text) {
  return message_of([&] { parse_dvc_dir(text, "f"); });
}

}  // namespace

TEST_CASE("dvc: files as DVC writes them") {
  const DvcFile folder = parse_dvc_file(kFolder, "f");
  REQUIRE(folder.outs.size() == 1);
  const DvcOut& out = folder.outs[0];
  CHECK(out.path == "data");
  CHECK(out.md5 == "3199680fb36edf40c564b629cc375c7a");
  CHECK(out.folder);
  CHECK_FALSE(out.version2);
  CHECK(out.size == 10u);
  CHECK(out.files == 3u);

  const DvcFile two = parse_dvc_file(kVersion2, "f");
  CHECK(two.wdir == "..");
  REQUIRE(two.outs.size() == 1);
  CHECK(two.outs[0].path == "it's.txt");
  CHECK(two.outs[0].version2);
  CHECK(two.outs[0].executable);
  CHECK_FALSE(two.outs[0].folder);
}

TEST_CASE("dvc: block YAML, and what of YAML is refused") {
  const Json json =
      parse_block_yaml("# x\na:\n  b: 1\n  c:\nd:\n- - x\n  - y: 1\n    z: 'a: b'\n-\n  k: ~\ne: \"a\\tb\"\n", "f");
  CHECK(canonical(json) == R"({"a":{"b":"1","c":null},"d":[["x",{"y":"1","z":"a: b"}],{"k":null}],"e":"a\tb"})");
  const auto refused = [](const std::string& text) { return message_of([&] { parse_block_yaml(text, "f"); }); };
  CHECK(refused("") == "f:1: is empty");
  CHECK(refused("a: 1\na: 2\n") == "f:2: the key 'a' occurs twice");
  CHECK(refused("a: &x 1\n").find("f:1: is YAML of a kind") == 0);
  CHECK(refused("a: {b: 1}\n").find("f:1: is YAML of a kind") == 0);
  CHECK(refused("a: |\n  text\n").find("f:1: is YAML of a kind") == 0);
  CHECK(refused("a:\n\tb: 1\n") == "f:2: is indented by a tab");
  CHECK(refused("a:\n    b: 1\n  c: 1\n") == "f:3: is indented in a way that means nothing here");
  CHECK(refused("a: 'x\n") == "f:1: a quote has no end");
  CHECK(refused("a: 'x' y\n") == "f:1: something follows a quote");
  CHECK(refused("a: \"\\q\"\n") == "f:1: a quoted text has a wrong escape");
  CHECK(refused("just text\n") == "f:1: expected 'key: value'");
  CHECK(refused("a: \xff\n") == "f:1: is not UTF-8");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "- ";
  CHECK(refused(deep + "x\n") == "f:1: is nested too deeply");
  std::string keys;
  for (int i = 0; i < 2000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  CHECK(refused(keys) == "f:1025: has too many keys");
}

TEST_CASE("dvc: files that name nothing that can be checked are refused") {
  CHECK(dvc_complaint("a: 1\n") == "f: has no list of outs");
  CHECK(dvc_complaint("outs:\n- x\n") == "f: an out is not a mapping");
  CHECK(dvc_complaint("outs:\n- md5: b1946ac92492d2347c6235b4d2611184\n") == "f: an out has no path");
  CHECK(dvc_complaint("outs:\n- path: x\n") == "f: x has no MD5 of 32 lower-case hex digits");
  CHECK(dvc_complaint("outs:\n- path: x\n  md5: ../../../../etc/passwd\n").find("has no MD5") != std::string::npos);
  CHECK(dvc_complaint("outs:\n- path: x\n  md5: B1946ac92492d2347c6235b4d2611184\n").find("has no MD5") !=
        std::string::npos);
  CHECK(dvc_complaint("outs:\n- path: x\n  hash: etag\n  md5: b1946ac92492d2347c6235b4d2611184\n") ==
        "f: x is hashed by etag, which is not supported");
  CHECK(dvc_complaint("outs:\n- path: x\n  size: many\n  md5: b1946ac92492d2347c6235b4d2611184\n") ==
        "f: 'size' is not a number: many");
}

TEST_CASE("dvc: folder manifests") {
  const std::vector<DvcDirEntry> entries = parse_dvc_dir(
      R"([{"md5": "60b725f10c9c85c70d97880dfe8191b3", "relpath": "b"}, {"md5": "e20942bc0763636e19c18b95bb194501", "relpath": "a/x"}])",
      "f");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].path == "a/x");
  CHECK(entries[1].md5 == "60b725f10c9c85c70d97880dfe8191b3");
  const auto with = [](const std::string& path) {
    return R"({"md5": "60b725f10c9c85c70d97880dfe8191b3", "relpath": ")" + path + "\"}";
  };
  CHECK(dir_complaint("[" + with("../x") + "]") == "f: '../x' is not a path inside");
  CHECK(dir_complaint("[" + with("/etc/x") + "]") == "f: '/etc/x' is not a path inside");
  CHECK(dir_complaint("[" + with("a") + "," + with("a") + "]") == "f: 'a' occurs twice");
  CHECK(dir_complaint("{}") == "f: is not a list of files");
  CHECK(dir_complaint("[1]") != "taken");
  CHECK(dir_complaint(R"([{"relpath": "a"}])") != "taken");
  CHECK(dir_complaint(R"([{"relpath": "a", "md5": "zz"}])") == "f: a has no MD5");
}

TEST_CASE("dvc: changed at random, every text is taken or refused") {
  std::mt19937 bits(5);
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 == 0 ? kFolder : kVersion2;
    for (unsigned changes = bits() % 4 + 1; changes > 0; --changes) {
      const std::size_t at = bits() % text.size();
      switch (bits() % 3) {
        case 0:
          text.erase(at, bits() % 5 + 1);
          break;
        case 1:
          text.insert(at, 1, "\n -:'\"#\\"[bits() % 8]);
          break;
        default:
          text[at] = static_cast<char>(bits() % 256);
      }
      if (text.empty()) text = "x";
    }
    try {
      for (const DvcOut& out : parse_dvc_file(text, "f").outs) REQUIRE(out.md5.size() == 32);
    } catch (const Error& error) {
      REQUIRE((error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kMissing));
    }
  }
}
