// What a model's training data and predictions were like, kept with its version, in at most a few thousand bytes a
// column; and a window of later data, counted in the same cells. The same items in the same order give the same bytes.
// Used by drift.cpp and cmd/monitor.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json_fwd.h"
#include "data/quality/sketches.h"
#include "data/quality/statistics.h"

namespace mlx::monitor {

// What is compared: a column of the data ("age"), or what the model says of an item ("prediction", "confidence").
struct Column {
  std::string name;
  bool number = true;  // else a category
  bool prediction = false;
  bool operator==(const Column&) const = default;
};

// Cells of a column: of numbers those between `points`, of categories one for each of `values` and one for all others.
struct ColumnReference {
  static constexpr std::size_t kMostPoints = 512, kMostValues = 200;
  Column column;
  std::uint64_t missing = 0;
  std::vector<double> points;         // ascending, each once; the first is below all values
  std::vector<std::string> values;    // most frequent first
  std::vector<std::uint64_t> counts;  // points or values, and one
  std::uint64_t seen() const;         // items that have a value
  std::size_t cell_of(double number) const;
};

struct Reference {
  std::string data;         // "data/houses@v1:train"
  std::string predictions;  // the split that was predicted; "" for none
  std::vector<ColumnReference> columns;
};

constexpr const char* kReferenceFormat = "mlx.monitor.reference/1";
Json to_json(const Reference& reference);
Reference reference_from_json(const Json& json, const std::string& what);  // kCorrupt naming `what`

// Takes items: add() for each value of one, then next(). What is not added is missing.
class Items {
 public:
  virtual ~Items() = default;
  virtual void add(std::size_t column, double number) = 0;  // infinite ones and NaN are missing
  virtual void add(std::size_t column, std::string_view value) = 0;
  virtual void next() = 0;
};

// Makes a reference out of items.
class Recorder : public Items {
 public:
  explicit Recorder(std::vector<Column> columns);
  void add(std::size_t column, double number) override;
  void add(std::size_t column, std::string_view value) override;
  void next() override { ++items_; }
  std::vector<ColumnReference> finish() const;

 private:
  struct Sketch {
    data::Quantiles numbers;
    std::map<std::string, std::uint64_t, std::less<>> values;
    std::uint64_t seen = 0, others = 0;
  };
  std::vector<Column> columns_;
  std::vector<Sketch> sketches_;
  std::uint64_t items_ = 0;
};

// Later items, counted in the cells of a reference, which outlives the window.
class Window : public Items {
 public:
  explicit Window(const std::vector<ColumnReference>& columns);
  void add(std::size_t column, double number) override;
  void add(std::size_t column, std::string_view value) override;
  void next() override { ++items_; }
  void clear();

  std::uint64_t items() const { return items_; }
  const std::vector<std::uint64_t>& counts(std::size_t column) const { return cells_[column].counts; }
  std::uint64_t missing(std::size_t column) const { return items_ - cells_[column].seen; }
  // Values of a category that the reference has not, the first ones that came.
  const std::vector<std::string>& unknown(std::size_t column) const { return cells_[column].unknown; }

 private:
  static constexpr std::size_t kMostUnknown = 10;
  struct Cells {
    std::vector<std::uint64_t> counts;
    std::vector<std::string> unknown;
    std::unordered_map<std::string, std::size_t> places;  // of values
    std::uint64_t seen = 0;
  };
  const std::vector<ColumnReference>& columns_;
  std::vector<Cells> cells_;
  std::uint64_t items_ = 0;
};

}  // namespace mlx::monitor
