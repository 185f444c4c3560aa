// mlx predict for models of images: a label and its probability for each.
#include <fmt/format.h>

#include <span>

#include "base/error.h"
#include "cmd/cli/standard_input.h"
#include "cmd/predictions.h"
#include "data/images/image_files.h"
#include "data/kinds/images.h"
#include "infer/answers.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

// The images of one file or of one split of a dataset.
struct Source {
  std::string name;
  data::IdxImages images;
  std::string name_of(std::int64_t i) const { return images.count == 1 ? name : fmt::format("{}[{}]", name, i); }
};

Source read_source(const std::string& word, const PredictOptions& options, Context& context) {
  const PredictSource source = find_source(word, context);
  if (source.is_file()) return {word, data::read_image_file(source.path, context.progress())};
  const registry::Version& version = source.dataset;
  data::Images images =
      data::load_images(context.repository().store(), version.digest, options.split, context.progress());
  return {fmt::format("{}:{}", version.name(), options.split),
          {images.count, images.height, images.width, images.channels, std::move(images.pixels)}};
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
  const data::Preprocessing& p = inputs.model.about().preprocessing;
  const data::IdxImages& images = source.images;
  if (images.height == p.height && images.width == p.width && images.channels == p.channels) return;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{}: {}x{}x{}, but {} takes images of {}x{}x{} (height, width, channels)", source.name, images.height,
                  images.width, images.channels, inputs.version.name(), p.height, p.width, p.channels),
      "scale it first, or train on images of this size");
}

}  // namespace

int predict_images(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  if (options.inputs.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("{} classifies images: name some", inputs.version.name()),
                "files (PGM, PPM, IDX), a dataset with --split, or - for a list of files on standard input");
  }
  Predictions predictions("image", options, inputs, context);
  std::vector<Source> sources;
  sources.reserve(options.inputs.size());
  for (const std::string& word : expanded(options.inputs, context)) {
    sources.push_back(read_source(word, options, context));
    check_size(sources.back(), inputs);
  }
  infer::Session session(inputs.model);
  const auto classes = static_cast<std::size_t>(inputs.model.signature().width());
  for (const Source& source : sources) {
    const infer::Answers answers = infer::answer_images(session, source.images.pixels, context.progress());
    for (std::int64_t i = 0; i < answers.count; ++i) {
      const std::span<const double> probabilities(answers.values.data() + static_cast<std::size_t>(i) * classes,
                                                  classes);
      predictions.look_at(probabilities);
      predictions.add(source.name_of(i), rank_classes(probabilities, options.top));
    }
  }
  predictions.finish();
  return 0;
}

}  // namespace mlx::cmd
