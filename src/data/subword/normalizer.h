// Normalisers: what is done to text before it is cut, as tokenizer.json names them. Used by pipeline.h; made by
// tokenizer_json.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "data/subword/aligned_text.h"

namespace mlx::data::subword {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // True if this is quickly seen to change nothing.
  virtual bool keeps(std::string_view /*text*/) const { return false; }
  // `begins`: this is the beginning of a text, not a later part of it.
  virtual void apply(AlignedText& text, bool begins) const = 0;
};
using NormalizerPtr = std::unique_ptr<const Normalizer>;

// Throws kCorrupt, naming `what` and the key; kUsage for kinds that are not known. Null for null.
NormalizerPtr make_normalizer(const Json& json, const std::string& what);

}  // namespace mlx::data::subword
