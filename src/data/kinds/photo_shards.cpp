// Indexes shards, each on a thread, and joins their samples in the order of the shards.
#include "data/kinds/photo_shards.h"

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "data/images/decode.h"
#include "data/images/photo.h"
#include "data/kinds/images_dataset.h"
#include "data/readers/byte_stream.h"
#include "formats/tar.h"
#include "formats/wav.h"

namespace mlx::data {
namespace {

using formats::TarMember;

constexpr std::string_view kShardEndings[] = {".tar", ".tgz"};
constexpr const char* kLabelKeys[] = {"label", "class"};
constexpr std::uint64_t kLongestLabel = 4096, kLongestJson = 1 << 20;

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// Where the ending of a member's name begins, behind the first dot of the file's name; npos if it has none.
std::size_t ending_of(std::string_view name) {
  const std::size_t dot = name.find('.', name.rfind('/') + 1);  // npos + 1 is 0
  return dot == std::string_view::npos ? dot : dot + 1;
}

// What is no part of a sample: hidden files, names without an ending, and WebDataset's own "__name__".
bool is_beside_samples(std::string_view name) {
  const std::string_view file = name.substr(name.rfind('/') + 1);
  return is_hidden(name) || ending_of(name) == std::string_view::npos ||
         (file.starts_with("__") && file.substr(0, file.find('.')).ends_with("__"));
}

void refuse_compressed(ByteView begin, const std::string& shard) {
  if (!is_compressed(begin)) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: the shard is compressed, but samples are read from the place where they stand", shard),
              "unpack it to .tar: photos are compressed already");
}

struct SampleFiles {
  std::string key;
  std::vector<TarMember> members;

  const TarMember* with_ending(std::string_view ending) const {
    const auto found = std::ranges::find_if(
        members, [&](const TarMember& member) { return lower(member.name.substr(ending_of(member.name))) == ending; });
    return found == members.end() ? nullptr : &*found;
  }
};

struct ShardSample {
  PhotoFile photo;
  std::size_t name_at = 0;  // in the photo's path
  std::optional<std::string> label;
};

class ShardIndex {
 public:
  ShardIndex(const store::Store& store, const store::Entry& shard, bool with_labels)
      : store_(store), shard_(shard), with_labels_(with_labels), blob_(store.open_blob(shard.content)) {}

  std::vector<ShardSample> read() {
    Bytes begin(4);
    begin.resize(blob_.read_at(0, begin.data(), begin.size()));
    refuse_compressed(begin, shard_.path);
    const auto read = [this](std::uint64_t offset, void* to, std::size_t count) {
      store_.interruption().check();
      return blob_.read_at(offset, to, count);
    };
    formats::read_tar(read, blob_.size(), shard_.path, [this](TarMember&& member) { take(std::move(member)); });
    finish();
    return std::move(samples_);
  }

 private:
  [[noreturn]] void bad(const TarMember& member, const std::string& why, const std::string& hint) const {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}:{}: {} (offset {} of the shard)", shard_.path, member.name, why, member.header), hint);
  }

  void take(TarMember member) {
    if (is_beside_samples(member.name)) return;
    const std::string key = member.name.substr(0, ending_of(member.name) - 1);
    if (key != sample_.key || sample_.members.empty()) {
      finish();
      sample_.key = key;
      if (!keys_.insert(key).second)
        bad(member, fmt::format("sample '{}' occurs again", key),
            "the members of a sample stand one after the other, and its name occurs once");
    }
    const std::string ending = lower(member.name.substr(ending_of(member.name)));
    if (sample_.with_ending(ending))
      bad(member, fmt::format("the sample has two members .{}", ending), "write each once");
    if (sample_.members.size() == kMostMembers)
      bad(member, fmt::format("the sample has more than {} members", kMostMembers), "is the first dot in its place?");
    sample_.members.push_back(std::move(member));
  }

  void finish() {
    if (sample_.members.empty()) return;
    const TarMember& photo = photo_of_sample();
    samples_.push_back({file_of(photo), shard_.path.size() + 1, with_labels_ ? label_of_sample() : std::nullopt});
    sample_.members.clear();
  }

  PhotoFile file_of(const TarMember& member) const {
    return {fmt::format("{}:{}", shard_.path, member.name), member.size, shard_.content, member.begin};
  }

