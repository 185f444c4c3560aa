// Which comparison a changed file gets, by its name.
#include <algorithm>

#include "base/path.h"
#include "diff/diff_files.h"
#include "formats/idx.h"

namespace mlx::diff {
namespace {

constexpr std::uint64_t kLongestText = 64 << 10;
constexpr std::size_t kMostLabels = 65536;

bool is_idx(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path.ends_with(".idx") || path.ends_with("-ubyte");
}

IdxSummary read_idx(const Source& source) {
  const Bytes head = read_head(source, 4096);
  const std::size_t size = formats::idx_header_size(ByteView(head).first(std::min<std::size_t>(head.size(), 4)), "IDX");
  const formats::IdxHeader header = formats::parse_idx_header(ByteView(head).first(std::min(size, head.size())), "IDX");
  IdxSummary summary{formats::name_of(header.type), header.dims, {}};
  const std::size_t wide = formats::size_of(header.type);
  const bool labels = header.dims.size() == 1 && (wide == 1 || header.type == formats::IdxType::kS32);
  if (!labels) return summary;
  Bytes block(std::size_t{256} << 10);
  for (std::uint64_t at = 0; at < header.data_bytes;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), header.data_bytes - at));
    if (source.read_at(header.header_bytes + at, block.data(), wanted) != wanted)
      fail(ErrorKind::kCorrupt, "IDX: cut off: the header promises {} bytes of labels", header.data_bytes);
    for (std::size_t i = 0; i + wide <= wanted; i += wide) {
      std::uint32_t bits = 0;
      for (std::size_t byte = 0; byte < wide; ++byte) bits = bits << 8 | block[i + byte];
      ++summary.labels[wide == 4 ? static_cast<std::int32_t>(bits) : static_cast<std::int64_t>(bits)];
      if (summary.labels.size() > kMostLabels) {
        summary.labels.clear();  // numbers of another kind than classes
        return summary;
      }
    }
    at += wanted;
  }
  return summary;
}

std::optional<std::vector<std::string>> read_lines(const Source& source) {
  const Bytes bytes = read_head(source, kLongestText);
  const std::string_view text = as_text(bytes);
  if (!is_utf8(text) || text.find('\0') != std::string_view::npos) return std::nullopt;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

bool is_short_text(const FileDiff& file) {
  return file.before->size <= kLongestText && file.after->size <= kLongestText;
}

void fill_in(const OpenSource& before, const OpenSource& after, const ContentOptions& options, Pool& pool,
             Progress& progress, FileDiff& file) {
  const std::string &old_path = file.before->path, &new_path = file.after->path;
  // Of a model's weights and of a table in safetensors alike, tensors are compared one by one.
  const bool safetensors = old_path.ends_with(".safetensors") || new_path.ends_with(".safetensors");
  if (!safetensors && table_kind(old_path) && table_kind(new_path)) {
    const FoundTable old_table = find_table(before, old_path), new_table = find_table(after, new_path);
    file.rows = diff_rows({old_table.open, old_table.kind}, {new_table.open, new_table.kind}, options.rows, pool);
  } else if (holds_tensors(old_path) && holds_tensors(new_path)) {
    file.tensors = diff_tensors(read_tensor_file(before, old_path, file.before->size),
                                read_tensor_file(after, new_path, file.after->size), pool, progress);
  } else if (is_idx(old_path) && is_idx(new_path)) {
    file.idx = {read_idx(*inflated(before, old_path)()), read_idx(*inflated(after, new_path)())};
  } else if (is_short_text(file)) {
    auto old_lines = read_lines(*before()), new_lines = read_lines(*after());
    if (!old_lines || !new_lines) return;
    file.text = {std::move(*old_lines), std::move(*new_lines), {}};
    file.text->steps = sequence_diff(file.text->before, file.text->after);
  }
}

}  // namespace

void compare_contents(const Side& before, const Side& after, const ContentOptions& options, Pool& pool,
                      Progress& progress, FileDiff& file) {
  if (file.before->mode == store::kModeLink || file.after->mode == store::kModeLink) return;
  try {
    fill_in(before.open(*file.before), after.open(*file.after), options, pool, progress, file);
  } catch (const Error& error) {
    const bool of_the_file =
        error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kConflict || error.kind == ErrorKind::kNotFound;
    if (!of_the_file) throw;
    file.note = error.message;
  } catch (const SourceDamaged& damaged) {
    throw damaged.error;
  }
}

}  // namespace mlx::diff
