// Reading, mapping and replacing files.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/foreign_files.h"
#include "base/path.h"
#include "throws.h"

using namespace mlx;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

}  // namespace

TEST_CASE("descriptors close with their owner and move") {
  int number = -1;
  {
    Fd fd = open_file("/dev/null", O_RDONLY);
    number = fd.get();
    CHECK((::fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
    Fd other = std::move(fd);
    CHECK_FALSE(static_cast<bool>(fd));
    CHECK_EQ(other.get(), number);
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("files are read whole, even those that do not know their size") {
  const TempFolder temp;
  const std::string path = join_path(temp.path(), "file");
  std::string text(300'000, 'x');
  text[7] = '\0';
  write_file_atomically(path, text);
  CHECK(read_text(path) == text);
  CHECK_EQ(read_file(path).size(), text.size());
  write_file_atomically(path, std::string_view());
  CHECK(read_file(path).empty());
  CHECK(contains(read_text("/proc/self/status"), "Name:"));
}

TEST_CASE("what cannot be read says which file and why") {
  const Error missing = error_of([] { read_file("/nowhere/file"); });
  CHECK(missing.kind == ErrorKind::kNotFound);
  CHECK(contains(missing.message, "/nowhere/file"));
  const Error folder = error_of([] { read_file("/tmp"); });
  CHECK(folder.kind == ErrorKind::kIo);
  CHECK_EQ(folder.message, "/tmp: cannot read: Is a directory");
}

TEST_CASE("read_at stops at the end of the file") {
  const TempFolder temp;
  const std::string path = join_path(temp.path(), "file");
  write_file_atomically(path, std::string_view("0123456789"));
  const Fd fd = open_file(path, O_RDONLY);
  char buffer[8] = {};
  CHECK_EQ(read_at(fd.get(), buffer, 4, 2, path), 4);
  CHECK_EQ(std::string(buffer, 4), "2345");
  CHECK_EQ(read_at(fd.get(), buffer, 8, 7, path), 3);
  CHECK_EQ(read_at(fd.get(), buffer, 8, 100, path), 0);
}

TEST_CASE("replacing a file keeps its permissions and leaves nothing behind") {
  const TempFolder temp;
  const std::string path = join_path(temp.path(), "file");
  write_file_atomically(path, as_bytes("one"), 0600);
  CHECK_EQ(mode_of(path), 0600);
  REQUIRE(::chmod(path.c_str(), 0751) == 0);
  write_file_atomically(path, std::string_view("two"));
  CHECK_EQ(mode_of(path), 0751);
  CHECK_EQ(read_text(path), "two");
  CHECK(list_folder(temp.path()) == std::vector<std::string>{"file"});
}

TEST_CASE("replacing through a symbolic link keeps the link") {
  const TempFolder temp;
  const std::string path = join_path(temp.path(), "file"), link = join_path(temp.path(), "link");
  write_file_atomically(path, std::string_view("one"));
  REQUIRE(::symlink("file", link.c_str()) == 0);
  write_file_atomically(link, std::string_view("two"));
  CHECK_EQ(read_text(path), "two");
  struct stat info {};
  REQUIRE(::lstat(link.c_str(), &info) == 0);
  CHECK(S_ISLNK(info.st_mode));
}

TEST_CASE("a failed write leaves the old file and no other") {
  const TempFolder temp;
  const std::string path = join_path(temp.path(), "folder");
  make_folders(path);
  CHECK(error_of([&] { write_file_atomically(path, std::string_view("x")); }).kind == ErrorKind::kIo);
  const std::string nowhere = join_path(temp.path(), "none/file");
  const Error error = error_of([&] { write_file_atomically(nowhere, std::string_view("x")); });
  CHECK(error.kind == ErrorKind::kNotFound);
  CHECK(contains(error.message, nowhere));
  CHECK(list_folder(temp.path()) == std::vector<std::string>{"folder"});
}

TEST_CASE("devices are written, not replaced") {
  write_file_atomically("/dev/null", std::string_view("x"));
  struct stat info {};
  REQUIRE(::stat("/dev/null", &info) == 0);
  CHECK(S_ISCHR(info.st_mode));
  const Error full = error_of([] { write_file_atomically("/dev/full", std::string_view("x")); });
  CHECK_EQ(full.message, "/dev/full: cannot write: No space left on device");
  CHECK(contains(full.hint, "free space"));
}

TEST_CASE("mapped files show the file's bytes") {
  const TempFolder temp;
  const std::string path = join_path(temp.path(), "file");
  write_file_atomically(path, std::string_view("content"));
  MappedFile map(path);
  CHECK_EQ(as_text(map.bytes()), "content");
  MappedFile other = std::move(map);
  CHECK(map.bytes().empty());
  CHECK_EQ(as_text(other.bytes()), "content");
  write_file_atomically(path, std::string_view());
  CHECK(MappedFile(path).bytes().empty());
  CHECK(error_of([&] { MappedFile{temp.path()}; }).kind == ErrorKind::kIo);
  CHECK(error_of([&] { MappedFile{join_path(temp.path(), "none")}; }).kind == ErrorKind::kNotFound);
}

TEST_CASE("bug: what a project brings along led to a device without end, or to another file") {
  const TempFolder temp;
  const std::string file = join_path(temp.path(), "file"), link = join_path(temp.path(), "link");
  write_file_atomically(file, "text");
  CHECK(read_project_text(file) == "text");
  CHECK(error_of([&] { read_project_text(file, 3); }).kind == ErrorKind::kCorrupt);
  for (const std::string& target : {file, std::string("/dev/zero"), std::string("/nowhere")}) {
    REQUIRE(::symlink(target.c_str(), link.c_str()) == 0);
    const Error error = error_of([&] { read_project_text(link); });
    CHECK(error.kind == ErrorKind::kConflict);
    CHECK(contains(error.message, link + " is a symbolic link"));
    REQUIRE(::unlink(link.c_str()) == 0);
  }
  REQUIRE(::mkfifo(link.c_str(), 0600) == 0);
  CHECK(error_of([&] { read_project_text(link); }).kind == ErrorKind::kCorrupt);
  // Texts of people are bounded as well, whatever stands there.
  CHECK(error_of([&] { read_text("/dev/zero"); }).kind == ErrorKind::kCorrupt);
}
