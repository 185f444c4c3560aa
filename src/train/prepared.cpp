// Reads the description of the data, builds the model for it, and settles what the config left open.
#include "train/prepared.h"

#include <memory>
#include <utility>

#include "train/build_model.h"
#include "train/trainer.h"

namespace mlx::train {

Prepared prepare(const store::Store& store, const Digest& dataset, TrainConfig config, const nn::Model* base,
                 kernels::Backend backend, Progress& progress) {
  Prepared out;
  out.config = std::move(config);
  TrainConfig& c = out.config;
  // Columns and tokens must mean what they meant when the base's weights were trained.
  if (base) c.reading.base = std::make_shared<data::Preprocessing>(base->preprocessing);
  out.data = data::describe(store, dataset, c.train_split, c.reading);
  for (const std::string& warning : out.data.table.warnings) progress.warn(warning);
  c.reading.photos.libraries = out.data.photos.libraries;
  out.built = build_model(c, out.data, base);
  std::int64_t examples = 0;
  if (!c.batch_given) {
    examples = data::training_examples(store, dataset, c.train_split, c.reading, out.data, c.hold_out,
                                       out.built.context, kEnoughExamples);
  }
  settle(c, *out.data.kind, examples);
  c.precision = name_of(precision_of(c, out.data, backend));
  return out;
}

work::Work work_of(const Prepared& prepared, const Digest& dataset, kernels::Backend backend) {
  work::Work work;
  work.command = "train";
  work.inputs = {{"data", dataset}};
  work.params = resolved(prepared.config, prepared.built);
  work.numerics = numerics_of(backend, prepared.config.portable);
  work.makes = {prepared.config.name};
  return work;
}

}  // namespace mlx::train
