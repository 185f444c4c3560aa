// A channel for each direction of a pair and each tag: messages of a channel begin in order, because their frames are
// numbered.
#include "dist/sealed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/error.h"
#include "dist/mpi/module.h"

namespace mlx::dist {
namespace {

constexpr std::size_t kHeader = 32;
// Plain bytes; the last frame of a message has less. With what is around them they are one piece for MPI.
constexpr std::size_t kFrame = (std::size_t{256} << 10) - kHeader - kTagSize;
static_assert(kHeader + kFrame + kTagSize <= kMostBytes);
constexpr std::size_t kFewest = 2, kMost = 16;  // frames under way in a channel
constexpr std::size_t kBuffers = 32;            // in all of them; beyond it a channel has the fewest

// The header of a frame. It travels in clear, and is authenticated with the frame.
struct Header {
  std::uint64_t launch = 0;  // the first bytes of its id
  std::uint32_t from = 0, to = 0, tag = 0, size = 0;
  std::uint64_t number = 0;  // among the frames of this direction and tag
  bool operator==(const Header&) const = default;

  std::array<std::uint8_t, kHeader> bytes() const {
    ByteWriter out(kHeader);
    out.u64(launch), out.u32(from), out.u32(to), out.u32(tag), out.u32(size), out.u64(number);
    std::array<std::uint8_t, kHeader> all{};
    std::ranges::copy(out.bytes(), all.begin());
    return all;
  }
  std::array<std::uint8_t, kNonceSize> nonce() const {
    ByteWriter out(kNonceSize);
    out.u32(tag), out.u64(number);
    std::array<std::uint8_t, kNonceSize> all{};
    std::ranges::copy(out.bytes(), all.begin());
    return all;
  }
};

Header parse_header(ByteView bytes) {
  ByteReader in(bytes);
  Header out;
  out.launch = in.u64(), out.from = in.u32(), out.to = in.u32(), out.tag = in.u32(), out.size = in.u32();
  out.number = in.u64();
  return out;
}

// What arrived in place of the expected frame, by its own words.
std::string claim_of(const Header& has, const Header& expected) {
  if (has.launch != expected.launch) return "one that calls itself of another launch";
  if (has.from != expected.from || has.to != expected.to)
    return fmt::format("one that calls itself sent by rank {} to rank {}", has.from, has.to);
  if (has.tag != expected.tag) return fmt::format("one that calls itself of tag {}", has.tag);
  if (has.number != expected.number)
    return fmt::format("one that calls itself frame {}, repeated or out of order", has.number);
  return "one that was changed on the way";
}

struct Message {
  std::int64_t id = 0;
  const std::uint8_t* from = nullptr;  // if it is sent
  std::uint8_t* to = nullptr;          // if it is received
  std::size_t bytes = 0;
  std::size_t begun = 0, done = 0;  // frames
  std::size_t frames() const { return std::max<std::size_t>(1, (bytes + kFrame - 1) / kFrame); }
  std::size_t size_of(std::size_t frame) const { return std::min(kFrame, bytes - frame * kFrame); }
};

using Buffer = std::unique_ptr<std::uint8_t[]>;  // room for a whole frame; memory that is not touched costs nothing

struct Frame {
  Header header;
  Buffer buffer;
  Communicator::Transfer carried;
};

struct Channel {
  bool sends = false;
  AesGcm* cipher = nullptr;
  Header next;                   // of the frame that begins next, but for its size
  std::deque<Message> messages;  // that are not done, in order
  std::deque<Frame> frames;      // under way, in order
  int other() const { return static_cast<int>(sends ? next.to : next.from); }
};

class SealedRanks final : public Communicator {
 public:
  SealedRanks(std::unique_ptr<Communicator> carrier, const LaunchKey& key)
      : key_(key), launch_(ByteReader(key.id).u64()), carrier_(std::move(carrier)) {}
  int rank() const override { return carrier_->rank(); }
  int ranks() const override { return carrier_->ranks(); }
  std::string name() const override { return carrier_->name(); }
  bool encrypted() const override { return true; }

  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    return begin(channel_of(to, tag, true), {.from = static_cast<const std::uint8_t*>(data), .bytes = bytes});
  }
  Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
    return begin(channel_of(from, tag, false), {.to = static_cast<std::uint8_t*>(data), .bytes = bytes});
  }
  void wait(std::span<Transfer> transfers) override {
    while (!advance(transfers)) continue;
  }
  bool advance(std::span<Transfer> transfers) override {
    move_frames([&] { carrier_->advance(first_); });
    const Transfer* open = nullptr;
    for (Transfer& transfer : transfers) {
      if (!open_.contains(transfer.id)) transfer.id = 0;
      if (transfer.id != 0 && !open) open = &transfer;
    }
    activity().waits_for = open ? open_.at(open->id) : -1;
    return !open;
  }
  bool poll(std::span<Transfer> transfers) override {
    move_frames([&] { carrier_->poll(first_); });
    for (Transfer& transfer : transfers)
      if (!open_.contains(transfer.id)) transfer.id = 0;
    return std::ranges::all_of(transfers, [](const Transfer& transfer) { return transfer.id == 0; });
  }
  Activity& activity() const override { return carrier_->activity(); }

