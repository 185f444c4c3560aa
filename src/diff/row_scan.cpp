// Streams rows and keeps 32 bytes of each.
#include "diff/row_scan.h"

#include <algorithm>

namespace mlx::diff {
namespace {

// What each column of a reader is for; found by name once, when the column first turns up.
class Roles {
 public:
  Roles(const TableReader& reader, const RowPlan& plan) : reader_(reader), plan_(plan) {}

  struct Role {
    Hash128 secret;
    bool key = false, compared = false;
  };
  const Role& of(std::uint32_t column) {
    while (roles_.size() <= column) {
      const std::string& name = reader_.columns()[roles_.size()];
      Role role;
      role.secret = sip_hash(plan_.secret, name);
      role.compared = std::ranges::find(plan_.ignored, name) == plan_.ignored.end();
      role.key = plan_.key.empty() ? role.compared : std::ranges::find(plan_.key, name) != plan_.key.end();
      roles_.push_back(role);
    }
    return roles_[column];
  }

 private:
  const TableReader& reader_;
  const RowPlan& plan_;
  std::vector<Role> roles_;
};

}  // namespace

const Column* TableShape::find(std::string_view name) const {
  const auto found = std::ranges::find(columns, name, &Column::name);
  return found == columns.end() ? nullptr : &*found;
}

TableShape scan_table(const OpenSource& open, TableKind kind) {
  const std::unique_ptr<TableReader> reader = read_table(open(), kind);
  const ValueType widest = kind == TableKind::kJsonLines ? ValueType::kMixed : ValueType::kText;
  TableShape shape;
  Row row;
  std::vector<Column>& columns = shape.columns;
  const auto grow = [&] {
    while (columns.size() < reader->columns().size()) columns.push_back({reader->columns()[columns.size()]});
  };
  grow();
  while (reader->next(row)) {
    ++shape.rows;
    grow();
    for (const Cell& cell : row.cells) {
      Column& column = columns[cell.column];
      ++column.present;
      if (column.type != widest) column.type = join(column.type, type_of(cell, kind), kind);
    }
  }
  return shape;
}

std::vector<RowRecord> scan_rows(const OpenSource& open, TableKind kind, const RowPlan& plan, std::uint64_t part,
                                 std::uint64_t parts) {
  const std::unique_ptr<TableReader> reader = read_table(open(), kind);
  Roles roles(*reader, plan);
  std::vector<RowRecord> records;
  std::string buffer;
  Row row;
  while (reader->next(row)) {
    RowRecord record;
    record.offset = row.offset;
    for (const Cell& cell : row.cells) {
      const Roles::Role& role = roles.of(cell.column);
      if (!role.key && !role.compared) continue;
      const Hash128 hash = sip_hash(role.secret, text_of(cell, buffer));
      if (role.key) record.key += hash;
      if (role.compared) record.content += hash.low;
    }
    if (record.key.high % parts == part) records.push_back(record);
  }
  std::ranges::sort(records, [](const RowRecord& a, const RowRecord& b) {
    return a.key != b.key ? a.key < b.key : a.offset < b.offset;
  });
  return records;
}

}  // namespace mlx::diff
