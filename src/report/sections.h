// The parts of a report, each a function from facts to HTML; "" for an empty part. Used by report.cpp.
#pragma once

#include <string>

#include "report/facts.h"

namespace mlx::report {

std::string header(const Facts& facts);
std::string tiles(const Facts& facts);
std::string training_section(const Facts& facts);  // sections_training.cpp
std::string ranks_part(const Facts& facts);        // of that section; sections_ranks.cpp
std::string evaluation_section(const Facts& facts);
std::string quantization_section(const Facts& facts);
std::string lineage_section(const Facts& facts);
std::string environment_section(const Facts& facts);
std::string reproduction_section(const Facts& facts);

}  // namespace mlx::report
