// Images as a dataset: pairs of IDX files or photos, an index set over images, augmented batches.

#include "data/kinds/images_dataset.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/content_hash.h"
#include "data/division.h"
#include "data/kinds/image_keys.h"
#include "data/kinds/loader.h"
#include "data/kinds/photo_files.h"
#include "data/kinds/photo_shards.h"
#include "data/kinds/photos.h"
#include "data/kinds/scans.h"
#include "data/splits.h"
#include "kernels/image_change.h"

namespace mlx::data {
namespace {

// f32[count,H,W,C] "images", or the inputs of raw batches, and s32[count]; with mixup f32[count,classes].
class ImageBatches final : public BatchSource {
 public:
  ImageBatches(std::shared_ptr<const Images> images, Loader::Options options, Pool& pool)
      : images_(std::move(images)),
        examples_(options.subset.value().size()),
        raw_(options.raw),
        mixes_(options.augment.mixup > 0),
        dims_{0, images_->height, images_->width, images_->channels},
        loader_(*images_, std::move(options), pool) {
    view_.target_dims = {0};
    if (mixes_) view_.target_dims.push_back(images_->classes);
  }
  std::int64_t batches() const override { return loader_.batches(); }
  std::int64_t examples() const override { return examples_; }
  void start(std::uint64_t epoch, std::int64_t first) override { loader_.start(epoch, first); }
  const BatchView* next() override {
    const Batch* const batch = loader_.next();
    if (!batch) return nullptr;
    view_.count = view_.units = dims_[0] = view_.target_dims[0] = batch->count;
    view_.inputs.clear();
    if (raw_)
      add_raw(*batch);
    else
      view_.inputs.push_back({images_kind.input, batch->images.data(), dims_});
    view_.target = mixes_ ? static_cast<const void*>(batch->shares.data()) : batch->labels.data();
    return &view_;
  }

 private:
  void add_raw(const Batch& batch) {
    const auto add = [&](const char* name, const void* data, std::vector<std::int64_t> dims, bool of_all = false) {
      view_.inputs.push_back({name, data, std::move(dims), of_all});
    };
    add(kPixelsInput, batch.raw.pixels.data(), dims_);
    add(kChangesInput, batch.raw.changes.data(), {batch.count, kernels::kChangeFields});
    add(kTableInput, loader_.table().channel(0), {dims_[3], kernels::kPixelValues}, true);
    if (!mixes_) return;
    add(kPartnerPixelsInput, batch.partners.pixels.data(), dims_);
    add(kPartnerChangesInput, batch.partners.changes.data(), {batch.count, kernels::kChangeFields});
    add(kShareInput, &batch.share, {1}, true);
  }

  std::shared_ptr<const Images> images_;
  std::int64_t examples_;
  bool raw_, mixes_;
  std::vector<std::int64_t> dims_;
  Loader loader_;
  BatchView view_;
};

Description description_of_images(const Images& images, std::int64_t count) {
  Description out;
  out.kind = &images_kind;
  out.count = count;
  out.height = images.height;
  out.width = images.width;
  out.channels = images.channels;
  out.outputs = images.classes;
  out.names = images.class_names;
  out.photos = images.photos;
  return out;
}

class ImagesDataset final : public Dataset {
 public:
  ImagesDataset(std::shared_ptr<const Images> images, IndexSet items)
      : images_(std::move(images)), items_(std::move(items)), about_(description_of_images(*images_, items_.size())) {
    if (images_->pixels) {
      about_.set_spool(*images_->pixels, items_.size());
      return;
    }
    about_.bytes = items_.size() * images_->image_bytes();
    for (std::int64_t i = 0; i < items_.size(); ++i)
      if (images_->source->in_memory(items_[i])) about_.in_memory += images_->image_bytes();
  }

  const Description& describe() const override { return about_; }
  DatasetPtr subset(const IndexSet& items) const override {
    return std::make_shared<ImagesDataset>(images_, items_.part(items));
  }
  Preprocessing measure(const Preprocessing* base) const override {
    Preprocessing out{about_.height, about_.width, about_.channels, {}};
    out.fit = images_->fit;
    const bool keeps = base && base->channels == about_.channels;
    out.normalization = keeps ? base->normalization : data::measure(*images_, items_);
    return out;
  }
  std::unique_ptr<BatchSource> batches(const Preprocessing& preprocessing, const BatchOptions& options,
                                       Pool& pool) const override {
    if (static_cast<std::int64_t>(preprocessing.normalization.mean.size()) != about_.channels) {
      fail(ErrorKind::kUsage, "the model normalizes {} channels of an image, the data has {}",
           preprocessing.normalization.mean.size(), about_.channels);
    }
    Loader::Options loading{.batch = options.batch,
                            .seed = options.seed,
                            .shuffle = options.shuffle,
                            .drop_last = options.drop_last,
                            .shuffle_buffer = options.shuffle_buffer,
                            .rank = options.rank,
                            .ranks = options.ranks,
                            .shares = options.shares,
                            .augment = options.augment,
                            .normalization = preprocessing.normalization,
                            .raw = options.raw,
                            .subset = items_};
    return std::make_unique<ImageBatches>(images_, std::move(loading), pool);
  }
  // Photos are equal if their files are, so that a member of a shard equals a file in a folder.
  void each_content(bool near, const std::function<void(const Content&)>& visit) const override {
    if (!images_->pixels) {
      const PixelSource& photos = *images_->source;
      for (std::int64_t i = 0; i < items_.size(); ++i)
        visit({photos.content(items_[i]), {}, near ? photos.look(items_[i]) : nullptr});
      return;
    }
    const auto size = static_cast<std::size_t>(images_->image_bytes());
    images_->pixels->scan(items_, [&](const std::uint8_t* image) {
      Look look;
      if (near) look = look_of(image, images_->height, images_->width, images_->channels);
      visit({hash_of({reinterpret_cast<const char*>(image), size}), {}, near ? &look : nullptr});
    });
  }
  std::string item_text(std::int64_t index) const override {
    return images_->pixels ? fmt::format("image {}", index) : printable(images_->source->name(items_[index]));
  }
  std::optional<LabelAt> highest_label() const override {
    LabelAt highest{-1, 0};
    for (std::int64_t i = 0; i < items_.size(); ++i) {
      const std::int64_t label = images_->labels[static_cast<std::size_t>(items_[i])];
      if (label > highest.label) highest = {label, i};
    }
    return highest;
  }

