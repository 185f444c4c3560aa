// The client: every call is one request and its answer, or a few if the keys do not fit into one frame. The number of
// round trips does not depend on the number of objects. The pool reads or takes objects while the connection transfers
// others.
#include "store/remote/wire_remote.h"

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <unordered_set>

#include "base/text.h"
#include "store/limits.h"
#include "store/maintenance/repair.h"

namespace mlx::store::wire {

namespace {

constexpr std::size_t kSendSlice = 64;  // objects that are read together: at most 8 MiB of usual chunks
constexpr std::size_t kTakeSlice = 512;
constexpr std::size_t kTakeBytes = std::size_t{8} << 20;
constexpr std::size_t kShownGarbage = 60;

// An error that the server reports, in step with the requests; its message names the server.
struct ReportedError : Error {
  using Error::Error;
};

// Its own errors do not name the server; WireRemote adds the name.
class Connection {
 public:
  explicit Connection(const RemoteSide& side)
      : side_(side),
        transport_(side.connect()),
        reader_([this](void* data, std::size_t count) { return transport_->read(data, count); }),
        writer_([this](ByteView bytes) {
          if (!transport_->write(bytes)) gone();
        }) {
    writer_.put(Type::kHello, encode(Hello{}));
    writer_.put(Type::kOpen, encode(Open{side.create, side.path}));
    writer_.flush();
    check_greeting(reader_.peek_start());
    (void)common_version(decode_hello(expect(Type::kHello).payload), side.where);
    if (!decode_verdict(expect(Type::kVerdict).payload))
      fail(ErrorKind::kCorrupt, "says neither that it opened the store nor why it did not");
  }

  void put(Type type, ByteView payload = {}) { writer_.put(type, payload); }
  void put_frame(ByteView whole) { writer_.put_frame(whole); }
  void flush() { writer_.flush(); }

  // The next frame; an error that the server reports is thrown as ReportedError.
  Frame next() {
    std::optional<Frame> frame;
    try {
      frame = reader_.next();
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kIo) throw transport_->ended();
      throw Error(error.kind, fmt::format("sent a {}", error.message), error.hint);
    }
    if (!frame) throw transport_->ended();
    if (frame->type == Type::kError) {
      const Error error = decode_error(frame->payload);
      throw ReportedError(error.kind, fmt::format("{}: {}", side_.where, error.message), error.hint);
    }
    return *std::move(frame);
  }
  Frame expect(Type type) {
    Frame frame = next();
    if (frame.type != type) unexpected(frame);
    return frame;
  }
  [[noreturn]] void unexpected(const Frame& frame) const {
    fail(ErrorKind::kCorrupt, "answered with a frame of type {} that does not belong there",
         static_cast<int>(frame.type));
  }

 private:
  // The server has closed its side; it may have said why before.
  [[noreturn]] void gone() {
    for (;;) (void)next();
  }

  void check_greeting(ByteView start) const {
    if (start.empty()) throw transport_->ended();
    if (begins_hello(start)) return;
    throw Error(ErrorKind::kIo,
                fmt::format("{} answers something else than mlx: '{}'", side_.where,
                            printable(as_text(start.first(std::min(start.size(), kShownGarbage))))),
                "the shell there must print nothing when it is not interactive");
  }

  const RemoteSide& side_;
  std::unique_ptr<Transport> transport_;
  FrameReader reader_;
  FrameWriter writer_;
};

// Received objects wait here until there are enough for the whole pool, which takes them while the next come in.
class Taker {
 public:
  Taker(Pool& pool, const TakeStored& take, Progress& progress) : pool_(pool), take_(take), progress_(progress) {}
  void add(StoredObject&& object) {
    bytes_ += object.stored.size();
    waiting_.push_back(std::move(object));
    if (waiting_.size() >= kTakeSlice || bytes_ >= kTakeBytes) hand_over();
  }
  void finish() {
    hand_over();
    taking_.wait();
  }

 private:
  void hand_over() {
    taking_.wait();
    bytes_ = 0;
    taking_.post([this, slice = std::make_shared<std::vector<StoredObject>>(std::exchange(waiting_, {}))] {
      pool_.run(static_cast<std::int64_t>(slice->size()), [&](std::int64_t i) {
        StoredObject& object = (*slice)[static_cast<std::size_t>(i)];
        const std::size_t size = object.stored.size();
        take_(std::move(object));
        progress_.advance(size);
      });
    });
  }
  Pool& pool_;
  const TakeStored& take_;
  Progress& progress_;
  std::vector<StoredObject> waiting_;
  std::size_t bytes_ = 0;
  Background taking_;
};

class WireRemote final : public Remote {
 public:
  WireRemote(RemoteSide side, Pool& pool) : side_(std::move(side)), pool_(pool), connection_(connect()) {}

