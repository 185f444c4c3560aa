// Reads and prints records of quantization (quantization_text.h).
#include "cmd/quantization_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/text.h"
#include "cmd/describe.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

constexpr const char* kWhat = "quantization";

std::string split_of(Context& context, const Json& text) {
  return split_text(context.repository(), Digest::parse(json_string(text, "data", kWhat)),
                    json_string(text, "split", kWhat));
}

// "12 int4, 2 int8, 1 stored"
std::string types_text(const Json& layers) {
  std::map<std::string, int> counts;
  for (const Json& layer : layers) ++counts[printable(json_string(layer, "type", kWhat))];
  std::string text;
  for (const auto& [type, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, type);
  return text;
}

std::string errors_text(const Json& layers) {
  double sum = 0, largest = -1;
  std::string worst;
  for (const Json& layer : layers) {
    const double error = json_number(layer, "error", kWhat);
    sum += error;
    if (error > largest) largest = error, worst = printable(json_string(layer, "name", kWhat));
  }
  return fmt::format("mean {:.4f}, largest {:.4f} of {}", sum / static_cast<double>(layers.size()), largest, worst);
}

void print_table(Context& context, const Json& layers) {
  std::size_t width = 5;
  for (const Json& layer : layers) width = std::max(width, json_string(layer, "name", kWhat).size());
  const bool gains = layers[0].contains("gain");
  context.line("");
  context.line(context.dim(fmt::format("  {:<{}}  type     error{}", "layer", width, gains ? "      KL gain" : "")));
  for (const Json& layer : layers) {
    std::string line = fmt::format("  {:<{}}  {:<6}  {:.4f}", printable(json_string(layer, "name", kWhat)), width,
                                   printable(json_string(layer, "type", kWhat)), json_number(layer, "error", kWhat));
    if (layer.contains("gain")) line += fmt::format("  {:>11.3g}", json_number(layer, "gain", kWhat));
    context.line(line);
  }
}

}  // namespace

void print_quantization(Context& context, const Json& record, bool layers) {
  const Json& calibrated = json_object(record, "calibrated_on", kWhat);
  const Json& measured = json_object(record, "measured_on", kWhat);
  const Json& list = json_array(record, "layers", kWhat);
  context.line(fmt::format("  perplexity {:.5g} -> {:.5g} ({:+.2f} %), KL divergence {:.3g}, top-1 agreement {:.2f} %",
                           json_number(record, "perplexity_before", kWhat), json_number(record, "perplexity", kWhat),
                           100 * json_number(record, "perplexity_rise", kWhat),
                           json_number(record, "kl_divergence", kWhat),
                           100 * json_number(record, "top1_agreement", kWhat)));
  context.line(fmt::format("  measured on {} tokens of {}; {} calibrated on {} windows of {} of {}",
                           json_int(measured, "tokens", kWhat), split_of(context, measured),
                           printable(json_string(record, "method", kWhat)), json_int(calibrated, "windows", kWhat),
                           json_int(calibrated, "window", kWhat), split_of(context, calibrated)));
  if (list.empty()) return;
  const std::string groups =
      record.contains("group") ? fmt::format(" in groups of {}", json_int(record, "group", kWhat)) : "";
  context.line(fmt::format("  layers: {}{}; error of the output {}", types_text(list), groups, errors_text(list)));
  if (layers) print_table(context, list);
}

Json quantizations_of(registry::Repository& repository, const registry::Version& version) {
  std::vector<registry::Attachment> attached = registry::attachments(repository, version.digest, kWhat);
  std::ranges::stable_sort(attached, {}, &registry::Attachment::time);
  Json out = Json::array();
  for (const registry::Attachment& attachment : attached)
    if (repository.store().has_blob(attachment.blob))
      out.push_back(parse_json(as_text(repository.store().read_blob(attachment.blob)), kWhat));
  return out;
}

}  // namespace mlx::cmd
