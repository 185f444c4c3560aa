// The page: facts first, then the sections in reading order.
#include "report/report.h"

#include "report/facts.h"
#include "report/html.h"
#include "report/sections.h"

namespace mlx::report {

std::string html_report(registry::Repository& repository, const std::string& reference) {
  const Facts facts = gather(repository, reference);
  std::string out = page_head(facts.model.version.name() + " · mlx report");
  out += header(facts);
  out += tiles(facts);
  out += quantization_section(facts);
  out += training_section(facts);
  out += evaluation_section(facts);
  out += lineage_section(facts);
  out += environment_section(facts);
  out += reproduction_section(facts);
  return out + page_end();
}

}  // namespace mlx::report
