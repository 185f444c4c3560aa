// A split's items in order, whatever its kind: a row of a table as its cells, an image as its class, brightness and
// contrast, a line of text as text and words. Statistics, rules and searches for duplicates see these observations
// alone, so a new kind of data is one more function here. Reads the data once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "data/images/look.h"
#include "data/near.h"
#include "data/quality/sketches.h"
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

struct ScanFacts {
  std::vector<std::string> columns;
  std::vector<std::string> files;
  std::vector<std::string> unread;     // why each photo that cannot be read is not among `files` and the items
  std::uint64_t items = 0, bytes = 0;  // bytes: as stored
  std::string found_out;               // TableReader::found_out()
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<Moments> channel_moments;  // of the images' pixels, from 0 to 1
};

ScanFacts scan(const StoredSplit& split, const std::function<void(const Observation&)>& see, Progress& progress);

// What a place is called: {"line", 12} of a file, {"image", 3}.
const char* place_word(const Kind& kind);
// The numbers of places as people count them: lines from 1, images from 0. `places` may be in any order.
std::vector<std::uint64_t> numbers_of(const StoredSplit& split, std::vector<std::uint64_t> places);

}  // namespace mlx::data
