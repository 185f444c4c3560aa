// Decoded images are kept in the order in which they come, until the budget is spent; the others are decoded each time.
// So nothing that is kept is ever dropped, and readers need no lock. A decoded image has the same bytes each time.

#include "data/kinds/photos.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "base/process_use.h"
#include "data/images/decode.h"
#include "data/kinds/images_dataset.h"
#include "data/kinds/photo_files.h"
#include "data/sounds/spectrogram.h"
#include "formats/wav.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kHeadBytes = 64 << 10;  // most headers end before
constexpr std::int64_t kScanBlock = 256;        // photos between two looks at the progress
constexpr std::int64_t kMostPhotoSide = 1 << 14;
constexpr std::size_t kMostLooks = 1'000'000;  // 72 bytes each

// Whether the photos are sounds: the first one's name tells it.
bool are_sounds(const std::vector<PhotoFile>& files) {
  return has_sound_name(files.at(0).path);
}

// What messages call them.
std::string word_for(const std::vector<PhotoFile>& files) {
  return are_sounds(files) ? "sound" : "photo";
}

class Photos final : public PixelSource {
 public:
  Photos(const store::Store& store, std::vector<PhotoFile> files, const PhotoForm& form, MemoryBudget budget)
      : reader_(store),
        files_(std::move(files)),
        form_(form),
        sounds_(are_sounds(files_)),
        kept_(files_.size()),
        budget_(std::move(budget)),
        contents_(files_.size()),
        has_profile_(files_.size()) {
    sums_.resize(files_.size() * static_cast<std::size_t>(form.channels));
  }
  ~Photos() override { budget_.give(taken_); }
  Photos(const Photos&) = delete;
  Photos& operator=(const Photos&) = delete;

  const std::uint8_t* pixels(std::int64_t index, Bytes& scratch) const override {
    const std::size_t at = place_of(index);
    if (!kept_[at].empty()) return kept_[at].data();
    scratch.resize(static_cast<std::size_t>(form_.bytes()));
    prepare_photo(reader_.read(files_[at]), files_[at].path, form_, scratch.data());
    return scratch.data();
  }

  void crop(std::int64_t index, const RandomCrop& crop, Bytes& to) const override {
    const std::size_t at = place_of(index);
    prepare_crop(reader_.read(files_[at]), files_[at].path, form_, crop, to.data());
  }

  std::span<const ChannelSums> sums(std::int64_t index) const override { return sums_of(place_of(index)); }

  bool in_memory(std::int64_t index) const override { return !kept_[place_of(index)].empty(); }
  const std::string& name(std::int64_t index) const override { return files_[place_of(index)].path; }
  std::uint64_t content(std::int64_t index) const override { return contents_[place_of(index)]; }
  const Look* look(std::int64_t index) const override {
    const std::size_t at = place_of(index);
    return at < looks_.size() ? &looks_[at] : nullptr;
  }

  // Of each photo that is taken in from now on, as far as kMostLooks of them go.
  void keep_looks() { looks_.resize(std::min(files_.size(), kMostLooks)); }

  // Decodes photo `at`, sums it up and keeps it if it fits. Different photos may be taken in at the same time.
  void take_in(std::size_t at, Bytes& scratch) {
    scratch.resize(static_cast<std::size_t>(form_.bytes()));
    const Bytes file = reader_.read(files_[at]);
    if (formats::is_wav(file) != sounds_) {
      fail(ErrorKind::kUsage, "{}: it is {} in a split of {}", files_[at].path, sounds_ ? "no WAV file" : "a sound",
           sounds_ ? "sounds" : "photos");
    }
    contents_[at] = reader_.content_of(files_[at], &file);
    prepare_photo(file, files_[at].path, form_, scratch.data());
    if (!sounds_) has_profile_[at] = read_picture_header(file, files_[at].path).icc ? 1 : 0;
    const std::span<const ChannelSums> sums = sums_of(at);
    add_sums(scratch.data(), static_cast<std::size_t>(form_.height * form_.width),
             {sums_.data() + (sums.data() - sums_.data()), sums.size()});
    if (at < looks_.size()) looks_[at] = look_of(scratch.data(), form_.height, form_.width, form_.channels);
    if (!budget_.take(form_.bytes())) return;
    taken_ += form_.bytes();
    kept_[at] = scratch;
  }

  // From now on index i means the photo places[i].
  void keep_only(std::vector<std::int64_t> places) { places_ = std::move(places); }
  const std::vector<PhotoFile>& files() const { return files_; }
  // Of each photo that was taken in: 1 if it has a colour profile, which is not applied.
  const std::vector<std::uint8_t>& has_profile() const { return has_profile_; }

 private:
  std::size_t place_of(std::int64_t index) const {
    return static_cast<std::size_t>(places_.empty() ? index : places_[static_cast<std::size_t>(index)]);
  }
  std::span<const ChannelSums> sums_of(std::size_t at) const {
    const auto channels = static_cast<std::size_t>(form_.channels);
    return {sums_.data() + at * channels, channels};
  }

