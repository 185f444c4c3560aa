// The page: facts first, then the sections in reading order.
#include "report/report.h"

#include "report/facts.h"
#include "report/html.h"
#include "report/sections.h"

namespace mlx::report {

std::string html_report(registry::Repository& repository, const std::string& reference) {
  const Facts facts = gather(repository, reference);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n";
  out += "<title>" + escape(facts.model.version.name()) + " · mlx report</title>\n<style>" + kStyle +
         "</style>\n</head>\n<body>\n<main>\n";
  out += header(facts);
  out += tiles(facts);
  out += quantization_section(facts);
  out += training_section(facts);
  out += evaluation_section(facts);
  out += lineage_section(facts);
  out += environment_section(facts);
  out += reproduction_section(facts);
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace mlx::report
