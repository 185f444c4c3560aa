// Settings: which source wins, strict files, and edits that leave the rest alone.
#include "registry/settings/settings.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "fails_with.h"

using namespace mlx;
using namespace mlx::registry;
using registry::test::fails_with;

namespace {

struct SettingsPlace {
  SettingsPlace() {
    make_folders(join_path(folder.path(), "repo/.mlx"));
    sources.root = join_path(folder.path(), "repo");
    sources.environment.home = join_path(folder.path(), "home");
    sources.environment.variable = [this](const std::string& name) {
      return name == "MLX_THREADS" ? std::optional(threads) : std::nullopt;
    };
  }
  Settings read() const { return Settings(sources); }
  std::string file(SettingOrigin origin) const { return settings_file(sources, origin); }

  TempFolder folder;
  SettingSources sources;
  std::string threads;
};

}  // namespace

TEST_CASE("the strongest source of a setting decides, and the others stay known") {
  SettingsPlace place;
  CHECK(place.read().integer("core.threads") == 0);
  CHECK(place.read().find("core.threads")->origin == SettingOrigin::kDefault);
  CHECK_FALSE(place.read().find("remote.default"));
  std::int64_t threads = 1;
  for (const SettingOrigin origin : {SettingOrigin::kUser, SettingOrigin::kTracked, SettingOrigin::kClone}) {
    CHECK(write_setting(place.sources, origin, "core.threads", std::to_string(++threads), false));
    CHECK(place.read().integer("core.threads") == threads);
    CHECK(place.read().find("core.threads")->origin == origin);
  }
  CHECK(place.read().find("core.threads")->place == ".mlx/config.toml:2");
  place.threads = "9";
  CHECK(place.read().integer("core.threads") == 9);
  CHECK(place.read().find("core.threads")->place == "MLX_THREADS");
  CHECK(place.read().find_in(SettingOrigin::kUser, "core.threads")->text == "2");
  place.threads = "";
  CHECK(remove_setting(place.sources, SettingOrigin::kClone, "core.threads", false));
  CHECK_FALSE(remove_setting(place.sources, SettingOrigin::kClone, "core.threads", false));
  CHECK(place.read().integer("core.threads") == 3);
}

TEST_CASE("an error in a settings file names the line and a suggestion") {
  SettingsPlace place;
  const auto says = [&](const std::string& text, const std::string& words) {
    write_file_atomically(place.file(SettingOrigin::kTracked), text);
    return fails_with(ErrorKind::kUsage, words, [&] { place.read(); });
  };
  CHECK(says("\n[core]\nthread = 4\n",
             "mlx.toml:3: no setting is called 'core.thread' | did you mean 'core.threads'") == "");
  CHECK(says("[core]\nthreads = \"4\"\n", "mlx.toml:2: [core] threads: expected an integer") == "");
  CHECK(says("[core]\nthreads = 99999\n", "mlx.toml:2:") == "");
  CHECK(says("[remote]\ndefault = 4\n", "mlx.toml:2: [remote] default: expected a string") == "");
  CHECK(says("core = 4\n", "mlx.toml:1:") == "");
  CHECK(says("[core\n", "mlx.toml:1:") == "");
  CHECK(says("[core.threads]\nx = 1\n", "mlx.toml:1:") == "");
  write_file_atomically(place.file(SettingOrigin::kTracked), "[remotes.origin]\nurl = \"x\"\n");
  CHECK(place.read().integer("core.threads") == 0);  // remotes have a reader of their own
  write_file_atomically(place.file(SettingOrigin::kClone), "[remotes.origin]\nurl = \"x\"\n");
  CHECK(fails_with(ErrorKind::kUsage, ".mlx/config.toml:1:", [&] { place.read(); }) == "");
}