  PhotoReader reader_;
  std::vector<PhotoFile> files_;
  PhotoForm form_;
  bool sounds_;
  std::vector<std::int64_t> places_;  // empty: all photos
  std::vector<Bytes> kept_;           // empty: not kept
  MemoryBudget budget_;
  std::atomic<std::int64_t> taken_ = 0;  // of the budget
  std::vector<ChannelSums> sums_;        // [photo][channel]
  std::vector<std::uint64_t> contents_;  // hashes of the files that were taken in
  std::vector<std::uint8_t> has_profile_;
  std::vector<Look> looks_;  // of the first photos; empty: not asked for
};

// Calls body(i) for each photo on the store's threads. Returns what was wrong with it, "" if nothing. Damage of the
// store and interruption end the loop as errors, because they are not the photo's.
template <typename Body>
std::vector<std::string> for_each_photo(const store::Store& store, const std::vector<PhotoFile>& files,
                                        Progress& progress, const Body& body) {
  std::vector<std::string> wrong(files.size());
  const auto count = static_cast<std::int64_t>(files.size());
  for (std::int64_t begin = 0; begin < count; begin += kScanBlock) {
    progress.check_interrupted();
    const std::int64_t size = std::min(kScanBlock, count - begin);
    store.pool().run(size, [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(begin + i);
      try {
        body(at);
      } catch (const Error& error) {
        if (error.message.find(files[at].path) != 0) throw;
        if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kUsage) throw;
        wrong[at] = error.message;
      }
    });
    progress.advance(static_cast<std::uint64_t>(size));
  }
  return wrong;
}

std::int64_t allowed(const PhotoOptions& options, std::int64_t count) {
  return options.skip_share > 0 ? static_cast<std::int64_t>(options.skip_share * static_cast<double>(count))
                                : options.skip_count;
}

// Throws if more photos are bad than the options allow; returns the messages of the bad ones.
std::vector<std::string> judge(const std::vector<std::string>& wrong, const PhotoOptions& options,
                               const std::string& word) {
  std::vector<std::string> bad;
  for (const std::string& why : wrong)
    if (!why.empty()) bad.push_back(why);
  const auto count = static_cast<std::int64_t>(wrong.size()), most = allowed(options, count);
  const auto found = static_cast<std::int64_t>(bad.size());
  if (found <= most && found < count) return bad;
  if (options.skip_share == 0 && options.skip_count == 0 && found == 1)
    throw Error(ErrorKind::kCorrupt, bad[0],
                fmt::format("mend or remove the {}, or set [data] skip_bad = \"1%\" to leave it out", word));
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{} (and {} more of {} {}s that cannot be read; [data] skip_bad allows {})", bad[0],
                          found - 1, count, word, most),
              fmt::format("mend or remove the {}s, or raise [data] skip_bad", word));
}

PictureHeader header_of(const PhotoReader& reader, const PhotoFile& file) {
  if (file.size > kHeadBytes) {
    try {
      return read_picture_header(reader.read_begin(file, kHeadBytes), file.path);
    } catch (const Error& error) {
      if (error.kind == ErrorKind::kMissing) throw;  // otherwise the header may be longer
    }
  }
  return read_picture_header(reader.read(file), file.path);
}

// The size of all photos, by their headers.
void find_size(const StoredSplit& split, const std::vector<PhotoFile>& files, const PhotoOptions& options,
               Progress& progress, PhotoForm& form) {
  std::vector<PictureHeader> headers(files.size());
  const PhotoReader reader(*split.store);
  const std::vector<std::string> wrong =
      for_each_photo(*split.store, files, progress, [&](std::size_t i) { headers[i] = header_of(reader, files[i]); });
  (void)judge(wrong, options, word_for(files));
  std::size_t first = 0;
  while (!wrong[first].empty()) ++first;
  for (std::size_t i = first; i < files.size(); ++i) {
    if (!wrong[i].empty() || (headers[i].height == headers[first].height && headers[i].width == headers[first].width))
      continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("{}s have different sizes: {} is {}x{}, {} is {}x{} (height x width)", word_for(files),
                            files[first].path, headers[first].height, headers[first].width, files[i].path,
                            headers[i].height, headers[i].width),
                are_sounds(files)
                    ? "set the mel bands and the frames of 10 ms that a network takes: [data] size = [64, 100]"
                    : "set the size that they are scaled to: [data] size = [224, 224]");
  }
  form.height = headers[first].height;
  form.width = headers[first].width;
  if (form.height > kMostPhotoSide || form.width > kMostPhotoSide) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: {}x{} is too large for the input of a network", files[first].path, form.height, form.width),
        "set the size that photos are scaled to: [data] size = [224, 224]");
  }
}

// What [data] says about photos and makes no sense for sounds.
void check_sound_options(const Reading& reading) {
  if (reading.photos.fit != Fit::kSqueeze)
    fail(ErrorKind::kUsage, "[data] resize is for photos: a sound is cut or followed by silence, and never stretched");
  if (reading.augment.crop > 0)
    fail(ErrorKind::kUsage, "[data] augment: crop is for photos; spectrograms can be changed by shift and erase");
  if (reading.photos.height > kMostBands)
    fail(ErrorKind::kUsage, "[data] size: {} mel bands are more than {}", reading.photos.height, kMostBands);
}

