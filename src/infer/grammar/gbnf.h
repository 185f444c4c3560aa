// Grammars in GBNF, the notation of llama.cpp: rules `name ::= …` with the first one named root; "text", [classes] with
// ranges and ^, `.`, names, groups, |, and * + ? {m} {m,} {m,n} behind any of them; comments from # on.
#pragma once

#include <string>
#include <string_view>

#include "infer/grammar/rules.h"

namespace mlx::infer::grammar {

// Throws kUsage: "WHAT:LINE: why".
Rules parse_gbnf(std::string_view source, const std::string& what);

}  // namespace mlx::infer::grammar
