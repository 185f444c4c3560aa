// Splits of every kind by one interface.

#include "data/split.h"

#include <algorithm>

namespace mlx::data {

const char* input_name(Kind kind) {
  switch (kind) {
    case Kind::kImages:
      return "images";
    case Kind::kFeatures:
      return "features";
    case Kind::kTokens:
      return "ids";
  }
  return "?";
}

const char* target_name(TargetKind targets) {
  return targets == TargetKind::kClass || targets == TargetKind::kTokens ? "labels" : "targets";
}

const char* unit_name(Kind kind) {
  switch (kind) {
    case Kind::kImages:
      return "images";
    case Kind::kFeatures:
      return "rows";
    case Kind::kTokens:
      return "tokens";
  }
  return "?";
}

Description describe(const Examples& examples) {
  Description out;
  out.count = examples.count;
  out.height = examples.height;
  out.width = examples.width;
  out.channels = examples.channels;
  out.outputs = examples.classes;
  out.names = examples.class_names;
  return out;
}

Split as_split(Examples examples) {
  return {describe(examples), std::move(examples)};
}

Description describe(const store::Store& store, const Digest& manifest, const std::string& split) {
  return describe(describe_split(store, manifest, split));
}

Split load(const store::Store& store, const Digest& manifest, const std::string& split, Progress& progress) {
  return as_split(load_split(store, manifest, split, progress));
}

Split pick(const Split& from, const std::vector<std::int64_t>& indices) {
  const Examples& all = from.images;
  Examples out;
  out.count = static_cast<std::int64_t>(indices.size());
  out.height = all.height;
  out.width = all.width;
  out.channels = all.channels;
  out.classes = all.classes;
  out.class_names = all.class_names;
  const auto image = static_cast<std::size_t>(all.height * all.width * all.channels);
  out.pixels.resize(indices.size() * image);
  out.labels.resize(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<std::size_t>(indices[i]);
    std::copy_n(all.pixels.begin() + static_cast<std::ptrdiff_t>(at * image), image,
                out.pixels.begin() + static_cast<std::ptrdiff_t>(i * image));
    out.labels[i] = all.labels[at];
  }
  return as_split(std::move(out));
}

}  // namespace mlx::data
