// JSON schemas as grammars of the JSON texts that they describe. What a schema means is that of draft 2020-12; where a
// grammar can describe only a part of the texts, it is a part: what is written always holds.
//
// Members are written in the order of `properties`. What no grammar can tell, or is not supported, is refused by its
// name: nothing is silently left out.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "infer/grammar/rules.h"

namespace mlx::infer::grammar {

// Throws kUsage: "WHAT: /properties/a: why".
Rules schema_rules(const Json& schema, const std::string& what);
// The same for a text; kUsage for what is no JSON, too.
Rules parse_schema(std::string_view source, const std::string& what);

}  // namespace mlx::infer::grammar
