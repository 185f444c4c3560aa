// The names of a vocabulary's tokens, and the models that are made of them. Used by tokenizer_json.h.
#pragma once

#include <string>
#include <vector>

#include "data/subword/document.h"
#include "data/subword/model.h"
#include "data/subword/string_table.h"

namespace mlx::data::subword {

struct Vocabulary {
  std::vector<std::string> names;  // by token
  StringTable tokens;              // by name
};

struct NamedModel {
  std::string kind;
  Vocabulary vocabulary;
  ModelPtr model;
  bool byte_fallback = false;
};

// The "model" of a tokenizer.json. `bytes`: names are written in the alphabet of bytes.
NamedModel read_model(const Document& document, bool bytes, const std::string& what);

}  // namespace mlx::data::subword