// From the model that reads them, else from [data], else from the model that the training starts from, else from the
// photos.
PhotoForm form_of(const StoredSplit& split, const std::vector<PhotoFile>& files, const Reading& reading,
                  Progress& progress) {
  const Preprocessing* const fitted = reading.fitted ? reading.fitted.get() : nullptr;
  const bool sounds = are_sounds(files);
  if (fitted && fitted->height > 0) {
    if (fitted->takes_sounds() != sounds) {
      fail(ErrorKind::kUsage, "{}: it is {}, and the model takes {}", files[0].path, sounds ? "a sound" : "a picture",
           sounds ? "pictures" : "sounds");
    }
    PhotoForm form = fitted->photo_form();
    if (form.channels != 1 && form.channels != 3)
      fail(ErrorKind::kUsage, "the model takes images of {} channels, photos have 1 or 3", form.channels);
    if (!fitted->fit) {  // a model that says nothing about resizing
      PhotoForm found = form;
      find_size(split, files, reading.photos, progress, found);
      form.height = found.height, form.width = found.width;
    }
    return form;
  }
  const PhotoOptions& options = reading.photos;
  PhotoForm form{options.height, options.width, options.grey || sounds ? 1 : 3, options.fit};
  if (sounds) {
    check_sound_options(reading);
    if (!options.whole_sounds) form.fit = Fit::kSpectrogram;
  }
  if (form.height > 0) return form;
  if (reading.base && reading.base->fit && reading.base->takes_sounds() == sounds) return reading.base->photo_form();
  find_size(split, files, options, progress, form);
  return form;
}

Images described(const PhotoList& list, const PhotoForm& form) {
  Images out;
  out.count = static_cast<std::int64_t>(list.files.size());
  out.height = form.height;
  out.width = form.width;
  out.channels = form.channels;
  out.classes = static_cast<int>(list.classes.size());
  out.labels = list.labels;
  out.class_names = list.classes;
  out.fit = form.fit;
  out.photos.libraries = picture_libraries();
  return out;
}

// Leaves out the photos that are bad.
void leave_out(const std::vector<std::string>& wrong, Photos& photos, Images& images) {
  std::vector<std::int64_t> places;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (!wrong[i].empty()) continue;
    places.push_back(static_cast<std::int64_t>(i));
    labels.push_back(images.labels[i]);
  }
  photos.keep_only(std::move(places));
  images.labels = std::move(labels);
  images.count = static_cast<std::int64_t>(images.labels.size());
}

// Colours of such photos may come out a little paler or stronger than where the profile is applied.
void say_profiles(const Photos& photos, Progress& progress) {
  const std::vector<std::uint8_t>& has = photos.has_profile();
  const auto first = std::ranges::find(has, 1);
  if (first == has.end()) return;
  progress.warn(fmt::format("{} of {} photos have a colour profile (ICC), which is not applied; the first: {}",
                            std::ranges::count(has, 1), has.size(),
                            photos.files()[static_cast<std::size_t>(first - has.begin())].path));
}

}  // namespace

Images describe_photos(const StoredSplit& split, const Reading& reading) {
  NoProgress silent;
  const PhotoList list = list_photos(split, reading.classes);
  return described(list, form_of(split, list.files, reading, silent));
}

Images load_photos(const StoredSplit& split, const Reading& reading, Progress& progress) {
  PhotoList list = list_photos(split, reading.classes);
  want_photos(*split.store, list.files);
  const PhotoForm form = form_of(split, list.files, reading, progress);
  Images out = described(list, form);
  const MemoryBudget budget = reading.budget.limited() ? reading.budget : MemoryBudget(machine_memory() / 4, "");
  const auto photos = std::make_shared<Photos>(*split.store, std::move(list.files), form, budget);
  if (reading.looks) photos->keep_looks();
  const std::string word = word_for(photos->files());
  progress.begin(fmt::format("decoding {}s", word), static_cast<std::uint64_t>(out.count), "images");
  const std::vector<std::string> wrong = for_each_photo(*split.store, photos->files(), progress, [&](std::size_t i) {
    thread_local Bytes scratch;
    photos->take_in(i, scratch);
  });
  progress.end();
  out.photos.skipped = judge(wrong, reading.photos, word);
  if (!out.photos.skipped.empty()) {
    leave_out(wrong, *photos, out);
    progress.warn(fmt::format("{} of {} {}s cannot be read and are skipped; the first: {}", out.photos.skipped.size(),
                              wrong.size(), word, out.photos.skipped[0]));
  }
  say_profiles(*photos, progress);
  out.source = photos;
  return out;
}

std::string photo_libraries(const StoredSplit& split) {
  return split.kind->form == Form::kImages && holds_photos(split) ? picture_libraries() : "";
}

std::optional<std::vector<PhotoFile>> photos_in(const store::Store& store, const Digest& manifest,
                                                const std::string& split, const Division* division) {
  const StoredSplit stored = stored_split(store, manifest, split, images_kind, division);
  if (!holds_photos(stored)) return std::nullopt;
  return photos_of(stored);
}

}  // namespace mlx::data