  std::vector<Digest> heads() override {
    return talk([this](Connection& there) { return ids(there, Type::kHeads, kMaxHeads); });
  }

  std::vector<Digest> operations() override {
    return talk([this](Connection& there) { return ids(there, Type::kOperations, kMaxOperations); });
  }

  std::vector<ObjectKey> missing(const std::vector<ObjectKey>& keys) override {
    if (keys.empty()) return {};
    return talk(
        [&](Connection& there) {
          for_slices(keys.size(), [&](std::size_t at, std::size_t count) {
            there.put(Type::kMissing, encode_keys(keys.data() + at, count));
          });
          there.flush();
          std::vector<ObjectKey> lacking;
          std::unordered_set<ObjectKey, ObjectKeyHash> seen;
          for_slices(keys.size(), [&](std::size_t at, std::size_t count) {
            const std::vector<bool> bits = decode_bitmap(there.expect(Type::kBitmap).payload);
            if (bits.size() != count) fail(ErrorKind::kCorrupt, "answered about other objects");
            for (std::size_t i = 0; i < count; ++i) {
              if (bits[i] && seen.insert(keys[at + i]).second) lacking.push_back(keys[at + i]);
            }
          });
          return lacking;
        },
        keys.size() > kMaxListed ? After::kEnds : After::kGoesOn);
  }

  void send(const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) override {
    if (keys.empty()) return;
    talk(
        [&](Connection& there) {
          there.put(Type::kPut, encode_count(keys.size()));
          put_objects(there, keys, read, progress);
          there.put(Type::kEnd, encode_count(keys.size()));
          there.flush();
          Frame frame = there.next();
          for (std::uint64_t stored = 0; frame.type == Type::kStored; frame = there.next()) {
            const std::uint64_t now = decode_count(frame.payload);
            if (now <= stored || now > keys.size()) fail(ErrorKind::kCorrupt, "counts other objects than were sent");
            stored = now;
          }
          if (frame.type != Type::kEnd) there.unexpected(frame);
          if (decode_count(frame.payload) != keys.size())
            fail(ErrorKind::kCorrupt, "counts other objects than were sent");
          return true;
        },
        After::kEnds);
  }

  void receive(const std::vector<ObjectKey>& keys, const TakeStored& take, Progress& progress) override {
    if (keys.empty()) return;
    talk([&](Connection& there) {
      for_slices(keys.size(), [&](std::size_t at, std::size_t count) {
        std::unordered_set<ObjectKey, ObjectKeyHash> expected(keys.begin() + static_cast<std::ptrdiff_t>(at),
                                                              keys.begin() + static_cast<std::ptrdiff_t>(at + count));
        const std::vector<ObjectKey> once(expected.begin(), expected.end());
        there.put(Type::kGet, encode_keys(once.data(), once.size()));
        there.flush();
        Taker taker(pool_, take, progress);
        Frame frame = there.next();
        for (; frame.type == Type::kObject; frame = there.next()) {
          StoredObject object = decode_object(frame.payload);
          if (expected.erase(object.key) == 0) fail(ErrorKind::kCorrupt, "sent an object that was not asked for");
          taker.add(std::move(object));
        }
        if (frame.type != Type::kEnd) there.unexpected(frame);
        if (!expected.empty()) fail(ErrorKind::kCorrupt, "did not send all that was asked for");
        taker.finish();
      });
      return true;
    });
  }

  bool publish_heads(const std::vector<Digest>& expected, const std::vector<Digest>& heads) override {
    if (expected.size() > kMaxHeads || heads.size() > kMaxHeads)
      fail(ErrorKind::kConflict, "a remote cannot have more than {} heads", kMaxHeads);
    return talk([&](Connection& there) {
      there.put(Type::kPublish, encode(Publish{expected, heads}));
      there.flush();
      return decode_verdict(there.expect(Type::kVerdict).payload);
    });
  }

  std::optional<Bytes> read_file(const std::string& name) override {
    check_file_name(name);
    return talk([&](Connection& there) {
      there.put(Type::kRead, encode_read(name));
      there.flush();
      return decode_file(there.expect(Type::kFile).payload);
    });
  }

