// The part of YAML that DVC writes, line by line: indentation, "- " and "key: value".
#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "formats/dvc.h"

namespace mlx::formats {
namespace {

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxKeys = 1024;  // of one mapping

struct Line {
  std::size_t number = 0, indent = 0;
  std::string_view text;  // without indentation and comments
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view what) : what_(what) { split(text); }

  Json document() {
    if (lines_.empty()) refuse(1, "is empty");
    Json value = block(lines_[0].indent, 0);
    if (at_ < lines_.size()) refuse(lines_[at_].number, "is indented in a way that means nothing here");
    return value;
  }

 private:
  [[noreturn]] void refuse(std::size_t line, std::string_view why) const {
    fail(ErrorKind::kCorrupt, "{}:{}: {}", what_, line, why);
  }

  void split(std::string_view text) {
    for (std::size_t number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (!is_utf8(line)) refuse(number, "is not UTF-8");
      const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
      line.remove_prefix(indent);
      if (line.empty() || line[0] == '#' || (line == "---" && lines_.empty() && indent == 0)) continue;
      if (line[0] == '\t') refuse(number, "is indented by a tab");
      lines_.push_back({number, indent, line});
    }
  }

  static bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

  Json block(std::size_t indent, int depth) {
    if (depth > kMaxDepth) refuse(lines_[at_].number, "is nested too deeply");
    return is_item(lines_[at_].text) ? sequence(indent, depth) : mapping(indent, depth);
  }

  // "- a", or "- key: value" with the rest of that mapping below it.
  Json sequence(std::size_t indent, int depth) {
    Json list = Json::array();
    while (at_ < lines_.size() && lines_[at_].indent == indent && is_item(lines_[at_].text)) {
      Line& line = lines_[at_];
      const std::size_t skip = std::min(line.text.find_first_not_of(' ', 1), line.text.size());
      const std::string_view rest = line.text.substr(skip);
      if (rest.empty() || rest[0] == '#') {
        at_ += 1;
        list.push_back(nested(indent + 1, depth));
      } else if (is_item(rest) || find_colon(rest) != std::string_view::npos) {
        line.indent += skip, line.text = rest;
        list.push_back(block(line.indent, depth + 1));
      } else {
        list.push_back(scalar(rest, line.number));
        at_ += 1;
      }
    }
    return list;
  }

  Json mapping(std::size_t indent, int depth) {
    Json map = Json::object();
    while (at_ < lines_.size() && lines_[at_].indent == indent && !is_item(lines_[at_].text)) {
      const Line line = lines_[at_];
      const std::size_t colon = find_colon(line.text);
      if (colon == std::string_view::npos) refuse(line.number, "expected 'key: value'");
      const Json key = scalar(line.text.substr(0, colon), line.number);
      if (!key.is_string()) refuse(line.number, "expected 'key: value'");
      if (map.size() >= kMaxKeys) refuse(line.number, "has too many keys");
      if (map.contains(key.get<std::string>()))
        refuse(line.number, fmt::format("the key '{}' occurs twice", key.get<std::string>()));
      std::string_view rest = line.text.substr(colon + 1);
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
      at_ += 1;
      const bool has_value = !rest.empty() && rest[0] != '#';
      map[key.get<std::string>()] = has_value ? scalar(rest, line.number) : below(indent, depth);
    }
    return map;
  }

  // The value below "key:": a deeper block, a sequence at the key's own indentation, or nothing.
  Json below(std::size_t indent, int depth) {
    if (at_ < lines_.size() && lines_[at_].indent == indent && is_item(lines_[at_].text))
      return block(indent, depth + 1);
    return nested(indent + 1, depth);
  }

  Json nested(std::size_t least, int depth) {
    if (at_ >= lines_.size() || lines_[at_].indent < least) return nullptr;
    return block(lines_[at_].indent, depth + 1);
  }

  // The ':' that ends a key: outside of quotes, before a space or the end.
  static std::size_t find_colon(std::string_view text) {
    std::size_t at = 0;
    if (!text.empty() && (text[0] == '"' || text[0] == '\'')) {
      at = 1;
      while (at < text.size() && text[at] != text[0]) at += text[0] == '"' && text[at] == '\\' ? 2 : 1;
    }
    for (; at < text.size(); ++at) {
      if (text[at] == '#' && at > 0 && text[at - 1] == ' ') break;
      if (text[at] == ':' && (at + 1 == text.size() || text[at + 1] == ' ')) return at;
    }
    return std::string_view::npos;
  }

  Json scalar(std::string_view text, std::size_t line) const {
    if (text[0] == '"') return double_quoted(text, line);
    if (text[0] == '\'') return single_quoted(text, line);
    if (const std::size_t comment = text.find(" #"); comment != std::string_view::npos) text = text.substr(0, comment);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    if (text.empty()) refuse(line, "a key is missing");
    if (std::string_view("&*!|>%@`[]{},?").find(text[0]) != std::string_view::npos)
      refuse(line, "is YAML of a kind that DVC does not write");
    if (text == "null" || text == "~") return nullptr;
    return std::string(text);
  }

  void expect_end(std::string_view rest, std::size_t line) const {
    const std::size_t next = rest.find_first_not_of(' ');
    if (next != std::string_view::npos && (next == 0 || rest[next] != '#')) refuse(line, "something follows a quote");
  }

  Json single_quoted(std::string_view text, std::size_t line) const {
    std::string out;
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] != '\'') {
        out += text[i];
      } else if (i + 1 < text.size() && text[i + 1] == '\'') {
        out += text[i++];
      } else {
        expect_end(text.substr(i + 1), line);
        return out;
      }
    }
    refuse(line, "a quote has no end");
  }

  // JSON's escapes, and \xNN.
  Json double_quoted(std::string_view text, std::size_t line) const {
    std::string json = "\"";
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == '"') {
        expect_end(text.substr(i + 1), line);
        const Json value = Json::parse(json + "\"", nullptr, false);
        if (value.is_discarded()) refuse(line, "a quoted text has a wrong escape");
        return value;
      }
      if (text[i] == '\\' && i + 1 < text.size()) {
        i += 1;
        json += text[i] == 'x' ? std::string("\\u00") : std::string("\\") + text[i];
      } else {
        json += text[i];
      }
    }
    refuse(line, "a quote has no end");
  }

  std::string_view what_;
  std::vector<Line> lines_;
  std::size_t at_ = 0;
};

}  // namespace

Json parse_block_yaml(std::string_view text, std::string_view what) {
  return Parser(text, what).document();
}

}  // namespace mlx::formats
