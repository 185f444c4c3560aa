// A split's items in order, whatever its kind: a row of a table as its cells, an image as its class, brightness and
// contrast, a line of text as text and words. Statistics, rules and searches for duplicates (quality/) see these
// observations alone. A kind's row (kind.h) says how its items are observed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "data/images/look.h"
#include "data/near.h"
#include "data/readers/table.h"
#include "data/splits.h"

namespace mlx::data {

struct ObservedField {
  std::uint32_t column = 0;
  ValueType type = ValueType::kText;  // never kNull: missing values are no fields
  double number = 0;                  // of kInt and kFloat
  std::string_view text;              // trimmed; until the next observation
};

struct Observation {
  std::uint64_t place = 0;  // of a row its offset, of an image its index, of a line its number less 1
  const std::vector<ObservedField>* fields = nullptr;
  const std::vector<std::string>* columns = nullptr;  // their names; more may follow
  std::uint64_t hash = 0;      // the same for items that are equal; 0 where equal items mean nothing (short lines)
  NearHashes near{};           // of a row or line
  const Look* look = nullptr;  // of an image
};
using Observe = std::function<void(const Observation&)>;

struct ScanFacts {
  std::vector<std::string> columns;
  std::vector<std::string> files;
  // Why photos or documents that no training takes are not among the items, the first of them; and how many there are.
  std::vector<std::string> unread;
  std::uint64_t unread_count = 0;
  const char* unread_word = nullptr;   // what they are, if not ItemScan::source_word: "sound"
  std::uint64_t items = 0, bytes = 0;  // bytes: as stored
  std::string found_out;               // TableReader::found_out()
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::array<std::uint64_t, 256>> pixel_values;  // of images: how often each occurs, by channel
};

struct ItemScan {
  const char* unit = "";         // what is counted: "images", "rows", "lines"
  const char* place_word = "";   // what a place is called: "image", "line"
  const char* source_word = "";  // what ScanFacts::unread is about: "photo", "document"
  // Shows each item of the split to `observe`, and fills in the facts. Reads the data once.
  void (*run)(const StoredSplit& split, const Observe& observe, ScanFacts& facts, Progress& progress) = nullptr;
  // The numbers of places as people count them, in the order of `places`; null if places are such numbers.
  std::vector<std::uint64_t> (*numbers)(const StoredSplit& split, std::vector<std::uint64_t> places) = nullptr;
};

}  // namespace mlx::data
