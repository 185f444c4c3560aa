// Short names for the readers of src/data that comparisons use: sources of bytes and tables.
#pragma once

#include "data/readers/source.h"
#include "data/readers/table_format.h"

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

using data::find_table;
using data::FoundTable;
using data::read_table;
using data::table_format;
using data::table_kind;
using data::text_of;
using data::type_of;

}  // namespace mlx::diff