  // By its name, or else by its content if it is no sound.
  const TarMember& photo_of_sample() const {
    const TarMember* found = nullptr;
    const auto look = [&](const auto& is_photo) {
      for (const TarMember& member : sample_.members) {
        if (!is_photo(member)) continue;
        if (found)
          bad(member, fmt::format("the sample has two photos, this and '{}'", found->name),
              "leave one: a sample is one photo with one label");
        found = &member;
      }
    };
    look([](const TarMember& member) { return has_picture_name(member.name); });
    // Whether a split holds sounds is told by names (photos.cpp).
    const auto is_unnamed = [this](const TarMember& member) {
      const Bytes begin = begin_of(member);
      return is_picture(begin) && !formats::is_wav(begin);
    };
    if (!found) look(is_unnamed);
    if (found) return *found;
    bad(sample_.members[0], "the sample has no photo",
        fmt::format("a sample is a photo ({}) and a label: NAME.jpg and NAME.cls", picture_formats()));
  }
  Bytes begin_of(const TarMember& member) const { return bytes_of(member, std::min<std::uint64_t>(member.size, 16)); }
  Bytes bytes_of(const TarMember& member, std::uint64_t size) const {
    Bytes bytes(static_cast<std::size_t>(size));
    bytes.resize(blob_.read_at(member.begin, bytes.data(), bytes.size()));
    return bytes;
  }

  std::optional<std::string> label_of_sample() const {
    if (const TarMember* const member = sample_.with_ending("cls")) return text_label(*member);
    if (const TarMember* const member = sample_.with_ending("json"))
      if (std::optional<std::string> label = json_label(*member)) return label;
    if (const TarMember* const member = sample_.with_ending("txt")) return text_label(*member);
    return std::nullopt;
  }
  Bytes small(const TarMember& member, std::uint64_t most) const {
    if (member.size > most) bad(member, fmt::format("{} are too much for a label", format_bytes(member.size)), "");
    return bytes_of(member, member.size);
  }
  std::string text_label(const TarMember& member) const {
    const Bytes bytes = small(member, kLongestLabel);
    constexpr std::string_view kBlanks = " \t\r\n";
    std::string_view text = as_text(bytes);
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    text = text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
    return checked(member, std::string(text));
  }
  // nullopt if the object has none of the keys.
  std::optional<std::string> json_label(const TarMember& member) const {
    const Bytes bytes = small(member, kLongestJson);
    const std::string what = fmt::format("{}:{}", shard_.path, member.name);
    const Json json = parse_json(as_text(bytes), what);
    if (!json.is_object()) bad(member, fmt::format("expected an object, got {}", json.type_name()), "");
    for (const char* key : kLabelKeys) {
      const auto value = json.find(key);
      if (value == json.end()) continue;
      if (value->is_string()) return checked(member, value->get<std::string>());
      if (value->is_number_integer()) return value->dump();
      bad(member, fmt::format("'{}': expected a name or a whole number, got {}", key, value->type_name()),
          "a photo has one label; several labels and bounding boxes are not read");
    }
    return std::nullopt;
  }
  std::string checked(const TarMember& member, std::string label) const {
    if (label.empty()) bad(member, "the label is empty", "a label is a name or a number");
    if (label.size() > kLongestLabel) bad(member, fmt::format("a label of {} bytes is too long", label.size()), "");
    const bool line = std::ranges::none_of(label, [](char c) { return static_cast<unsigned char>(c) < ' '; });
    if (!line || !is_utf8(label)) bad(member, "the label is not one line of text", "a label is a name or a number");
    return label;
  }

  static constexpr std::size_t kMostMembers = 64;

  const store::Store& store_;
  const store::Entry& shard_;
  bool with_labels_;
  store::BlobReader blob_;
  SampleFiles sample_;
  std::unordered_set<std::string> keys_;
  std::vector<ShardSample> samples_;
};

