// The client of the wire protocol against its server, over a socket in this process; and both against peers that lie,
// stop, or send nonsense.
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "lying_lists.h"
#include "remote_suite.h"
#include "store/format/codec.h"
#include "store/maintenance/repair.h"
#include "store/remote/wire_remote.h"
#include "store/remote/wire_server.h"

using namespace mlx;
using namespace mlx::store;
using namespace mlx::store::wire;

namespace {

std::size_t read_socket(int fd, void* data, std::size_t count) {
  const ssize_t got = ::recv(fd, data, count, 0);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

bool write_socket(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

// Runs `serve_socket` on a thread of its own at the other end of a socket; hangs up after `cut_after` written bytes.
class SocketTransport final : public Transport {
 public:
  SocketTransport(const std::function<void(int fd)>& serve_socket, std::uint64_t cut_after) : left_(cut_after) {
    int fds[2];
    REQUIRE_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    ours_ = Fd(fds[0]);
    server_ = std::thread([serve_socket, fd = std::make_shared<Fd>(fds[1])] { serve_socket(fd->get()); });
  }
  ~SocketTransport() override { hang_up(); }
  bool write(ByteView bytes) override {
    const bool whole = write_socket(ours_.get(), bytes.first(std::min<std::uint64_t>(bytes.size(), left_)));
    left_ -= std::min<std::uint64_t>(bytes.size(), left_);
    if (left_ > 0) return whole;
    hang_up();
    return false;
  }
  std::size_t read(void* data, std::size_t count) override { return ours_ ? read_socket(ours_.get(), data, count) : 0; }
  Error ended() override { return {ErrorKind::kIo, "the connection ended"}; }

 private:
  void hang_up() {
    ours_ = Fd();
    if (server_.joinable()) server_.join();
  }
  Fd ours_;
  std::thread server_;
  std::uint64_t left_;
};

constexpr std::uint64_t kNever = ~std::uint64_t{0};

struct OverWire final : RemoteUnderTest {
  TempFolder temp;
  std::unique_ptr<Disk> disk = unsynced_disk();
  Pool pool{2};
  ServeOptions serving;
  bool create = true;
  std::uint64_t cut_after = kNever;
  std::string path = folder();

  std::unique_ptr<Remote> open() override {
    RemoteSide side;
    side.where = "there";
    side.path = path;
    side.create = create;
    side.connect = [this] { return std::make_unique<SocketTransport>([this](int fd) { serve_one(fd); }, cut_after); };
    return open_wire_remote(std::move(side), pool);
  }
  std::string folder() override { return temp.path() + "/remote"; }
  void serve_one(int fd) {
    try {
      serve([fd](void* data, std::size_t count) { return read_socket(fd, data, count); },
            [fd](ByteView bytes) {
              if (!write_socket(fd, bytes)) fail(ErrorKind::kIo, "gone");
            },
            serving, *disk, pool);
    } catch (const Error&) {
      // The client got the error.
    }
  }
};

// A remote whose server is `body`, after a correct hello and verdict.
std::unique_ptr<Remote> with_server(Pool& pool, const std::function<void(FrameReader&, FrameWriter&)>& body,
                                    const std::string& host = "there") {
  RemoteSide side;
  side.where = host;
  side.path = "x";
  side.connect = [body] {
    return std::make_unique<SocketTransport>(
        [body](int fd) {
          FrameReader reader([fd](void* data, std::size_t count) { return read_socket(fd, data, count); });
          FrameWriter writer([fd](ByteView bytes) { (void)write_socket(fd, bytes); });
          writer.put(Type::kHello, encode(Hello{}));
          writer.put(Type::kVerdict, encode_verdict(true));
          writer.flush();
          (void)reader.next();
          (void)reader.next();
          body(reader, writer);
          writer.flush();
        },
        kNever);
  };
  return open_wire_remote(std::move(side), pool);
}

StoredObject sent_chunk(ByteView bytes) {
  return Codec().encode({Digest::of(bytes), ObjectKind::kChunk}, Digest::of(bytes), bytes);
}

}  // namespace

TEST_CASE("remote suite: the wire protocol") {
  run_remote_suite([] { return std::make_unique<OverWire>(); });
}

TEST_CASE("remote suite: the wire protocol with a window of 100 KB") {
  run_remote_suite([] {
    auto remote = std::make_unique<OverWire>();
    remote->serving.window = 100'000;
    return remote;
  });
}

TEST_CASE("what a cut connection brought whole is kept") {
  OverWire wire;
  (void)wire.open();
  std::vector<StoredObject> objects;
  std::vector<ObjectKey> keys;
  for (std::uint64_t i = 0; i < 100; ++i) {
    objects.push_back(sent_chunk(random_bytes(10'000, i)));
    keys.push_back(objects.back().key);
  }
  const ReadStored read = [&](const ObjectKey& key) {
    for (const StoredObject& object : objects) {
      if (object.key == key) return object;
    }
    fail(ErrorKind::kNotFound, "?");
  };
  NoProgress progress;
  for (const std::uint32_t window : {std::uint32_t{64} << 20, std::uint32_t{50'000}}) {
    OverWire cut;
    cut.serving.window = window;
    (void)cut.open();
    cut.cut_after = 600'000;
    CHECK(error_of([&] { cut.open()->send(keys, read, progress); }) == ErrorKind::kIo);
    cut.cut_after = kNever;
    const std::size_t left = cut.open()->missing(keys).size();
    CHECK(left >= 40);
    CHECK(left <= 42);  // 59 of 10 KB fit in what went through
  }
}

TEST_CASE("a connection that failed is made again by the next call") {
  OverWire wire;
  const auto remote = wire.open();
  NoProgress progress;
  const StoredObject good = sent_chunk(as_bytes("good"));
  const auto failing = [](const ObjectKey&) -> StoredObject { fail(ErrorKind::kConflict, "no"); };
  CHECK(error_of([&] { remote->send({good.key}, failing, progress); }) == ErrorKind::kConflict);
  CHECK(remote->missing({good.key}).size() == 1);
  remote->send(
      {good.key}, [&](const ObjectKey&) { return good; }, progress);
  CHECK(remote->missing({good.key}).empty());
}

TEST_CASE("a server that serves one folder refuses paths outside of it") {
  OverWire wire;
  const std::string root = wire.temp.path() + "/root";
  make_folders(root + "/inside");
  REQUIRE_EQ(::symlink("/tmp", (root + "/link").c_str()), 0);
  REQUIRE_EQ(::symlink("inside", (root + "/fine").c_str()), 0);
  REQUIRE_EQ(::symlink("/nowhere/at/all", (root + "/dangling").c_str()), 0);
  ServeOptions options;
  options.root = root;
  const auto served = [&](const std::string& path) { return served_path(path, options); };
  CHECK_EQ(served("new/store"), root + "/new/store");
  CHECK_EQ(served(root + "/new"), root + "/new");
  CHECK_EQ(served("fine/x"), root + "/inside/x");
  for (const char* path : {"..", "../other", "/etc", "/", "link/x", "inside/../../x", "dangling", "dangling/x"}) {
    CAPTURE(path);
    CHECK(error_of([&] { (void)served(path); }) == ErrorKind::kRefused);
  }
  CHECK(error_of([&] { (void)served(root + "-beside"); }) == ErrorKind::kRefused);
  options.path = "/srv/one";
  CHECK_EQ(served("../../etc"), "/srv/one");
  wire.serving = options;
  wire.serving.path.reset();
  wire.path = "/etc/mlx";
  CHECK(error_of([&] { (void)wire.open(); }) == ErrorKind::kRefused);
}

TEST_CASE("a server that only reads changes nothing") {
  OverWire wire;
  NoProgress progress;
  const StoredObject object = sent_chunk(as_bytes("object")), other = sent_chunk(as_bytes("other"));
  wire.open()->send(
      {object.key}, [&](const ObjectKey&) { return object; }, progress);
  wire.serving.read_only = true;
  CHECK(error_of([&] { (void)wire.open(); }) == ErrorKind::kRefused);
  wire.create = false;
  const auto remote = wire.open();
  CHECK(error_of([&] { remote->publish_heads({}, {Digest::of("x")}); }) == ErrorKind::kRefused);
  CHECK(error_of([&] { remote->write_file("keys", std::nullopt, {}); }) == ErrorKind::kRefused);
  CHECK(error_of([&] {
          remote->send(
              {other.key}, [&](const ObjectKey&) { return other; }, progress);
        }) == ErrorKind::kRefused);
  CHECK(remote->missing({object.key, other.key}) == std::vector<ObjectKey>{other.key});
  CHECK(remote->heads().empty());
}

TEST_CASE("a store that is not there is not found") {
  OverWire wire;
  wire.create = false;
  CHECK(error_of([&] { (void)wire.open(); }) == ErrorKind::kNotFound);
}

TEST_CASE("answers that do not belong to the question are refused") {
  Pool pool{1};
  NoProgress progress;
  const StoredObject asked = sent_chunk(as_bytes("asked")), other = sent_chunk(as_bytes("other"));
  const auto receive = [&](const std::function<void(FrameReader&, FrameWriter&)>& body) {
    int taken = 0;
    const auto kind = error_of([&] {
      with_server(pool, body)
          ->receive(
              {asked.key}, [&](StoredObject&& got) { taken += got.key == asked.key; }, progress);
    });
    CHECK_EQ(taken, 0);
    return kind;
  };
  using In = FrameReader;
  using Out = FrameWriter;
  CHECK(receive([&](In& in, Out& out) {
          (void)in.next();
          out.put_frame(object_frame(other));
          out.put(Type::kEnd, encode_count(1));
        }) == ErrorKind::kCorrupt);
  CHECK(receive([&](In& in, Out& out) {
          (void)in.next();
          out.put(Type::kEnd, encode_count(0));
        }) == ErrorKind::kCorrupt);
  CHECK(receive([&](In& in, Out& out) {
          (void)in.next();
          StoredObject damaged = asked;
          damaged.stored[0] ^= 1;
          out.put_frame(object_frame(damaged));
          out.put(Type::kEnd, encode_count(1));
        }) == ErrorKind::kCorrupt);
  CHECK(receive([&](In& in, Out& out) {
          (void)in.next();
          out.put(Type::kVerdict, encode_verdict(true));
        }) == ErrorKind::kCorrupt);
  CHECK(receive([&](In& in, Out&) { (void)in.next(); }) == ErrorKind::kIo);
  const auto heads = [&](const std::function<void(In&, Out&)>& body) {
    return error_of([&] { (void)with_server(pool, body)->heads(); });
  };
  CHECK(heads([](In& in, Out& out) {
          (void)in.next();
          out.put(Type::kEnd, encode_count(5));
        }) == ErrorKind::kCorrupt);
  CHECK(heads([](In& in, Out& out) {
          (void)in.next();
          out.put_frame(Bytes(100, 0xee));
        }) == ErrorKind::kCorrupt);
  CHECK(error_of([&] {
          (void)with_server(pool, [](In& in, Out& out) {
            (void)in.next();
            out.put(Type::kBitmap, encode_bitmap({true, true}));
          })->missing({asked.key});
        }) == ErrorKind::kCorrupt);
  CHECK(error_of([&] {
          with_server(pool,
                      [](In& in, Out& out) {
                        while (in.next()->type != Type::kEnd) {
                        }
                        out.put(Type::kEnd, encode_count(0));  // none of them is durable
                      })
              ->send(
                  {asked.key}, [&](const ObjectKey&) { return asked; }, progress);
        }) == ErrorKind::kCorrupt);
}

TEST_CASE("bug: a damaged answer was not said to be the host's if the message had the host's name in it") {
  Pool pool{1};
  const auto body = [](FrameReader& in, FrameWriter& out) {
    (void)in.next();
    out.put(Type::kIds, Bytes(4, 0x7f));  // a list of more ids than there may be
  };
  try {
    (void)with_server(pool, body, "ids")->heads();
    FAIL("was taken");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kCorrupt);
    CHECK(error.message.starts_with("ids: list of ids: "));
  }
}

TEST_CASE("bug: a server that lists ids without end is left") {
  Pool pool{1};
  const auto endless = [](FrameReader& in, FrameWriter& out) {
    (void)in.next();
    const std::vector<Digest> ids(kMaxListed, Digest::of("again"));
    const Bytes frame_of_ids = frame(Type::kIds, encode_ids(ids.data(), ids.size()));
    for (int i = 0; i < 100; ++i) out.put_frame(frame_of_ids);
    out.put(Type::kEnd, encode_count(100));
  };
  CHECK(error_of([&] { (void)with_server(pool, endless)->heads(); }) == ErrorKind::kCorrupt);
  CHECK(error_of([&] { (void)with_server(pool, endless)->operations(); }) == ErrorKind::kCorrupt);
  const auto empty = [](FrameReader& in, FrameWriter& out) {
    (void)in.next();
    for (int i = 0; i < 10; ++i) out.put(Type::kIds, encode_ids(nullptr, 0));
    out.put(Type::kEnd, encode_count(10));
  };
  CHECK(error_of([&] { (void)with_server(pool, empty)->operations(); }) == ErrorKind::kCorrupt);
}

TEST_CASE("bug: a server that acknowledges without end is left") {
  Pool pool{1};
  NoProgress progress;
  const StoredObject object = sent_chunk(as_bytes("object"));
  const auto remote = with_server(pool, [](FrameReader& in, FrameWriter& out) {
    while (in.next()->type != Type::kEnd) {
    }
    for (int i = 0; i < 10; ++i) out.put(Type::kStored, encode_count(1));
    out.put(Type::kEnd, encode_count(1));
  });
  CHECK(error_of([&] {
          remote->send(
              {object.key}, [&](const ObjectKey&) { return object; }, progress);
        }) == ErrorKind::kCorrupt);
}

TEST_CASE("bug: a server finds a chunk list that makes another file, sets it aside and takes the right one") {
  OverWire wire;
  const auto remote = wire.open();
  const Lie file(1);
  send(*remote, file.honest);
  plant(wire.folder(), *wire.disk, file.lying());
  CHECK(remote->missing({file.list.key}).empty());
  RepairReport report;
  NoProgress progress;
  CHECK(remote->repair(report, progress));
  CHECK_EQ(report.set_aside.size(), 1u);
  CHECK_EQ(report.saved_objects, file.forged.size());
  CHECK(remote->missing({file.list.key}).size() == 1);
  send(*remote, {file.list});
  CHECK(remote->missing({file.list.key}).empty());
  wire.create = false;
  wire.serving.read_only = true;
  const auto reader = wire.open();
  CHECK(error_of([&] { reader->repair(report, progress); }) == ErrorKind::kRefused);
}

TEST_CASE("bug: a server asks before it publishes heads") {
  OverWire wire;
  int asked = 0;
  wire.serving.check_heads = [&](const Store&, const std::vector<Digest>& before, const std::vector<Digest>& heads) {
    ++asked;
    CHECK(before.empty());
    if (heads[0] == Digest::of("bad")) fail(ErrorKind::kRefused, "not these");
  };
  const auto remote = wire.open();
  CHECK(error_of([&] { remote->publish_heads({}, {Digest::of("bad")}); }) == ErrorKind::kRefused);
  CHECK(remote->heads().empty());
  CHECK(remote->publish_heads({}, {Digest::of("good")}));
  CHECK_EQ(asked, 2);
}

TEST_CASE("clients that talk nonsense are told, and leave nothing behind") {
  OverWire wire;
  (void)wire.open();
  const StoredObject object = sent_chunk(as_bytes("object"));
  const auto answer_to = [&](const std::vector<Bytes>& frames) {
    SocketTransport transport([&](int fd) { wire.serve_one(fd); }, kNever);
    Bytes all;
    for (const Bytes& bytes : frames) all.insert(all.end(), bytes.begin(), bytes.end());
    (void)transport.write(all);
    FrameReader reader([&](void* data, std::size_t count) { return transport.read(data, count); });
    std::optional<Frame> last;
    while (std::optional<Frame> next = reader.next()) {
      last = std::move(next);
      if (last->type == Type::kError) break;
    }
    return last && last->type == Type::kError ? std::optional(decode_error(last->payload).kind) : std::nullopt;
  };
  const Bytes hello = frame(Type::kHello, encode(Hello{})), open = frame(Type::kOpen, encode(Open{false, wire.path}));
  const Bytes put = frame(Type::kPut, encode_count(1)), end = frame(Type::kEnd, encode_count(1));
  CHECK(answer_to({to_bytes("GET / HTTP/1.1\r\nHost: x\r\n\r\n")}) == ErrorKind::kCorrupt);
  CHECK(answer_to({open}) == ErrorKind::kCorrupt);
  CHECK(answer_to({hello, frame(Type::kHeads)}) == ErrorKind::kCorrupt);
  CHECK(answer_to({hello, open, frame(Type::kEnd, encode_count(0))}) == ErrorKind::kCorrupt);
  CHECK(answer_to({hello, open, put, frame(Type::kHeads)}) == ErrorKind::kCorrupt);
  CHECK(answer_to({hello, open, put, end}) == ErrorKind::kCorrupt);
  CHECK(answer_to({hello, open, put, object_frame(object), object_frame(object)}) == ErrorKind::kCorrupt);
  CHECK(answer_to({hello, open, open}) == ErrorKind::kCorrupt);
  Hello later;
  later.lowest = later.highest = 9;
  CHECK(answer_to({frame(Type::kHello, encode(later))}) == ErrorKind::kMissing);
  wire.create = false;
  CHECK(wire.open()->missing({object.key}).size() == 1);
}
