// The `pattern` of a JSON schema, a regular expression of ECMA 262, as a grammar of the strings that match it, written
// as in JSON. Used by json_schema.cpp.
//
// What is known: characters and escapes, classes, `.`, groups, |, * + ? {m,n} and their lazy forms, ^ and $ at the ends
// of alternatives. Look-around, back references, \b and \p are refused by name.
#pragma once

#include <string>
#include <string_view>

#include "infer/grammar/rules.h"

namespace mlx::infer::grammar {

// The characters between the quotes. Throws kUsage: "WHAT: the pattern '…': why".
Expression matching(std::string_view pattern, const std::string& what);

}  // namespace mlx::infer::grammar