std::vector<ShardSample> all_samples(const StoredSplit& split, bool with_labels) {
  split.store->want(split.files);
  std::vector<std::vector<ShardSample>> of_shards(split.files.size());
  std::vector<std::exception_ptr> errors(split.files.size());
  split.store->pool().run(static_cast<std::int64_t>(split.files.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    try {
      of_shards[at] = ShardIndex(*split.store, split.files[at], with_labels).read();
    } catch (const Error&) {
      errors[at] = std::current_exception();
    }
  });
  std::vector<ShardSample> out;
  for (std::size_t i = 0; i < of_shards.size(); ++i) {
    if (errors[i]) std::rethrow_exception(errors[i]);  // of the first bad shard, whatever the threads
    std::ranges::move(of_shards[i], std::back_inserter(out));
  }
  if (out.empty()) fail(ErrorKind::kCorrupt, "{}: there is no sample in the shards", split.files.at(0).path);
  return out;
}

// The labels of the members, or the class folders if no sample has such a label.
std::vector<std::string> labels_of(std::vector<ShardSample>& samples) {
  const bool in_members =
      std::ranges::any_of(samples, [](const ShardSample& sample) { return sample.label.has_value(); });
  std::vector<std::string_view> names;
  if (!in_members)
    for (const ShardSample& sample : samples)
      names.push_back(std::string_view(sample.photo.path).substr(sample.name_at));
  const std::string root = in_members ? "" : folders_around(names);
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!in_members) samples[i].label = folder_at(names[i], root.size());
    if (!samples[i].label || samples[i].label->empty())
      throw Error(ErrorKind::kUsage, fmt::format("{}: the sample has no label", samples[i].photo.path),
                  "add a member .cls, .json with the key \"label\", or .txt; or put the photos into class folders");
    labels.push_back(std::move(*samples[i].label));
  }
  return labels;
}

}  // namespace

bool is_shard(std::string_view path) {
  return !stem_with(path, kShardEndings).empty() && !is_hidden(path);
}

std::string split_of_shard(std::string_view path) {
  std::string stem = stem_with(path, kShardEndings);
  for (;;) {
    if (const std::string split = split_named(stem); !split.empty()) return split;
    const std::size_t cut = stem.find_last_of("-_");
    const std::string word = stem.substr(cut + 1);
    if (cut == std::string::npos || (word != "of" && word.find_first_not_of("0123456789") != std::string::npos)) break;
    stem.resize(cut);
  }
  for (std::size_t begin = 0; !folder_at(path, begin).empty(); begin = path.find('/', begin) + 1)
    if (const std::string split = split_of_folder(folder_at(path, begin)); !split.empty()) return split;
  return "";
}

std::vector<formats::TarMember> photos_in_tar(const formats::TarRead& read, std::uint64_t size,
                                              const std::string& name) {
  const auto begin_of = [&](std::uint64_t at, std::uint64_t most) {
    Bytes begin(16);
    begin.resize(read(at, begin.data(), static_cast<std::size_t>(std::min<std::uint64_t>(most, begin.size()))));
    return begin;
  };
  refuse_compressed(begin_of(0, size), name);
  std::vector<TarMember> photos;
  formats::read_tar(read, size, name, [&](TarMember&& member) {
    if (is_hidden(member.name)) return;
    if (has_picture_name(member.name) || is_picture(begin_of(member.begin, member.size)))
      photos.push_back(std::move(member));
  });
  if (photos.empty()) fail(ErrorKind::kNotFound, "{}: there is no picture in this tar file", name);
  return photos;
}

std::vector<store::Entry> shards_below(const std::string& root, const Files& files) {
  std::vector<store::Entry> found;
  for (auto file = files.lower_bound(root); file != files.end() && file->first.starts_with(root); ++file)
    if (is_shard(file->first)) found.push_back(file->second);
  return found;
}

void find_shard_splits(const Files& files, Layout& layout) {
  const std::vector<store::Entry> shards = shards_below("", files);
  std::map<std::string, std::vector<store::Entry>> named;
  for (const store::Entry& shard : shards)
    if (const std::string split = split_of_shard(shard.path); !split.empty()) named[split].push_back(shard);
  if (named.empty()) named["train"] = shards;
  for (auto& [split, of_split] : named) layout.splits[split] = {&images_kind, std::move(of_split)};
}

LabelledPhotos samples_of(const StoredSplit& split, bool with_labels) {
  std::vector<ShardSample> samples = all_samples(split, with_labels);
  LabelledPhotos out;
  if (with_labels)
    out.labels = labels_of(samples);
  else
    out.labels.resize(samples.size());
  for (ShardSample& sample : samples) out.files.push_back(std::move(sample.photo));
  return out;
}

}  // namespace mlx::data