 private:
  Channel& channel_of(int other, int tag, bool sends) {
    const auto [found, fresh] = channels_.try_emplace({other, tag, sends});
    Channel& channel = found->second;
    if (!fresh) return channel;
    const auto own = static_cast<std::uint32_t>(rank()), peer = static_cast<std::uint32_t>(other);
    channel.sends = sends;
    channel.next = {launch_, sends ? own : peer, sends ? peer : own, static_cast<std::uint32_t>(tag)};
    channel.cipher = &cipher_of(channel.next.from, channel.next.to);
    return channel;
  }

  AesGcm& cipher_of(std::uint32_t from, std::uint32_t to) {
    const auto found = ciphers_.find({from, to});
    if (found != ciphers_.end()) return found->second;
    const std::string purpose = fmt::format("mlx frames 1 from rank {} to rank {}", from, to);
    const Secret key = hkdf_sha256(key_.secret, key_.id, purpose, 32);
    return ciphers_.try_emplace({from, to}, AesGcm(key)).first->second;
  }

  Transfer begin(Channel& channel, Message message) {
    message.id = ++last_id_;
    open_.emplace(message.id, channel.other());
    channel.messages.push_back(message);
    if (channel.messages.size() == 1) busy_.push_back(&channel);
    begin_frames(channel);
    return {message.id};
  }

  // As many as may be under way.
  void begin_frames(Channel& channel) {
    for (Message& message : channel.messages) {
      for (; message.begun < message.frames(); ++message.begun) {
        const std::size_t here = channel.frames.size();
        if (here == kMost || (here >= kFewest && under_way_ >= kBuffers)) return;
        begin_frame(channel, message);
      }
    }
  }

  void begin_frame(Channel& channel, const Message& message) {
    Frame frame{channel.next, spare_buffer(), {}};
    ++channel.next.number;
    const std::size_t size = message.size_of(message.begun), at = message.begun * kFrame;
    frame.header.size = static_cast<std::uint32_t>(size);
    const auto tag = static_cast<int>(frame.header.tag);
    std::uint8_t* const buffer = frame.buffer.get();
    if (channel.sends) {
      const auto header = frame.header.bytes();
      std::ranges::copy(header, buffer);
      channel.cipher->seal(frame.header.nonce(), header, {message.from + at, size}, buffer + kHeader);
      frame.carried = carrier_->send(channel.other(), tag, buffer, kHeader + size + kTagSize);
    } else {
      frame.carried = carrier_->receive(channel.other(), tag, buffer, kHeader + size + kTagSize);
    }
    channel.frames.push_back(std::move(frame));
    ++under_way_;
  }

  // Ends those that are done, of the first under way in each channel. `advance` is the carrier's, of first_.
  template <typename Advance>
  void move_frames(const Advance& advance) {
    first_.clear();
    for (const Channel* const channel : busy_) first_.push_back(channel->frames.front().carried);
    if (!first_.empty()) advance();
    for (std::size_t i = 0; i < first_.size(); ++i)
      if (first_[i].id == 0) end_frame(*busy_[i]);
    std::erase_if(busy_, [](const Channel* channel) { return channel->messages.empty(); });
  }

  void end_frame(Channel& channel) {
    Message& message = channel.messages.front();
    Frame& frame = channel.frames.front();
    if (!channel.sends) open(channel, frame, message.to + message.done * kFrame);
    spare_.push_back(std::move(frame.buffer));
    channel.frames.pop_front();
    --under_way_;
    if (++message.done == message.frames()) {
      open_.erase(message.id);
      channel.messages.pop_front();
    }
    begin_frames(channel);
  }

  void open(const Channel& channel, const Frame& frame, std::uint8_t* to) {
    const ByteView arrived(frame.buffer.get(), kHeader + frame.header.size + kTagSize);
    const Header has = parse_header(arrived.first(kHeader));
    if (has == frame.header && channel.cipher->open(has.nonce(), arrived.first(kHeader), arrived.subspan(kHeader), to))
      return;
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{} got something else than {} sent: in place of frame {} of tag {} came {}",
                            key_.rank_name(rank()), key_.rank_name(channel.other()), frame.header.number,
                            frame.header.tag, claim_of(has, frame.header)),
                "something alters what these hosts send each other; nothing of it was used");
  }

  Buffer spare_buffer() {
    if (spare_.empty()) return std::make_unique_for_overwrite<std::uint8_t[]>(kHeader + kFrame + kTagSize);
    Buffer out = std::move(spare_.back());
    spare_.pop_back();
    return out;
  }

  const LaunchKey key_;
  const std::uint64_t launch_;
  std::size_t under_way_ = 0;  // frames
  std::int64_t last_id_ = 0;
  std::map<std::int64_t, int> open_;  // messages that are not done, and the other rank
  std::map<std::pair<std::uint32_t, std::uint32_t>, AesGcm> ciphers_;
  std::map<std::tuple<int, int, bool>, Channel> channels_;
  std::vector<Channel*> busy_;
  std::vector<Transfer> first_;
  std::vector<Buffer> spare_;
  std::unique_ptr<Communicator> carrier_;  // last: it ends before the memory that it may write to
};

}  // namespace

std::int64_t sealed_memory(std::int64_t messages) {
  const std::int64_t frames = static_cast<std::int64_t>(kBuffers) + static_cast<std::int64_t>(kFewest) * messages;
  return frames * static_cast<std::int64_t>(kHeader + kFrame + kTagSize);
}

std::unique_ptr<Communicator> sealed_ranks(std::unique_ptr<Communicator> carrier, const LaunchKey& key) {
  return std::make_unique<SealedRanks>(std::move(carrier), key);
}

}  // namespace mlx::dist
