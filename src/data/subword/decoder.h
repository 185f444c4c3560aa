// From tokens back to text, as tokenizer.json says. Used by pipeline.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::data::subword {

class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // Rewrites the names of tokens; their concatenation is the text.
  virtual void apply(std::vector<std::string>& names) const = 0;
  // What the token's name becomes somewhere inside of a text.
  virtual void apply_inside(std::string& /*name*/) const {}
};

class Decoder {
 public:
  Decoder() = default;
  // Throws kCorrupt, naming `what` and the key; kUsage for kinds that are not known.
  Decoder(const Json& json, const std::string& what);
  std::string decode(std::vector<std::string> names) const;
  std::string inside(std::string name) const;

 private:
  void add(const Json& json, const std::string& what);
  std::vector<std::unique_ptr<const DecoderStep>> steps_;
  bool given_ = false;  // without one, names are joined with blanks
};

}  // namespace mlx::data::subword
