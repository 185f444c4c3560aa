// Short names for the readers of src/data that comparisons use: sources of bytes and tables.
#pragma once

#include "data/readers/source.h"
#include "data/readers/table.h"

namespace mlx::diff {

using data::OpenSource;
using data::Source;
using data::SourceDamaged;

using data::disk_source;
using data::inflated;
using data::memory_source;
using data::read_head;
using data::stored_source;

using data::Cell;
using data::Row;
using data::TableKind;
using data::TableReader;
using data::ValueType;

using data::read_table;
using data::table_kind;

}  // namespace mlx::diff
