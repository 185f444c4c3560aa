// Declares Json without the cost of its definition (base/json.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace mlx {
using Json = nlohmann::ordered_json;
}
