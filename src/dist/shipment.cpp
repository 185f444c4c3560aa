// Files by what `ldd` says, and an archive by `tar`: both are on every Debian.
#include "dist/shipment.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/module.h"
#include "base/path.h"
#include "base/ssh.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace mlx::dist {
namespace {

namespace fs = std::filesystem;

// A host has these, in versions that belong together.
constexpr std::array<std::string_view, 13> kOfTheHost{
    "ld-linux",    "libc.so",   "libm.so",   "libdl.so", "libpthread.so", "librt.so",   "libresolv.so",
    "libgcc_s.so", "libstdc++", "libmpi.so", "libmpi_",  "libopen-rte",   "libopen-pal"};
constexpr const char* kMpi = "mlx_mpi.so";  // links what only Open MPI needs

bool is_of_the_host(std::string_view name) {
  for (const std::string_view each : kOfTheHost)
    if (name.starts_with(each)) return true;
  return false;
}

using Files = std::map<std::string, std::string>;  // path in the archive -> path here

// "libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x…)"
void add_libraries(const std::string& of, Files& files) {
  const ProcessResult ldd = run_process({"ldd", of});
  if (ldd.exit_code != 0) fail(ErrorKind::kMissing, "ldd {}: {}", of, last_line_of(ldd.err));
  std::istringstream lines(ldd.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, arrow, path;
    if (!(words >> name >> arrow >> path) || arrow != "=>" || is_of_the_host(name)) continue;
    if (path == "not") fail(ErrorKind::kMissing, "{}: {} is not found", of, name);
    files.emplace("lib/mlx/" + name, path);
  }
}

Files files_of_program() {
  const std::string program = executable_path();
  if (program.empty()) fail(ErrorKind::kMissing, "this program's file cannot be found");
  Files files{{"bin/mlx", program}};
  add_libraries(program, files);
  const std::string folder = executable_folder();
  for (const std::string& modules : {join_path(folder, "lib/mlx"), join_path(folder, "../lib/mlx")}) {
    if (!is_folder(modules)) continue;
    for (const std::string& name : list_folder(modules)) {
      if (!name.ends_with(".so") || !name.starts_with("mlx_")) continue;
      const std::string path = join_path(modules, name);
      if (files.emplace("lib/mlx/" + name, path).second && name != kMpi) add_libraries(path, files);
    }
  }
  return files;
}

}  // namespace

Shipment pack_program() {
  const TempFolder folder;
  for (const auto& [to, from] : files_of_program()) {
    const fs::path link = fs::path(folder.path()) / to;
    fs::create_directories(link.parent_path());
    fs::create_symlink(from, link);
  }
  // The same files make the same archive.
  ProcessResult tar = run_process({"tar", "--create", "--dereference", "--sort=name", "--owner=0", "--group=0",
                                   "--numeric-owner", "--mtime=@0", "--use-compress-program=gzip -1n", "--file=-",
                                   "--directory=" + folder.path(), "bin", "lib"});
  if (tar.exit_code != 0) fail(ErrorKind::kMissing, "tar: {}", last_line_of(tar.err));
  Shipment out{std::move(tar.out), {}};
  constexpr std::size_t kDigits = 16;
  out.id = Digest::of(out.archive).hex().substr(0, kDigits);
  return out;
}

std::string find_command(const std::string& id) {
  return "sh -c " + shell_quoted(fmt::format(R"(p=${{XDG_CACHE_HOME:-$HOME/.cache}}/mlx/programs/{}
[ -x "$p/bin/mlx" ] && touch "$p" && echo "$p/bin/mlx")",
                                             id));
}

std::string unpack_command(const std::string& id) {
  return "sh -c " + shell_quoted(fmt::format(R"(set -e
all=${{XDG_CACHE_HOME:-$HOME/.cache}}/mlx/programs
mkdir -p "$all"
find "$all" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {{}} +
new=$all/.{0}.$$
mkdir "$new"
tar -xzf - -C "$new"
touch "$new"
mv -T "$new" "$all/{0}" 2>/dev/null || rm -rf "$new"
[ -x "$all/{0}/bin/mlx" ]
echo "$all/{0}/bin/mlx")",
                                             id));
}

}  // namespace mlx::dist
