// The journal: order, torn tails, damage, and writers at once.
#include <sys/wait.h>
#include <unistd.h>

#include "fault_disk.h"
#include "fixture.h"
#include "store/journal.h"

using namespace mlx;
using namespace mlx::store;

namespace {

struct Log {
  TempFolder temp;
  std::unique_ptr<Disk> disk = unsynced_disk();
  std::string path = temp.path() + "/journal";
  Journal journal{path, *disk};

  std::vector<std::string> all() {
    std::vector<std::string> texts;
    journal.visit([&](const Digest& id, ByteView bytes) {
      CHECK(id == Digest::of(bytes));
      texts.emplace_back(as_text(bytes));
    });
    return texts;
  }
};

}  // namespace

TEST_CASE("operations come back in the order of writing") {
  Log log;
  CHECK(log.all().empty());
  CHECK(log.journal.append(as_bytes("one")) == Digest::of("one"));
  log.journal.append_all({to_bytes("two"), Bytes(), to_bytes(std::string(100'000, 'x'))});
  log.journal.append_all({});
  log.journal.append(as_bytes("last"));
  auto texts = log.all();
  REQUIRE(texts.size() == 5);
  CHECK(texts[0] == "one");
  CHECK(texts[1] == "two");
  CHECK(texts[2].empty());
  CHECK(texts[3].size() == 100'000);
  CHECK(texts[4] == "last");
}

TEST_CASE("a journal cut anywhere in its last record keeps the ones before, and the next append cuts the rest off") {
  Log log;
  log.journal.append(as_bytes("one"));
  std::size_t first = read_file(log.path).size();
  log.journal.append(as_bytes("two, which is torn"));
  Bytes whole = read_file(log.path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    write_test_file(log.path, ByteView(whole).first(size));
    auto texts = log.all();
    CHECK(texts.size() == (size < first ? 0 : 1));
    log.journal.append(as_bytes("next"));
    auto after = log.all();
    REQUIRE(after.size() == texts.size() + 1);
    CHECK(after.back() == "next");
  }
}

TEST_CASE("a tail of zeros, as a file system may leave it, is torn") {
  Log log;
  log.journal.append(as_bytes("one"));
  Bytes whole = read_file(log.path);
  whole.resize(whole.size() + 500);
  write_test_file(log.path, whole);
  CHECK(log.all().size() == 1);
  log.journal.append(as_bytes("two"));
  CHECK(log.all().size() == 2);
}

TEST_CASE("damage before the last record is kCorrupt for readers and writers, and stays as it is") {
  Log log;
  for (int i = 0; i < 3; ++i) log.journal.append(as_bytes("operation " + std::to_string(i)));
  Bytes whole = read_file(log.path);
  std::size_t last = whole.size() - (56 + 4 + 11 + 8);
  for (std::size_t at = 0; at < last; at += 3) {
    CAPTURE(at);
    Bytes damaged = whole;
    damaged[at] ^= 0x10;
    write_test_file(log.path, damaged);
    CHECK(error_of([&] { log.all(); }) == ErrorKind::kCorrupt);
    CHECK(read_file(log.path) == damaged);
  }
}

TEST_CASE("a journal quoted inside an operation is not taken for one") {
  Log log;
  log.journal.append(as_bytes("one"));
  Bytes quoted = read_file(log.path);
  log.journal.append(quoted);
  Bytes whole = read_file(log.path);
  write_test_file(log.path, ByteView(whole).first(whole.size() - 1));
  CHECK(log.all() == std::vector<std::string>{"one"});
}

TEST_CASE("a full disk leaves the journal as it was") {
  Log log;
  log.journal.append(as_bytes("one"));
  Bytes before = read_file(log.path);
  for (int at = 1; at <= 3; ++at) {
    FaultDisk disk(FaultDisk::Fault::kFail, at);
    CHECK(error_of([&] { Journal(log.path, disk).append(as_bytes("two")); }) == ErrorKind::kIo);
    CHECK(read_file(log.path) == before);
  }
}

TEST_CASE("bug: what was appended at once stood in memory four times over") {
  Log log;
  log.journal.append(as_bytes("one"));
  const Bytes before = read_file(log.path);
  constexpr int kCount = 30;
  const auto produce = [](const Journal::Take& take) {
    for (int i = 0; i < kCount; ++i) take(to_bytes(std::string(100'000, static_cast<char>('a' + i % 26))));
  };
  const auto fails = [&](const std::function<void()>& append) {
    CHECK(error_of(append) == ErrorKind::kIo);
    CHECK(read_file(log.path) == before);  // also where earlier batches were synced
  };
  fails([&] {
    log.journal.append_each([&](const Journal::Take& take) {
      produce(take);
      fail(ErrorKind::kIo, "no more");
    });
  });
  for (int at = 1; at <= 6; ++at) {
    FaultDisk disk(FaultDisk::Fault::kFail, at);
    fails([&] { Journal(log.path, disk).append_each(produce); });
  }
  log.journal.append_each(produce);
  const std::vector<std::string> all = log.all();
  REQUIRE(all.size() == 1 + kCount);
  CHECK(all.back() == std::string(100'000, static_cast<char>('a' + (kCount - 1) % 26)));
  CHECK(as_text(read_file(log.path)).find("MLXB", 1'500'000) != std::string_view::npos);  // a batch begins there
}

TEST_CASE("processes that append at once lose nothing") {
  Log log;
  constexpr int kProcesses = 4, kEach = 25;
  std::vector<pid_t> children;
  for (int n = 0; n < kProcesses; ++n) {
    pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      FaultDisk disk(FaultDisk::Fault::kFail, 0);
      for (int i = 0; i < kEach; ++i) Journal(log.path, disk).append(as_bytes(fmt::format("{} {}", n, i)));
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(log.all().size() == kProcesses * kEach);
}
