// What a model was trained on, to be compared with: kept with its version, or else measured. Used by `mlx monitor` and
// `mlx serve --monitor`.
#pragma once

#include <string>

#include "cmd/cli/cli.h"
#include "cmd/data_subject.h"
#include "data/dataset.h"
#include "infer/model.h"
#include "monitor/observe.h"
#include "monitor/reference.h"
#include "registry/versions/artifacts.h"

namespace mlx::cmd {

// How data is read to be looked at: as the model reads it, but missing values are no errors.
data::Reading lenient_reading(const infer::Model& model);
// Shows the items of a split to `to`; returns what they are called.
std::string observe_split(const infer::Model& model, const DataSubject& subject, const std::string& split,
                          monitor::Parts parts, monitor::Items& to, Context& context);
// `again`: measured in any case. kUsage where it is not known what the model was trained on.
monitor::Reference training_reference(const infer::Model& model, const registry::Version& version, bool again,
                                      Context& context);

}  // namespace mlx::cmd
