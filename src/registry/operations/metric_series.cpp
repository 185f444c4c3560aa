// Metric series as bytes and as rows.
#include "registry/operations/metric_series.h"

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "base/error.h"

namespace mlx::registry {
namespace {

constexpr std::string_view kSeriesMagic("MLXMETR\0", 8);
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMaxName = 256;
constexpr std::uint64_t kNan = 0x7ff8000000000000;

std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

// Unsigned arithmetic wraps, so that any two times have a difference.
std::int64_t difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

void write_deltas(ByteWriter& out, std::span<const MetricPoint> points, std::int64_t MetricPoint::*field) {
  std::int64_t before = 0;
  for (const MetricPoint& point : points) {
    out.varint(zigzag(difference(point.*field, before)));
    before = point.*field;
  }
}

void read_deltas(ByteReader& in, std::span<MetricPoint> points, std::int64_t MetricPoint::*field) {
  std::int64_t value = 0;
  for (MetricPoint& point : points) point.*field = value = sum(value, unzigzag(in.varint()));
}

std::size_t series_end(const std::vector<MetricPoint>& points, std::size_t begin) {
  std::size_t end = begin;
  while (end < points.size() && points[end].name == points[begin].name) ++end;
  return end;
}

void read_one_series(ByteReader& in, std::vector<MetricPoint>& points) {
  const std::string name(as_text(in.sized()));
  if (name.empty() || name.size() > kMaxName || !is_utf8(name)) in.corrupt("not the name of a series");
  if (!points.empty() && points.back().name >= name) in.corrupt("series are not sorted by name");
  const std::uint64_t count = in.varint();
  // A point takes at least ten bytes, so a false count is found before memory is allocated for it.
  if (count == 0 || count > in.left() / 10) in.corrupt("more points than bytes");
  const std::size_t begin = points.size();
  points.resize(begin + count, MetricPoint{.name = name});
  const std::span<MetricPoint> series(points.data() + begin, count);
  read_deltas(in, series, &MetricPoint::step);
  read_deltas(in, series, &MetricPoint::time);
  for (MetricPoint& point : series) point.value = std::bit_cast<double>(in.u64());
  for (std::size_t i = 1; i < series.size(); ++i) {
    if (series[i].step <= series[i - 1].step) in.corrupt("steps do not increase");
  }
}

}  // namespace

Bytes encode_series(const std::vector<MetricPoint>& sorted) {
  std::vector<std::span<const MetricPoint>> series;
  for (std::size_t begin = 0; begin < sorted.size();) {
    const std::size_t end = series_end(sorted, begin);
    series.emplace_back(sorted.data() + begin, end - begin);
    begin = end;
  }
  ByteWriter out;
  out.raw(as_bytes(kSeriesMagic));
  out.u32(kVersion);
  out.varint(series.size());
  for (const auto& points : series) {
    out.sized(as_bytes(points.front().name));
    out.varint(points.size());
    write_deltas(out, points, &MetricPoint::step);
    write_deltas(out, points, &MetricPoint::time);
    for (const MetricPoint& point : points) {
      out.u64(std::isnan(point.value) ? kNan : std::bit_cast<std::uint64_t>(point.value));
    }
  }
  return out.take();
}

std::vector<MetricPoint> decode_series(ByteView bytes, const std::string& what) {
  ByteReader in(bytes, what);
  if (as_text(in.take(kSeriesMagic.size())) != kSeriesMagic) in.corrupt("not a metric series (wrong magic)");
  const std::uint32_t version = in.u32();
  if (version != kVersion) in.corrupt(fmt::format("has version {}, this mlx reads {}", version, kVersion));
  std::vector<MetricPoint> points;
  for (std::uint64_t left = in.varint(); left > 0; --left) read_one_series(in, points);
  in.expect_end();
  return points;
}

void insert_points(store::Database& db, const std::string& run, const std::vector<MetricPoint>& points) {
  store::Statement make = db.prepare("INSERT OR IGNORE INTO metric_series (run, name) VALUES (?, ?)");
  store::Statement find = db.prepare("SELECT id FROM metric_series WHERE run = ? AND name = ?");
  store::Statement insert =
      db.prepare("INSERT OR REPLACE INTO metrics (series, step, value, time) VALUES (?, ?, ?, ?)");
  std::map<std::string, std::int64_t, std::less<>> known;  // names alternate from point to point
  for (const MetricPoint& point : points) {
    auto series = known.find(point.name);
    if (series == known.end()) {
      const std::string& name = point.name;
      if (name.empty() || name.size() > kMaxName || !is_utf8(name)) {
        fail(ErrorKind::kUsage, "run {}: a metric's name has 1 to {} bytes of UTF-8", run, kMaxName);
      }
      make.bind(run, name).run();
      find.bind(run, name).step();
      series = known.emplace(name, find.int64(0)).first;
      find.reset();
    }
    insert
        .bind(series->second, point.step, std::isnan(point.value) ? std::nullopt : std::optional(point.value),
              point.time)
        .run();
  }
}

std::vector<MetricPoint> select_points(store::Database& db, const std::string& run) {
  store::Statement select = db.prepare(
      "SELECT s.name, m.step, m.value, m.time FROM metric_series s JOIN metrics m ON m.series = s.id WHERE s.run = ?"
      " ORDER BY s.name, m.step");
  std::vector<MetricPoint> points;
  select.bind(run);
  while (select.step()) {
    const double value = select.null(2) ? std::numeric_limits<double>::quiet_NaN() : select.real(2);
    points.push_back({.step = select.int64(1), .name = select.text(0), .value = value, .time = select.int64(3)});
  }
  return points;
}

std::int64_t count_points(store::Database& db, const std::string& run) {
  store::Statement count =
      db.prepare("SELECT count(*) FROM metric_series s JOIN metrics m ON m.series = s.id WHERE s.run = ?");
  return count.bind(run).step() ? count.int64(0) : 0;
}

void delete_points_after(store::Database& db, const std::string& run, std::int64_t step) {
  db.prepare("DELETE FROM metrics WHERE series IN (SELECT id FROM metric_series WHERE run = ?) AND step > ?")
      .bind(run, step)
      .run();
}

void delete_points(store::Database& db, const std::string& run) {
  db.prepare("DELETE FROM metrics WHERE series IN (SELECT id FROM metric_series WHERE run = ?)").bind(run).run();
  db.prepare("DELETE FROM metric_series WHERE run = ?").bind(run).run();
}

}  // namespace mlx::registry
