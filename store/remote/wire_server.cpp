// One thread reads requests. During a put it fills one window while another thread writes the window before.
#include "store/remote/wire_server.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "base/path.h"
#include "base/text.h"
#include "store/maintenance/repair.h"

namespace mlx::store::wire {

namespace {

constexpr std::size_t kObjectCost = 256;  // memory of an object beside its bytes

// Objects of a put that wait to be published together.
struct Window {
  std::vector<ObjectKey> keys;  // as they came
  std::unordered_map<ObjectKey, StoredObject, ObjectKeyHash> objects;
  std::size_t bytes = 0;
  std::uint64_t frames = 0;

  void add(StoredObject&& object) {
    ++frames;
    bytes += object.stored.size() + object.extra.size() + kObjectCost;
    const ObjectKey key = object.key;
    if (objects.emplace(key, std::move(object)).second) keys.push_back(key);
  }
};

// The path without symbolic links; its last parts need not exist yet. kRefused if a link leads nowhere.
std::string real_path(const std::string& path) {
  if (const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free); real)
    return real.get();
  if (path_exists(path)) fail(ErrorKind::kRefused, "{}: a link that leads nowhere", printable(path));
  return join_path(real_path(parent_path(path)), base_name(path));
}

class Server {
 public:
  Server(const ReadSome& read, const WriteAll& write, const ServeOptions& options, Disk& disk, Pool& pool)
      : options_(options), disk_(disk), pool_(pool), reader_(read), writer_(write) {}

  void run() {
    Hello ours;
    ours.read_only = options_.read_only;
    ours.window = options_.window;
    ours.program = options_.program;
    writer_.put(Type::kHello, encode(ours));
    writer_.flush();
    try {
      if (!greet()) return;
      while (const std::optional<Frame> request = reader_.next()) {
        options_.interruption->check();
        answer(*request);
        writer_.flush();
      }
    } catch (const Error& error) {
      report(error);
      throw;
    }
  }

 private:
  // Hello and open; false if the client leaves before.
  bool greet() {
    const std::optional<Frame> hello = reader_.next();
    if (!hello) return false;
    if (hello->type != Type::kHello) fail(ErrorKind::kCorrupt, "the client does not begin with a hello");
    (void)common_version(decode_hello(hello->payload), "the client");
    const std::optional<Frame> request = reader_.next();
    if (!request) return false;
    if (request->type != Type::kOpen) fail(ErrorKind::kCorrupt, "the client does not open a store first");
    const Open open = decode_open(request->payload);
    if (open.create) refuse_writing();
    RemoteOptions how;
    how.create = open.create;
    how.check_heads = options_.check_heads;
    how.interruption = options_.interruption;
    store_ = open_remote("file://" + served_path(open.path, options_), how, disk_, pool_);
    writer_.put(Type::kVerdict, encode_verdict(true));
    writer_.flush();
    return true;
  }

  // Errors of most requests are answered; errors of a put end the connection.
  void answer(const Frame& request) {
    if (request.type == Type::kPut) {
      refuse_writing();
      take(decode_count(request.payload));
      return;
    }
    try {
      answer_simple(request);
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kInterrupted || gone_) throw;
      writer_.put(Type::kError, encode(error));
    }
  }

  void answer_simple(const Frame& request) {
    const ByteView payload = request.payload;
    switch (request.type) {
      case Type::kHeads:
        put_ids(store_->heads());
        break;
      case Type::kOperations:
        put_ids(store_->operations());
        break;
      case Type::kMissing:
        put_missing(decode_keys(payload));
        break;
      case Type::kGet:
        give(decode_keys(payload));
        break;
      case Type::kPublish: {
        const Publish publish = decode_publish(payload);
        refuse_writing();
        writer_.put(Type::kVerdict, encode_verdict(store_->publish_heads(publish.expected, publish.heads)));
        break;
      }
      case Type::kRead:
        writer_.put(Type::kFile, encode_file(store_->read_file(decode_read(payload))));
        break;
      case Type::kWrite: {
        const Write write = decode_write(payload);
        refuse_writing();
        writer_.put(Type::kVerdict, encode_verdict(store_->write_file(write.name, write.expected, write.bytes)));
        break;
      }
      case Type::kRepair: {
        refuse_writing();
        RepairReport report;
        NoProgress quiet(*options_.interruption);
        store_->repair(report, quiet);
        Repaired repaired{report.saved_objects, store_->mended()};
        repaired.paths.insert(repaired.paths.end(), report.set_aside.begin(), report.set_aside.end());
        writer_.put(Type::kRepaired, encode(repaired));
        break;
      }
      default:
        fail(ErrorKind::kCorrupt, "a frame of type {} is no request", static_cast<int>(request.type));
    }
  }