 private:
  std::shared_ptr<const Images> images_;
  IndexSet items_;
  Description about_;
};

// "a/emnist-digits-train-images-idx3-ubyte.gz" → folder "a/", prefix "emnist-digits-train", what "images".
struct IdxName {
  std::string folder, prefix, what;
  bool gz = false;
};

std::optional<IdxName> idx_name(const std::string& path) {
  IdxName parts;
  const std::size_t slash = path.rfind('/');
  parts.folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  std::string_view name = std::string_view(path).substr(parts.folder.size());
  if (name.ends_with(".gz")) parts.gz = true, name.remove_suffix(3);
  if (!name.ends_with("-ubyte")) return {};
  name.remove_suffix(6);
  // The rest ends in "images-idx3", "images.idx4", "labels-idx1" …
  if (name.size() < 5 || name.substr(name.size() - 4, 3) != "idx") return {};
  if (name[name.size() - 5] != '-' && name[name.size() - 5] != '.') return {};
  name.remove_suffix(5);
  for (const std::string_view what : {"images", "labels"}) {
    if (!name.ends_with(what) || name.size() < what.size() + 2) continue;
    parts.what = what;
    parts.prefix = name.substr(0, name.size() - what.size() - 1);
    return parts;
  }
  return {};
}

const store::Entry* find_labels(const Files& files, const IdxName& images) {
  for (const std::string_view between : {"-labels-idx1-ubyte", "-labels.idx1-ubyte"}) {
    for (const std::string_view end : {"", ".gz"}) {
      const auto found = files.find(fmt::format("{}{}{}{}", images.folder, images.prefix, between, end));
      if (found != files.end()) return &found->second;
    }
  }
  return nullptr;
}

void find_image_splits(const Files& files, Layout& layout) {
  for (const auto& [path, entry] : files) {
    const std::optional<IdxName> parts = idx_name(path);
    if (!parts || parts->what != "images") continue;
    const std::string split = split_named(parts->prefix);
    if (split.empty()) continue;
    if (parts->gz && files.contains(path.substr(0, path.size() - 3))) continue;  // the plain one is read
    const store::Entry* const labels = find_labels(files, *parts);
    if (!labels) {
      fail(ErrorKind::kCorrupt, "{}: its labels ({}{}-labels-idx1-ubyte or the same with .gz) are missing", path,
           parts->folder, parts->prefix);
    }
    add_split(layout, split, {&images_kind, {entry, *labels}}, "images and labels");
  }
  if (layout.splits.empty()) find_photo_splits(files, layout);
}

std::vector<store::Entry> declared_images(TomlReader& split, const Files& files) {
  if (!split.is_text("images")) return declared_shards(split, split.strings("images"), files);
  const std::string path = split.string("images");
  if (files.contains(path) && is_shard(path)) return declared_shards(split, {path}, files);
  if (!files.contains(path)) return declared_photos(split, path, files);
  store::Entry images = declared_file(split, "images", path, files);
  return {std::move(images), declared_file(split, "labels", split.string("labels"), files)};
}

std::vector<std::uint64_t> contents_of_photos(const StoredSplit& split, bool read) {
  return holds_photos(split) ? contents_listed(split, read) : std::vector<std::uint64_t>();
}

Description describe_stored_images(const StoredSplit& split, const Reading& reading) {
  if (holds_photos(split)) {
    const Images photos = describe_photos(split, reading);
    return description_of_images(photos, photos.count);
  }
  const Images images = describe_images(split);
  return description_of_images(images, split.part ? images_in(split, images.labels).size() : images.count);
}

DatasetPtr load_stored_images(const StoredSplit& split, const Reading& reading, Progress& progress) {
  if (holds_photos(split)) return make_dataset(load_photos(split, reading, progress));
  return make_dataset(load_images_in(split, progress, reading.budget));
}

}  // namespace

const Kind images_kind = {
    .name = "images",
    .input = "images",
    .unit = "images",
    .form = Form::kImages,
    .optimizer = "sgd",
    .raw = true,
    .divides = true,
    .read_keys = read_image_keys,
    .write_keys = write_image_keys,
    .key_set = image_key_set,
    .file_names =
        "train/CLASS/1.jpg (or .wav), train-0000.tar, train-images-idx3-ubyte(.gz) with train-labels-idx1-ubyte(.gz)",
    .find_splits = find_image_splits,
    .declared = declared_images,
    .scan = &images_scan,
    .contents = contents_of_photos,
    .describe = describe_stored_images,
    .load = load_stored_images,
};

DatasetPtr make_dataset(std::shared_ptr<const Images> images) {
  const IndexSet all(0, images->count);
  return std::make_shared<ImagesDataset>(std::move(images), all);
}

}  // namespace mlx::data
