// Statistics as JSON. One list of fields a struct serves both directions.

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/quality/statistics.h"

namespace mlx::data {
namespace {

template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, Outlier> {
  v("number", s.number), v("value", s.value), v("score", s.score);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, ValueCount> {
  v("value", s.value), v("count", s.count);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, ColumnStatistics> {
  v("name", s.name), v("type", s.type), v("count", s.count), v("missing", s.missing);
  v("numbers", s.numbers), v("min", s.low), v("max", s.high), v("mean", s.mean), v("std", s.std);
  v("percentiles", s.percentiles), v("histogram", s.histogram);
  v("outliers", s.outliers), v("outlier_examples", s.outlier_examples);
  v("distinct", s.distinct), v("distinct_exact", s.distinct_exact), v("top", s.top), v("top_exact", s.top_exact);
  v("top_whole", s.top_whole), v("rarest", s.rarest);
  v("shortest", s.shortest), v("longest", s.longest), v("mean_length", s.mean_length);
  v("earliest", s.earliest), v("latest", s.latest), v("personal", s.personal);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, Association> {
  v("a", s.a), v("b", s.b), v("strength", s.strength), v("measure", s.measure);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, TargetGroup> {
  v("column", s.column), v("group", s.group), v("count", s.count), v("mean", s.mean), v("classes", s.classes);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, Duplicates> {
  v("items", s.items), v("examples", s.examples);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, SplitStatistics> {
  v("kind", s.kind), v("unit", s.unit), v("place", s.place_word), v("found_out", s.found_out), v("files", s.files);
  v("unread", s.unread), v("unread_count", s.unread_count), v("source_word", s.source_word);
  v("items", s.items), v("bytes", s.bytes), v("height", s.height), v("width", s.width), v("channels", s.channels);
  v("channel_mean", s.channel_mean), v("channel_std", s.channel_std), v("columns", s.columns), v("target", s.target),
      v("classes", s.classes);
  v("correlations", s.correlations), v("with_target", s.with_target), v("groups", s.groups);
  v("duplicates", s.equal), v("near_duplicates", s.alike);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, Leak> {
  v("from", s.from), v("to", s.to), v("equal", s.equal), v("alike", s.alike), v("equal_share", s.equal_share);
  v("alike_share", s.alike_share), v("examples", s.examples), v("alike_examples", s.alike_examples);
}
template <typename Visit, typename T>
void each_field(Visit& v, T& s) requires std::is_same_v<std::remove_const_t<T>, Statistics> {
  v("splits", s.splits), v("leaks", s.leaks);
}

struct FieldWriter {
  Json json = Json::object();
  template <typename T>
  void operator()(const char* key, const T& value) {
    json[key] = written(value);
  }
  template <typename T>
  static Json written(const T& value) {
    if constexpr (requires(FieldWriter v) { each_field(v, value); }) {
      FieldWriter inner;
      each_field(inner, value);
      return inner.json;
    } else {
      return Json(value);
    }
  }
  template <typename T>
  static Json written(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(written(value));
    return list;
  }
  template <typename T>
  static Json written(const std::map<std::string, T>& values) {
    Json object = Json::object();
    for (const auto& [key, value] : values) object[key] = written(value);
    return object;
  }
};

struct FieldReader {
  const Json& json;
  template <typename T>
  void operator()(const char* key, T& value) {
    read(json.at(key), value);
  }
  template <typename T>
  static void read(const Json& from, T& value) {
    if constexpr (requires(FieldReader v) { each_field(v, value); }) {
      FieldReader inner{from};
      each_field(inner, value);
    } else {
      from.get_to(value);
    }
  }
  template <typename T>
  static void read(const Json& from, std::vector<T>& values) {
    for (const Json& each : from) read(each, values.emplace_back());
  }
  template <typename T>
  static void read(const Json& from, std::map<std::string, T>& values) {
    for (const auto& [key, each] : from.items()) read(each, values[key]);
  }
};

}  // namespace

Json to_json(const Statistics& statistics) {
  return FieldWriter::written(statistics);
}

Statistics statistics_from_json(const Json& json, const std::string& what) try {
  Statistics statistics;
  FieldReader::read(json, statistics);
  return statistics;
} catch (const nlohmann::json::exception& error) {
  fail(ErrorKind::kCorrupt, "{}: {}", what, error.what());
}

const ColumnStatistics* SplitStatistics::column(const std::string& name) const {
  for (const ColumnStatistics& each : columns)
    if (each.name == name) return &each;
  return nullptr;
}

std::string SplitStatistics::place(std::uint64_t number) const {
  if (names_items() && number < files.size()) return printable(files[static_cast<std::size_t>(number)]);
  return fmt::format("{} {}", place_word, number);
}

}  // namespace mlx::data