  bool write_file(const std::string& name, const std::optional<Bytes>& expected, ByteView bytes) override {
    check_file_name(name);
    if (bytes.size() > kMaxFile || (expected && expected->size() > kMaxFile))
      fail(ErrorKind::kUsage, "'{}' is larger than the {} that a file of a remote may have", name,
           format_bytes(kMaxFile));
    return talk([&](Connection& there) {
      there.put(Type::kWrite, encode(Write{name, expected, Bytes(bytes.begin(), bytes.end())}));
      there.flush();
      return decode_verdict(there.expect(Type::kVerdict).payload);
    });
  }

  bool repair(RepairReport& report, Progress&) override {
    return talk([&](Connection& there) {
      there.put(Type::kRepair);
      there.flush();
      Repaired repaired = decode_repaired(there.expect(Type::kRepaired).payload);
      report.saved_objects = repaired.saved;
      for (std::string& path : repaired.paths)
        (path.find(".pack.") == std::string::npos ? mended_ : report.set_aside).push_back(std::move(path));
      return true;
    });
  }

  std::vector<std::string> mended() override { return mended_; }

 private:
  // After a failed request the two sides are still in step; after several at once, or a put, they are not.
  enum class After { kGoesOn, kEnds };

  // Runs one exchange. If it fails out of step with the server, the connection is given up.
  template <typename Body>
  std::invoke_result_t<Body, Connection&> talk(const Body& body, After error = After::kGoesOn) {
    const std::lock_guard lock(mutex_);
    try {
      if (!connection_) connection_ = connect();
      return body(*connection_);
    } catch (const ReportedError&) {
      if (error == After::kEnds) connection_.reset();
      throw;
    } catch (Error& wrong) {
      if (wrong.kind == ErrorKind::kCorrupt && connection_) name_side(wrong);
      connection_.reset();
      throw;
    } catch (...) {
      connection_.reset();
      throw;
    }
  }

  void name_side(Error& error) const { error.message = fmt::format("{}: {}", side_.where, error.message); }

  std::unique_ptr<Connection> connect() const {
    try {
      return std::make_unique<Connection>(side_);
    } catch (const ReportedError&) {
      throw;
    } catch (Error& error) {
      if (error.kind == ErrorKind::kCorrupt) name_side(error);
      throw;
    }
  }

  template <typename Body>
  static void for_slices(std::size_t count, const Body& body) {
    for (std::size_t at = 0; at < count; at += kMaxListed) body(at, std::min(kMaxListed, count - at));
  }

  std::vector<Digest> ids(Connection& there, Type request, std::size_t most) const {
    there.put(request);
    there.flush();
    std::vector<Digest> all;
    std::uint64_t frames = 0;
    Frame frame = there.next();
    for (; frame.type == Type::kIds; frame = there.next(), ++frames) {
      const std::vector<Digest> some = decode_ids(frame.payload);
      if (some.empty() || some.size() > most - all.size())
        fail(ErrorKind::kCorrupt, "lists more ids than the {} that there may be", most);
      all.insert(all.end(), some.begin(), some.end());
    }
    if (frame.type != Type::kEnd) there.unexpected(frame);
    if (decode_count(frame.payload) != frames) fail(ErrorKind::kCorrupt, "sent a list of ids that is cut short");
    return all;
  }

  // The pool reads one slice while the one before is written.
  void put_objects(Connection& there, const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress) {
    struct Loaded {
      Bytes frame;
      std::size_t stored = 0;
    };
    std::vector<Loaded> loaded;
    const auto load = [&](std::size_t at) {
      loaded.assign(std::min(kSendSlice, keys.size() - at), {});
      pool_.run(static_cast<std::int64_t>(loaded.size()), [&](std::int64_t i) {
        progress.check_interrupted();
        const auto n = static_cast<std::size_t>(i);
        const StoredObject object = read(keys[at + n]);
        loaded[n] = {object_frame(object), object.stored.size()};
      });
    };
    Background loading;
    loading.post([&] { load(0); });
    for (std::size_t at = 0; at < keys.size(); at += kSendSlice) {
      loading.wait();
      const std::vector<Loaded> going = std::exchange(loaded, {});
      if (at + kSendSlice < keys.size()) loading.post([&, at] { load(at + kSendSlice); });
      for (const Loaded& object : going) {
        there.put_frame(object.frame);
        progress.advance(object.stored);
      }
    }
  }

  const RemoteSide side_;
  Pool& pool_;
  std::mutex mutex_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::string> mended_;  // names
};

}  // namespace

std::unique_ptr<Remote> open_wire_remote(RemoteSide side, Pool& pool) {
  return std::make_unique<WireRemote>(std::move(side), pool);
}

}  // namespace mlx::store::wire
