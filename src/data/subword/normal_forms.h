// Unicode normalisation (UAX 15): NFC, NFD, NFKC, NFKD. Used by normalizer.h.
#pragma once

#include <string_view>
#include <vector>

#include "data/subword/aligned_text.h"
#include "data/subword/unicode.h"

namespace mlx::data::subword {

// True if the text is known to be in the form, from properties of its characters alone.
bool is_in_form(NormalForm form, std::string_view text);
// The characters of the text's form, and which of the text's they replace.
std::vector<Changed> to_form(NormalForm form, std::string_view text);

}  // namespace mlx::data::subword
