// mlx predict for models of images: a label and its probability for each. A photo that cannot be read is named, and the
// others are answered all the same.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "cmd/cli/standard_input.h"
#include "cmd/predictions.h"
#include "data/division.h"
#include "data/images/decode.h"
#include "data/images/image_files.h"
#include "data/kinds/images.h"
#include "data/kinds/photo_shards.h"
#include "data/kinds/photos.h"
#include "infer/answers.h"
#include "infer/examples.h"
#include "registry/repository.h"
#include "registry/versions/references.h"

namespace mlx::cmd {
namespace {

// What one INPUT holds: photos, which are read and prepared in blocks, or images that lie in memory.
struct Source {
  std::string name;
  data::IdxImages images;                          // if there are no photos
  std::vector<std::string> photos;                 // their names in answers
  std::function<Bytes(std::size_t photo)> read{};  // any thread may call it
  std::string name_of(std::int64_t i) const { return images.count == 1 ? name : fmt::format("{}[{}]", name, i); }
};

bool is_photo_file(const std::string& path) {
  constexpr std::size_t kMagic = 16;
  const Fd fd = open_file(path, O_RDONLY);
  Bytes begin(kMagic);
  begin.resize(read_at(fd.get(), begin.data(), begin.size(), 0, path));
  return data::is_picture(begin) || data::has_picture_name(path);
}

// All pictures in a folder and the folders below it, sorted by path.
std::vector<std::string> photos_in_folder(const std::string& folder, const std::string& word) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && data::has_picture_name(entry.path().native())) found.push_back(entry.path());
  if (found.empty()) fail(ErrorKind::kNotFound, "'{}': there is no picture in this folder", word);
  std::ranges::sort(found);
  return found;
}

// 0 for what is no regular file, and is read to its end.
std::uint64_t size_of(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_regular_file(path, none) ? std::filesystem::file_size(path) : 0;
}

Bytes read_photo_file(const std::string& path, const std::string& name) {
  data::check_photo_size(size_of(path), name);
  return read_file(path);
}

Source source_of_photos(const std::vector<std::string>& paths, std::vector<std::string> names) {
  Source out;
  out.photos = std::move(names);
  out.read = [paths, shown = out.photos](std::size_t i) { return read_photo_file(paths[i], shown[i]); };
  return out;
}

// The photos in a tar file, which stays open.
Source source_of_tar(const std::string& path, const std::string& word, Context& context) {
  const auto file = std::make_shared<const Fd>(open_file(path, O_RDONLY));
  const formats::TarRead read = [file, path, &interruption = context.progress().interruption()](
                                    std::uint64_t offset, void* to, std::size_t count) {
    interruption.check();
    return read_at(file->get(), to, count, offset, path);
  };
  Source out;
  std::vector<formats::TarMember> members = data::photos_in_tar(read, size_of(path), word);
  for (const formats::TarMember& member : members) out.photos.push_back(fmt::format("{}:{}", word, member.name));
  out.read = [read, members = std::move(members), names = out.photos](std::size_t i) {
    data::check_photo_size(members[i].size, names[i]);
    Bytes bytes(static_cast<std::size_t>(members[i].size));
    bytes.resize(read(members[i].begin, bytes.data(), bytes.size()));
    return bytes;
  };
  return out;
}

// A folder that is no dataset of the repository; a word that begins with . or / is never one.
std::optional<Source> read_folder(const std::string& word, Context& context) {
  const std::string folder = join_path(context.folder(), word);
  if (!is_folder(folder)) return std::nullopt;
  const bool is_path = word.starts_with('.') || word.starts_with('/');
  if (!is_path && context.has_repository() && registry::try_resolve(context.repository(), word)) return std::nullopt;
  const std::vector<std::string> paths = photos_in_folder(folder, word);
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const std::string& path : paths)
    names.push_back(join_path(word, path.substr(folder.size() + (folder.ends_with('/') ? 0 : 1))));
  return source_of_photos(paths, std::move(names));
}

Bytes pixels_of(const data::Images& images) {
  Bytes out(static_cast<std::size_t>(images.count * images.image_bytes()));
  images.pixels->read(0, images.count, out.data());
  return out;
}

Source read_source(const std::string& word, const PredictOptions& options, const PredictInputs& inputs,
                   Context& context) {
  if (std::optional<Source> folder = read_folder(word, context)) return std::move(*folder);
  const PredictSource source = find_source(word, context);
  if (source.is_file()) {
    if (data::is_shard(source.path)) return source_of_tar(source.path, word, context);
    if (is_photo_file(source.path)) return source_of_photos({source.path}, {word});
    return {word, data::read_image_file(source.path, context.progress())};
  }
  const registry::Version& version = source.dataset;
  const store::Store& store = context.repository().store();
  const std::optional<data::Division> division = infer::reading_of(inputs.model.about()).division;
  const data::Division* const divided = division ? &*division : nullptr;
  if (const auto files = data::photos_in(store, version.digest, options.split, divided)) {
    Source out;
    for (const data::PhotoFile& file : *files) out.photos.push_back(fmt::format("{}:{}", version.name(), file.path));
    data::want_photos(store, *files);
    const auto reader = std::make_shared<data::PhotoReader>(store);
    out.read = [reader, files = *files](std::size_t i) { return reader->read(files[i]); };
    return out;
  }
  const data::StoredSplit split = data::stored_split(store, version.digest, options.split, divided);
  const data::Images images = data::load_images_in(split, context.progress(), {});
  Bytes pixels = pixels_of(images);
  return {fmt::format("{}:{}", version.name(), options.split),
          {images.count, images.height, images.width, images.channels, std::move(pixels)}};
}