TEST_CASE("wrong values are refused before a file is touched, and secrets always") {
  SettingsPlace place;
  const auto write = [&](const std::string& key, const std::string& value) {
    write_setting(place.sources, SettingOrigin::kClone, key, value, false);
  };
  CHECK(fails_with(ErrorKind::kUsage, "expected an integer from 0", [&] { write("core.threads", "many"); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "expected an integer from 0", [&] { write("core.threads", "-1"); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "control characters", [&] { write("remote.default", "a\nb"); }) == "");
  CHECK(fails_with(ErrorKind::kUsage, "no setting", [&] { write("x.y", "1"); }) == "");
  CHECK(fails_with(ErrorKind::kRefused, "environment", [&] { write("remote.password", "hunter2"); }) == "");
  CHECK(fails_with(ErrorKind::kRefused, "environment", [&] { write("s3.SecretKey", "x"); }) == "");
  CHECK(fails_with(ErrorKind::kRefused, "secrets", [&] { write("remote.default", "ssh://me:pw@host/x"); }) == "");
  CHECK_FALSE(path_exists(place.file(SettingOrigin::kClone)));
  place.threads = "many";
  CHECK(fails_with(ErrorKind::kUsage, "environment variable MLX_THREADS", [&] { place.read(); }) == "");
}

TEST_CASE("a dry run changes nothing, the same again is unchanged, a link stays a link") {
  SettingsPlace place;
  CHECK(write_setting(place.sources, SettingOrigin::kUser, "core.threads", "4", true));
  CHECK_FALSE(path_exists(place.file(SettingOrigin::kUser)));
  const std::string real = join_path(place.folder.path(), "dotfiles.toml");
  write_file_atomically(real, "# mine\n");
  make_folders(parent_path(place.file(SettingOrigin::kUser)));
  REQUIRE(::symlink(real.c_str(), place.file(SettingOrigin::kUser).c_str()) == 0);
  CHECK(write_setting(place.sources, SettingOrigin::kUser, "core.threads", "4", false));
  CHECK_FALSE(write_setting(place.sources, SettingOrigin::kUser, "core.threads", "4", false));
  CHECK(read_text(real) == "# mine\n\n[core]\nthreads = 4\n");
  place.sources.root.clear();
  CHECK(fails_with(ErrorKind::kUsage, "--global",
                   [&] { write_setting(place.sources, SettingOrigin::kClone, "core.threads", "4", false); }) == "");
}

TEST_CASE("bug: a link to a device in the place of mlx.toml took memory without end") {
  SettingsPlace place;
  REQUIRE(::symlink("/dev/zero", place.file(SettingOrigin::kTracked).c_str()) == 0);
  CHECK(fails_with(ErrorKind::kConflict, "mlx.toml is a symbolic link", [&] { place.read(); }) == "");
  CHECK(fails_with(ErrorKind::kConflict, "mlx.toml is a symbolic link",
                   [&] { write_setting(place.sources, SettingOrigin::kTracked, "core.threads", "4", false); }) == "");
}

TEST_CASE("only the user declares which folders of others are safe") {
  SettingsPlace place;
  const auto write = [&](SettingOrigin origin) {
    return write_setting(place.sources, origin, "safe.directory", "/srv/shared", false);
  };
  for (const SettingOrigin origin : {SettingOrigin::kTracked, SettingOrigin::kClone}) {
    CHECK(fails_with(ErrorKind::kUsage, "--global", [&] { write(origin); }) == "");
    write_file_atomically(place.file(origin), "[safe]\ndirectory = \"*\"\n");
  }
  CHECK(place.read().text("safe.directory") == "");
  CHECK(write(SettingOrigin::kUser));
  CHECK(place.read().text("safe.directory") == "/srv/shared");
  // bug: the project's file was told to have set the key that signs, which is not asked of it.
  const std::string refusal = "has an effect only in your own settings";
  CHECK(fails_with(ErrorKind::kUsage, refusal, [&] {
          write_setting(place.sources, SettingOrigin::kTracked, "user.signingkey", "k", false);
        }) == "");
  CHECK(write_setting(place.sources, SettingOrigin::kClone, "user.signingkey", "k", false));
  CHECK(place.read().text("user.signingkey") == "k");
}
