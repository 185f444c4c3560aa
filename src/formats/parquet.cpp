// A reader of Thrift's compact protocol, and the structures of parquet.thrift that a reader of flat tables needs.
#include "formats/parquet.h"

#include <utility>

#include "base/error.h"

namespace mlx::formats {
namespace {

constexpr int kDeepestNesting = 32;
constexpr std::size_t kMostColumns = 65536, kMostGroups = 1 << 20;

enum Wire : int { kStop, kTrue, kFalse, kByte, kI16, kI32, kI64, kDouble, kBinary, kList, kSet, kMap, kStruct };

[[noreturn]] void damaged(const char* why) {
  fail(ErrorKind::kCorrupt, "parquet: {}", why);
}

class Thrift {
 public:
  explicit Thrift(ByteView bytes) : bytes_(bytes) {}
  std::size_t offset() const { return at_; }

  std::int64_t integer() {
    const std::uint64_t value = varint();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  std::string text() {
    const ByteView bytes = take(varint());
    return std::string(as_text(bytes));
  }
  // Calls field(id, wire type) for each field of a struct; a field that it does not read, it skips.
  template <typename Field>
  void structure(const Field& field) {
    if (++depth_ > kDeepestNesting) damaged("the metadata is nested too deep");
    std::int64_t id = 0;
    for (;;) {
      const std::uint8_t head = take(1)[0];
      if (head == kStop) break;
      const int wire = head & 15;
      id = head >> 4 ? id + (head >> 4) : integer();
      field(id, wire);
    }
    --depth_;
  }
  // Calls element(wire type) for each element of a list.
  template <typename Element>
  void list(int wire, std::size_t most, const Element& element) {
    if (wire != kList) damaged("the metadata is not of the expected type");
    const std::uint8_t head = take(1)[0];
    const std::uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
    if (count > most || count > bytes_.size()) damaged("the metadata lists too many elements");
    for (std::uint64_t i = 0; i < count; ++i) element(head & 15);
  }
  std::int64_t expect_integer(int wire) {
    if (wire != kI16 && wire != kI32 && wire != kI64) damaged("the metadata is not of the expected type");
    return integer();
  }
  std::string expect_text(int wire) {
    if (wire != kBinary) damaged("the metadata is not of the expected type");
    return text();
  }
  template <typename Field>
  void expect_structure(int wire, const Field& field) {
    if (wire != kStruct) damaged("the metadata is not of the expected type");
    structure(field);
  }
  void skip(int wire) {
    switch (wire) {
      case kTrue:
      case kFalse:
        return;
      case kByte:
        (void)take(1);
        return;
      case kI16:
      case kI32:
      case kI64:
        (void)varint();
        return;
      case kDouble:
        (void)take(8);
        return;
      case kBinary:
        (void)take(varint());
        return;
      case kList:
      case kSet:
        return list(kList, bytes_.size(), [&](int element) { skip_element(element); });
      case kMap:
        return skip_map();
      case kStruct:
        return structure([&](std::int64_t, int inner) { skip(inner); });
      default:
        damaged("the metadata has an unknown type");
    }
  }

 private:
  ByteView take(std::uint64_t count) {
    if (count > bytes_.size() - at_) damaged("the metadata is cut off");
    const ByteView out = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += out.size();
    return out;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = take(1)[0];
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged("a number in the metadata is too long");
  }
  // In lists and maps a boolean is a byte of its own.
  void skip_element(int wire) {
    if (++depth_ > kDeepestNesting) damaged("the metadata is nested too deep");
    skip(wire == kTrue || wire == kFalse ? static_cast<int>(kByte) : wire);
    --depth_;
  }
  void skip_map() {
    const std::uint64_t count = varint();
    if (count == 0) return;
    if (count > bytes_.size()) damaged("the metadata lists too many elements");
    const std::uint8_t types = take(1)[0];
    for (std::uint64_t i = 0; i < count; ++i) skip_element(types >> 4), skip_element(types & 15);
  }

  ByteView bytes_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

template <typename Enum>
Enum to_enum(std::int64_t value, Enum last, const char* what) {
  if (value < 0 || value > static_cast<std::int64_t>(last)) fail(ErrorKind::kCorrupt, "parquet: unknown {}", what);
  return static_cast<Enum>(value);
}
std::uint64_t to_count(std::int64_t value) {
  if (value < 0) damaged("a negative size");
  return static_cast<std::uint64_t>(value);
}
std::size_t to_size(std::int64_t value) {
  if (value < 0 || value > INT32_MAX) damaged("a page has an impossible size");
  return static_cast<std::size_t>(value);
}

struct Element {
  ParquetColumn column;
  std::int64_t children = 0, repetition = 0;
  bool typed = false, known = false;  // known: by its logical type, which counts more than the converted one
};

// ConvertedType, the older way to say what values mean.
void set_converted(ParquetColumn& column, std::int64_t converted) {
  const auto set = [&](ParquetMeaning meaning, std::int64_t per_second = 0) {
    column.meaning = meaning, column.per_second = per_second;
  };
  switch (converted) {
    case 0:   // UTF8
    case 4:   // ENUM
    case 19:  // JSON
      return set(ParquetMeaning::kText);
    case 5:
      return set(ParquetMeaning::kDecimal);
    case 6:
      return set(ParquetMeaning::kDate);
    case 7:
    case 8:
      return set(ParquetMeaning::kTime, converted == 7 ? 1000 : 1000000);
    case 9:
    case 10:
      return set(ParquetMeaning::kTimestamp, converted == 9 ? 1000 : 1000000);
    case 11:
    case 12:
    case 13:
    case 14:
      return set(ParquetMeaning::kUnsigned);
    case 15:
    case 16:
    case 17:
    case 18:
      return set(ParquetMeaning::kNone);
    default:
      return set(ParquetMeaning::kOther);
  }
}

std::int64_t read_unit(Thrift& in, int wire) {
  std::int64_t per_second = 0;
  in.expect_structure(wire, [&](std::int64_t unit, int inner) {
    per_second = unit == 1 ? 1000 : unit == 2 ? 1000000 : 1000000000;
    in.skip(inner);
  });
  return per_second;
}

// LogicalType: a union, of which one field is set.
void read_logical(Thrift& in, int wire, Element& element) {
  ParquetColumn& column = element.column;
  in.expect_structure(wire, [&](std::int64_t which, int inner) {
    element.known = true;
    column.meaning = ParquetMeaning::kOther;
    switch (which) {
      case 1:   // STRING
      case 4:   // ENUM
      case 12:  // JSON
        column.meaning = ParquetMeaning::kText;
        return in.skip(inner);
      case 5:
        column.meaning = ParquetMeaning::kDecimal;
        return in.skip(inner);  // the scale stands in the element, too
      case 6:
        column.meaning = ParquetMeaning::kDate;
        return in.skip(inner);
      case 7:
      case 8:
        column.meaning = which == 7 ? ParquetMeaning::kTime : ParquetMeaning::kTimestamp;
        return in.expect_structure(inner, [&](std::int64_t id, int field) {
          if (id == 2) {
            column.per_second = read_unit(in, field);
          } else {
            in.skip(field);
          }
        });
      case 10:
        column.meaning = ParquetMeaning::kNone;
        return in.expect_structure(inner, [&](std::int64_t id, int field) {
          if (id == 2 && field == kFalse) column.meaning = ParquetMeaning::kUnsigned;
          in.skip(field);
        });
      case 11:  // UNKNOWN: always null
        column.meaning = ParquetMeaning::kNone;
        return in.skip(inner);
      default:
        return in.skip(inner);
    }
  });
}

Element read_element(Thrift& in, int wire) {
  Element element;
  ParquetColumn& column = element.column;
  in.expect_structure(wire, [&](std::int64_t id, int inner) {
    switch (id) {
      case 1:
        column.type = to_enum(in.expect_integer(inner), ParquetType::kFixedBytes, "type");
        element.typed = true;
        return;
      case 2:
        column.length = static_cast<std::int32_t>(to_size(in.expect_integer(inner)));
        return;
      case 3:
        element.repetition = in.expect_integer(inner);
        return;
      case 4:
        column.name = in.expect_text(inner);
        return;
      case 5:
        element.children = in.expect_integer(inner);
        return;
      case 6: {
        const std::int64_t converted = in.expect_integer(inner);
        if (!element.known) set_converted(column, converted);
        return;
      }
      case 7: {
        const std::int64_t scale = in.expect_integer(inner);
        if (scale < 0 || scale > 76) damaged("a decimal has an impossible scale");
        column.scale = static_cast<std::int32_t>(scale);
        return;
      }
      case 10:
        return read_logical(in, inner, element);
      default:
        in.skip(inner);
    }
  });
  column.optional = element.repetition == 1;
  return element;
}

// The leaves of the schema, which is listed depth first. Leaves of groups have the group's name before theirs.
std::vector<ParquetColumn> leaves(std::vector<Element> elements) {
  if (elements.empty()) damaged("there is no schema");
  struct Open {
    std::int64_t left;
    std::string prefix;
    bool nested;
  };
  std::vector<ParquetColumn> columns;
  std::vector<Open> open = {{elements[0].children, "", false}};
  for (std::size_t i = 1; i < elements.size(); ++i) {
    while (!open.empty() && open.back().left == 0) open.pop_back();
    if (open.empty()) damaged("the schema has too many elements");
    --open.back().left;
    Element& element = elements[i];
    const bool nested = open.back().nested || element.repetition == 2;
    std::string name = open.back().prefix + element.column.name;
    if (element.children > 0) {
      if (open.size() > kDeepestNesting) damaged("the schema is nested too deep");
      open.push_back({element.children, std::move(name) + ".", true});
      continue;
    }
    if (!element.typed) damaged("a column has no type");
    element.column.name = std::move(name);
    element.column.nested = nested;
    ParquetMeaning& meaning = element.column.meaning;
    const bool clock = meaning == ParquetMeaning::kTime || meaning == ParquetMeaning::kTimestamp;
    if (clock && element.column.per_second == 0) meaning = ParquetMeaning::kOther;
    columns.push_back(std::move(element.column));
  }
  return columns;
}

ParquetChunk read_chunk(Thrift& in, int wire, std::uint64_t file_size) {
  ParquetChunk chunk;
  std::uint64_t data = 0, dictionary = 0;
  bool elsewhere = false, described = false;
  const auto metadata = [&](std::int64_t id, int inner) {
    switch (id) {
      case 4:
        chunk.codec = to_enum(in.expect_integer(inner), ParquetCodec::kLz4Raw, "compression");
        return;
      case 5:
        chunk.values = to_count(in.expect_integer(inner));
        return;
      case 7:
        chunk.size = to_count(in.expect_integer(inner));
        return;
      case 9:
        data = to_count(in.expect_integer(inner));
        return;
      case 11:
        dictionary = to_count(in.expect_integer(inner));
        return;
      default:
        in.skip(inner);
    }
  };
  in.expect_structure(wire, [&](std::int64_t id, int inner) {
    if (id == 3) {
      described = true;
      in.expect_structure(inner, metadata);
    } else {
      elsewhere |= id == 1;
      in.skip(inner);
    }
  });
  if (elsewhere) damaged("a column is stored in another file");
  if (!described) damaged("a column is encrypted, or has no metadata");
  chunk.begin = dictionary > 0 && dictionary < data ? dictionary : data;
  if (chunk.begin > file_size || chunk.size > file_size - chunk.begin) damaged("a column lies outside of the file");
  return chunk;
}

ParquetGroup read_group(Thrift& in, int wire, std::uint64_t file_size) {
  ParquetGroup group;
  in.expect_structure(wire, [&](std::int64_t id, int inner) {
    if (id == 1) {
      in.list(inner, kMostColumns, [&](int element) { group.chunks.push_back(read_chunk(in, element, file_size)); });
    } else if (id == 3) {
      group.rows = to_count(in.expect_integer(inner));
    } else {
      in.skip(inner);
    }
  });
  return group;
}

}  // namespace

ParquetFooter parse_parquet_footer(ByteView footer, std::uint64_t file_size) {
  Thrift in(footer);
  std::vector<Element> elements;
  ParquetFooter out;
  in.structure([&](std::int64_t id, int wire) {
    if (id == 2) {
      in.list(wire, kMostColumns, [&](int element) { elements.push_back(read_element(in, element)); });
    } else if (id == 4) {
      in.list(wire, kMostGroups, [&](int element) { out.groups.push_back(read_group(in, element, file_size)); });
    } else {
      in.skip(wire);
    }
  });
  out.columns = leaves(std::move(elements));
  for (const ParquetGroup& group : out.groups) {
    if (group.chunks.size() != out.columns.size()) damaged("a row group does not have one chunk for each column");
    for (std::size_t i = 0; i < out.columns.size(); ++i)
      if (!out.columns[i].nested && group.chunks[i].values != group.rows)
        damaged("a column does not have one value for each row");
  }
  return out;
}

ParquetPage parse_parquet_page(ByteView head) {
  Thrift in(head);
  ParquetPage page;
  bool described = false;
  const auto encoding = [&](int wire) {
    return to_enum(in.expect_integer(wire), ParquetEncoding::kByteStreamSplit, "encoding");
  };
  const auto header = [&](std::int64_t id, int wire) {
    if (id == 1) {
      page.values = to_size(in.expect_integer(wire));
    } else if (id == 2) {
      page.encoding = encoding(wire);
    } else {
      in.skip(wire);
    }
  };
  const auto second_header = [&](std::int64_t id, int wire) {
    if (id == 1) {
      page.values = to_size(in.expect_integer(wire));
    } else if (id == 4) {
      page.encoding = encoding(wire);
    } else if (id == 5) {
      page.levels_size = to_size(in.expect_integer(wire));
    } else if (id == 6) {
      page.repeated_size = to_size(in.expect_integer(wire));
    } else if (id == 7) {
      page.compressed = wire == kTrue;
    } else {
      in.skip(wire);
    }
  };
  in.structure([&](std::int64_t id, int wire) {
    described |= id == 5 || id == 7 || id == 8;
    if (id == 1) {
      page.kind = to_enum(in.expect_integer(wire), ParquetPageKind::kDataV2, "kind of page");
    } else if (id == 2) {
      page.plain_size = to_size(in.expect_integer(wire));
    } else if (id == 3) {
      page.stored_size = to_size(in.expect_integer(wire));
    } else if (id == 5 || id == 7) {
      in.expect_structure(wire, header);
    } else if (id == 8) {
      in.expect_structure(wire, second_header);
    } else {
      in.skip(wire);
    }
  });
  if (!described && page.kind != ParquetPageKind::kIndex) damaged("a page has no header");
  page.header_size = in.offset();
  return page;
}

}  // namespace mlx::formats
