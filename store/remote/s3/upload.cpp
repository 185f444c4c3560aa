// Each connection's thread takes the next pack's worth of objects, writes it to a temporary file and sends that. Making
// packs is one at a time, in order; sending is not.
#include "store/remote/s3/upload.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "store/format/codec.h"
#include "store/pack/pack_writer.h"

namespace mlx::store::s3 {

namespace {

constexpr std::size_t kReadAhead = 32;                          // objects read at once
constexpr std::uint64_t kWorthAsking = std::uint64_t{1} << 20;  // a pack of this size is asked for before it is sent
constexpr double kBetweenEntries = 2;                           // seconds; the catalogue is not rewritten more often

struct OutgoingPack {
  std::size_t number = 0;
  PackEntry entry;
  std::string path;
  std::uint64_t stored_bytes = 0;  // of its objects
};

class Upload {
 public:
  Upload(const UploadContext& context, const std::vector<ObjectKey>& keys, const ReadStored& read, Progress& progress)
      : context_(context), keys_(keys), read_(read), progress_(progress), temporaries_(context.folder, context.disk) {}

  void run() {
    try {
      context_.network.run(context_.network.threads(), [&](std::int64_t) {
        try {
          while (const std::optional<OutgoingPack> pack = make_next()) {
            send(*pack);
            enter(*pack);
          }
        } catch (...) {
          failed_ = true;
          throw;
        }
      });
    } catch (...) {
      enter_what_is_there();
      throw;
    }
    enter_finished();
  }

 private:
  // The next pack in order; nullopt once all objects are in packs, and after an error.
  std::optional<OutgoingPack> make_next() {
    std::lock_guard lock(making_);
    progress_.check_interrupted();
    if (failed_) return std::nullopt;
    if (ahead_.empty()) read_ahead();
    if (ahead_.empty()) return std::nullopt;
    OutgoingPack pack;
    pack.number = made_++;
    pack.path = temporaries_.next();
    PackWriter writer(pack.path, context_.disk);
    while (!ahead_.empty() && writer.size() < kTargetPackSize) {
      writer.append(ahead_.front());
      pack.stored_bytes += ahead_.front().stored.size();
      ++pack.entry.records;
      ahead_.pop_front();
      if (ahead_.empty()) read_ahead();
    }
    pack.entry.size = writer.size() + pack.entry.tail_size();
    pack.entry.id = writer.seal();
    return pack;
  }

  void read_ahead() {
    const std::size_t count = std::min(kReadAhead, keys_.size() - at_);
    std::vector<StoredObject> objects(count);
    context_.pool.run(static_cast<std::int64_t>(count), [&](std::int64_t i) {
      const auto number = static_cast<std::size_t>(i);
      objects[number] = read_(keys_[at_ + number]);
      check_received(objects[number], codecs_);  // the server only sees packs
    });
    std::ranges::move(objects, std::back_inserter(ahead_));
    at_ += count;
  }

  // An earlier push may have sent this pack without entering it into the catalogue: then it is not sent again.
  void send(const OutgoingPack& pack) {
    const std::string name = "packs/" + pack.entry.id.hex() + ".pack";
    const MappedFile file(pack.path);
    const ByteView bytes = file.bytes();
    CHECK(bytes.size() == pack.entry.size);
    std::uint64_t reported = 0;
    const auto report = [&](std::uint64_t position) {
      const std::uint64_t reached = std::min(position, pack.stored_bytes);
      if (reached > reported) progress_.advance(reached - reported);
      reported = std::max(reported, reached);
    };
    if (bytes.size() >= kWorthAsking && context_.client.size_of(name) == bytes.size()) {
      log("s3: {} is there", context_.client.url_of(name));
    } else {
      context_.client.create(name, bytes, report);
    }
    report(pack.stored_bytes);
  }

  void enter(const OutgoingPack& pack) {
    std::lock_guard lock(entering_);
    context_.tables.keep(pack.entry, pack.path);
    {
      std::lock_guard making(making_);
      context_.disk.remove(pack.path);
      temporaries_.published(pack.path);
    }
    sent_.push_back(pack);
    if (seconds_now() - entered_at_ >= kBetweenEntries) enter_finished();
  }

  // The packs in front of the first one that has not arrived.
  void enter_finished() {
    std::ranges::sort(sent_, {}, &OutgoingPack::number);
    std::vector<PackEntry> entries;
    for (const OutgoingPack& pack : sent_) {
      if (pack.number == entered_ + entries.size()) entries.push_back(pack.entry);
    }
    if (entries.empty()) return;
    context_.catalogue.replace([&](Catalogue& catalogue) {
      const std::size_t before = catalogue.packs.size();
      catalogue.add(entries);
      return catalogue.packs.size() != before;
    });
    context_.tables.take_sent(entries);
    entered_ += entries.size();
    std::erase_if(sent_, [&](const OutgoingPack& pack) { return pack.number < entered_; });
    entered_at_ = seconds_now();
  }

  // After an error, which is the one that is reported.
  void enter_what_is_there() {
    try {
      enter_finished();
    } catch (const Error& error) {
      log("s3: what got through is not in the catalogue: {}", error.message);
    }
  }

  const UploadContext& context_;
  const std::vector<ObjectKey>& keys_;
  const ReadStored& read_;
  Progress& progress_;

  CodecPool codecs_;
  std::atomic<bool> failed_{false};
  std::mutex making_;  // what follows up to the next mutex
  TemporaryFiles temporaries_;
  std::deque<StoredObject> ahead_;
  std::size_t at_ = 0, made_ = 0;

  std::mutex entering_;
  std::vector<OutgoingPack> sent_;
  std::size_t entered_ = 0;
  double entered_at_ = seconds_now();
};

}  // namespace

void upload(const UploadContext& context, const std::vector<ObjectKey>& keys, const ReadStored& read,
            Progress& progress) {
  Upload(context, keys, read, progress).run();
}

}  // namespace mlx::store::s3