// `-` stands for the names on standard input, one a line.
std::vector<std::string> expanded(const std::vector<std::string>& inputs, Context& context) {
  std::vector<std::string> all;
  for (const std::string& word : inputs) {
    if (word != "-") {
      all.push_back(word);
      continue;
    }
    const std::vector<std::string> listed = lines_of_standard_input(context.progress().interruption());
    all.insert(all.end(), listed.begin(), listed.end());
  }
  return all;
}

void check_size(const Source& source, const PredictInputs& inputs) {
  if (source.read) return;  // photos are checked as they are read
  const data::Preprocessing& p = inputs.model.about().preprocessing;
  const data::IdxImages& images = source.images;
  if (images.height == p.height && images.width == p.width && images.channels == p.channels) return;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{}: {}x{}x{}, but {} takes images of {}x{}x{} (height, width, channels)", source.name, images.height,
                  images.width, images.channels, inputs.version.name(), p.height, p.width, p.channels),
      "scale it first, or train on images of this size");
}

class Asking {
 public:
  Asking(const PredictOptions& options, const PredictInputs& inputs, Context& context)
      : options_(options),
        inputs_(inputs),
        context_(context),
        predictions_("image", options, inputs, context),
        session_(inputs.model) {}

  void ask(const Source& source) {
    if (!source.read) return add(source.images.pixels, [&](std::int64_t i) { return source.name_of(i); });
    constexpr std::size_t kBlock = 256;
    for (std::size_t begin = 0; begin < source.photos.size(); begin += kBlock) {
      context_.progress().check_interrupted();
      const Block block = prepared(source, begin, std::min(kBlock, source.photos.size() - begin));
      if (block.names.empty()) continue;
      add(block.pixels, [&](std::int64_t i) { return block.names[static_cast<std::size_t>(i)]; });
    }
  }
  // Returns the exit status: kCorrupt if a photo has no answer. Throws if none has one.
  int finish() {
    if (!failed_.empty() && answered_ == 0) throw Error(failed_[0].error);
    for (const Failed& each : failed_) {
      context_.progress().warn(each.error.message);
      predictions_.add_failed(each.photo, each.error.message);
    }
    predictions_.finish();
    if (failed_.empty()) return 0;
    const auto failed = static_cast<std::int64_t>(failed_.size());
    context_.progress().warn(
        fmt::format("{} of {} images cannot be read and have no prediction", failed, failed + answered_));
    return static_cast<int>(ErrorKind::kCorrupt);
  }

 private:
  struct Failed {
    std::string photo;
    Error error;
  };
  // Photos that could be read, ready for the model.
  struct Block {
    Bytes pixels;
    std::vector<std::string> names;
  };

  Block prepared(const Source& source, std::size_t begin, std::size_t count) {
    const data::Preprocessing& preprocessing = inputs_.model.about().preprocessing;
    const data::PhotoForm form = preprocessing.photo_form();
    const auto size = static_cast<std::size_t>(form.bytes());
    Block out;
    out.pixels.resize(count * size);
    std::vector<std::optional<Error>> errors(count);
    context_.pool().run(static_cast<std::int64_t>(count), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      const std::string& name = source.photos[begin + at];
      try {
        const Bytes file = source.read(begin + at);
        data::check_photo(file, name, preprocessing);
        data::prepare_photo(file, name, form, out.pixels.data() + at * size);
      } catch (const Error& error) {
        if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kUsage) throw;
        errors[at] = error;
      }
    });
    for (std::size_t i = 0; i < count; ++i) {
      if (errors[i]) {
        failed_.push_back({source.photos[begin + i], *errors[i]});
        continue;
      }
      const std::uint8_t* const from = out.pixels.data() + i * size;
      std::copy(from, from + size, out.pixels.data() + out.names.size() * size);
      out.names.push_back(source.photos[begin + i]);
    }
    out.pixels.resize(out.names.size() * size);
    return out;
  }

  template <typename NameOf>
  void add(ByteView pixels, const NameOf& name_of) {
    const auto classes = static_cast<std::size_t>(inputs_.model.signature().width());
    const infer::Answers answers = infer::answer_images(session_, pixels, context_.progress());
    answered_ += answers.count;
    for (std::int64_t i = 0; i < answers.count; ++i) {
      const std::span<const double> probabilities(answers.values.data() + static_cast<std::size_t>(i) * classes,
                                                  classes);
      predictions_.look_at(probabilities);
      predictions_.add(name_of(i), rank_classes(probabilities, options_.top));
    }
  }

  const PredictOptions& options_;
  const PredictInputs& inputs_;
  Context& context_;
  Predictions predictions_;
  infer::Session session_;
  std::int64_t answered_ = 0;
  std::vector<Failed> failed_;
};

}  // namespace

int predict_images(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  if (options.inputs.empty()) {
    throw Error(
        ErrorKind::kUsage, fmt::format("{} classifies images: name some", inputs.version.name()),
        "photos, folders and .tar files of photos, IDX files, a dataset with --split, or - for a list of files on "
        "standard input");
  }
  Asking asking(options, inputs, context);
  std::vector<Source> sources;
  sources.reserve(options.inputs.size());
  for (const std::string& word : expanded(options.inputs, context)) {
    sources.push_back(read_source(word, options, inputs, context));
    check_size(sources.back(), inputs);
  }
  for (const Source& source : sources) asking.ask(source);
  return asking.finish();
}

}  // namespace mlx::cmd