  void put_ids(const std::vector<Digest>& ids) {
    std::uint64_t frames = 0;
    for (std::size_t at = 0; at < ids.size(); at += kMaxListed, ++frames)
      writer_.put(Type::kIds, encode_ids(ids.data() + at, std::min(kMaxListed, ids.size() - at)));
    writer_.put(Type::kEnd, encode_count(frames));
  }

  void put_missing(const std::vector<ObjectKey>& keys) {
    std::vector<ObjectKey> lacking = store_->missing(keys);
    std::sort(lacking.begin(), lacking.end());
    std::vector<bool> bits(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) bits[i] = std::binary_search(lacking.begin(), lacking.end(), keys[i]);
    writer_.put(Type::kBitmap, encode_bitmap(bits));
  }

  void give(const std::vector<ObjectKey>& keys) {
    NoProgress progress(*options_.interruption);
    std::atomic<std::uint64_t> count{0};
    store_->receive(
        keys,
        [&](StoredObject&& object) {
          const Bytes whole = object_frame(object);
          try {
            writer_.put_frame(whole);
          } catch (...) {
            gone_ = true;
            throw;
          }
          ++count;
        },
        progress);
    writer_.put(Type::kEnd, encode_count(count));
  }

  void take(std::uint64_t announced) {
    std::uint64_t received = 0, durable = 0;
    auto window = std::make_shared<Window>();
    Background writing;
    const auto publish = [&] {
      writing.wait();  // at most two windows are in memory
      if (window->keys.empty()) return;
      writing.post([this, &durable, full = std::exchange(window, std::make_shared<Window>())] {
        NoProgress progress(*options_.interruption);
        store_->send(
            full->keys, [&](const ObjectKey& key) { return full->objects.at(key); }, progress);
        durable += full->frames;
        acknowledge(durable);
      });
    };
    try {
      for (;;) {
        options_.interruption->check();
        std::optional<Frame> frame = reader_.next();
        if (!frame) fail(ErrorKind::kIo, "the connection ended in the middle of a put");
        if (frame->type == Type::kEnd) {
          if (decode_count(frame->payload) != received)
            fail(ErrorKind::kCorrupt, "a put with a wrong number of objects");
          break;
        }
        if (frame->type != Type::kObject || received == announced)
          fail(ErrorKind::kCorrupt, "a frame of type {} in a put", static_cast<int>(frame->type));
        window->add(decode_object(frame->payload));
        ++received;
        if (window->bytes >= options_.window) publish();
      }
    } catch (const Error& error) {
      // The next push need not send what came in whole.
      if (error.kind == ErrorKind::kIo) publish();
      writing.wait();
      throw;
    }
    if (received != announced) fail(ErrorKind::kCorrupt, "a put of fewer objects than announced");
    publish();
    writing.wait();
    writer_.put(Type::kEnd, encode_count(received));
  }

  // A client that has gone gets no answer; what it sent before is still kept.
  void acknowledge(std::uint64_t durable) {
    if (gone_) return;
    try {
      writer_.put(Type::kStored, encode_count(durable));
      writer_.flush();
    } catch (const Error&) {
      gone_ = true;
    }
  }

  void refuse_writing() const {
    if (!options_.read_only) return;
    throw Error(ErrorKind::kRefused, "the store is served read-only", "ask whoever runs `mlx serve-store` there");
  }

  // Tells the client, which may have gone.
  void report(const Error& error) {
    try {
      writer_.put(Type::kError, encode(error));
      writer_.flush();
    } catch (const Error&) {
    }
  }

  const ServeOptions& options_;
  Disk& disk_;
  Pool& pool_;
  FrameReader reader_;
  FrameWriter writer_;
  std::unique_ptr<Remote> store_;
  std::atomic<bool> gone_{false};  // the client no longer reads
};

}  // namespace

std::string served_path(const std::string& asked, const ServeOptions& options) {
  if (options.path) return absolute_path(*options.path);
  if (asked.empty()) throw Error(ErrorKind::kUsage, "no path of a store was named", "write ssh://HOST/PATH");
  if (!options.root) return absolute_path(asked);
  const std::string root = real_path(absolute_path(*options.root));
  const std::string path = real_path(absolute_path(asked.starts_with('/') ? asked : join_path(root, asked)));
  if (relative_inside(path, root)) return path;
  throw Error(ErrorKind::kRefused, fmt::format("{}: outside of the folder that is served", printable(asked)),
              "a path that begins without '/' starts from that folder");
}

void serve(const ReadSome& read, const WriteAll& write, const ServeOptions& options, Disk& disk, Pool& pool) {
  Server(read, write, options, disk, pool).run();
}

}  // namespace mlx::store::wire
