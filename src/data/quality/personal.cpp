// Rules that recognise personal data.

#include "data/quality/personal.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/text.h"

namespace mlx::data {
namespace {

constexpr std::size_t kLongestSearched = 4096;  // of a value

bool decimal_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_letter(char c) {
  return is_upper(c) || (c >= 'a' && c <= 'z');
}

// Without spaces and hyphens; "" if it has other characters than letters and digits, or more than `most`.
std::string compacted(std::string_view word, std::size_t most) {
  std::string out;
  for (const char c : word) {
    if (c == ' ' || c == '-' || c == '.') continue;
    if (!decimal_digit(c) && !is_letter(c)) return {};
    if (out.size() == most) return {};
    out += is_letter(c) && !is_upper(c) ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}
bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, decimal_digit);
}
// 9 for digits, A for letters: "756.9217.0769.85" → "999.9999.9999.99".
std::string shape_of(std::string_view word) {
  std::string out(word.substr(0, 32));
  for (char& c : out) c = decimal_digit(c) ? '9' : is_letter(c) ? 'A' : c;
  return out;
}
std::uint64_t number_in(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) value = value * 10 + static_cast<std::uint64_t>(c - '0');
  return value;
}

bool luhn(std::string_view digits) {
  int sum = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    int digit = digits[digits.size() - 1 - i] - '0';
    if (i % 2 == 1) digit = digit * 2 > 9 ? digit * 2 - 9 : digit * 2;
    sum += digit;
  }
  return sum % 10 == 0;
}

// United States: AAA-GG-SSSS, no area 000, 666 or 9xx, no group 00, no serial 0000.
bool is_ssn(std::string_view word) {
  return shape_of(word) == "999-99-9999" && word.substr(0, 3) != "000" && word.substr(0, 3) != "666" &&
         word[0] != '9' && word.substr(4, 2) != "00" && word.substr(7) != "0000";
}
// Great Britain: two letters, six digits, A to D; "QQ 12 34 56 C" is the usual example and not given out.
bool is_nino(std::string_view word) {
  const std::string id = compacted(word, 9);
  constexpr std::string_view kNever = "DFIQUV";
  return shape_of(id) == "AA999999A" && id[8] <= 'D' && kNever.find(id[0]) == kNever.npos &&
         kNever.find(id[1]) == kNever.npos && id[1] != 'O';
}
// Spain: DNI, eight digits and the letter of their remainder by 23.
bool is_dni(std::string_view word) {
  const std::string id = compacted(word, 9);
  return shape_of(id) == "99999999A" &&
         id[8] == std::string_view("TRWAGMYFPDXBNJZSQVHLCKE")[number_in(id.substr(0, 8)) % 23];
}
// France: NIR, thirteen digits and 97 less their remainder by 97. Never with a point: it would be a decimal number.
bool is_nir(std::string_view word) {
  if (word.find('.') != word.npos) return false;
  const std::string id = compacted(word, 15);
  if (id.size() != 15 || !all_digits(id) || (id[0] != '1' && id[0] != '2')) return false;
  const std::uint64_t month = number_in(id.substr(3, 2));
  return month >= 1 && month <= 12 && 97 - number_in(id.substr(0, 13)) % 97 == number_in(id.substr(13));
}
// Switzerland: AHV, 756 and the check digit of EAN-13. Only as it is usually written, with points.
bool is_ahv(std::string_view word) {
  if (shape_of(word) != "999.9999.9999.99" || !word.starts_with("756.")) return false;
  const std::string digits = compacted(word, 13);
  int sum = 0;
  for (std::size_t i = 0; i < 12; ++i) sum += (digits[i] - '0') * (i % 2 == 0 ? 1 : 3);
  return (10 - sum % 10) % 10 == digits[12] - '0';
}
// Germany: Steuer-ID with spaces, "86 095 742 719", ISO 7064 mod 11,10. Eleven bare digits are too common for one.
bool is_steuer_id(std::string_view word) {
  if (shape_of(word) != "99 999 999 999" || word[0] == '0') return false;
  const std::string digits = compacted(word, 11);
  int product = 10;
  for (std::size_t i = 0; i < 10; ++i) {
    const int sum = (digits[i] - '0' + product) % 10;
    product = (sum == 0 ? 10 : sum) * 2 % 11;
  }
  return (11 - product) % 10 == digits[10] - '0';
}
// Italy: codice fiscale; odd places count by a table, even ones by their value.
bool is_codice_fiscale(std::string_view word) {
  const std::string id = compacted(word, 16);
  if (shape_of(id) != "AAAAAA99A99A999A") return false;
  constexpr std::array kOdd = {1,  0,  5, 7, 9, 13, 15, 17, 19, 21, 2,  4,  18,
                               20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23};
  int sum = 0;
  for (std::size_t i = 0; i < 15; ++i) {
    const int value = decimal_digit(id[i]) ? id[i] - '0' : id[i] - 'A';
    sum += i % 2 == 0 ? kOdd[static_cast<std::size_t>(value)] : value;
  }
  return sum % 26 == id[15] - 'A';
}

const char* kind_of_word(std::string_view word) {
  if (is_email(word)) return "email";
  if (is_iban(word)) return "iban";
  if (is_card(word)) return "card";
  if (is_national_id(word)) return "national id";
  if (is_phone(word)) return "phone";
  return nullptr;
}

}  // namespace

bool is_email(std::string_view word) {
  const std::size_t at = word.find('@');
  if (at == word.npos || at == 0 || at > 64 || word.size() > 254 || word.find('@', at + 1) != word.npos) return false;
  const std::string_view host = word.substr(at + 1);
  const std::size_t point = host.rfind('.');
  if (point == host.npos || point == 0 || host.size() - point < 3) return false;
  const auto in_name = [](char c) {
    return is_letter(c) || decimal_digit(c) || static_cast<unsigned char>(c) >= 0x80 ||
           std::string_view("!#$%&'*+/=?^_`{|}~.-").find(c) != std::string_view::npos;
  };
  const auto in_host = [](char c) {
    return is_letter(c) || decimal_digit(c) || static_cast<unsigned char>(c) >= 0x80 || c == '-' || c == '.';
  };
  return std::ranges::all_of(word.substr(0, at), in_name) && std::ranges::all_of(host, in_host) &&
         std::ranges::all_of(host.substr(point + 1), [](char c) { return !decimal_digit(c); }) &&
         host.find("..") == host.npos;
}

bool is_phone(std::string_view word) {
  std::size_t digits = 0;
  for (const char c : word) {
    if (decimal_digit(c))
      ++digits;
    else if (std::string_view(" +-/().").find(c) == std::string_view::npos)
      return false;
  }
  if (digits < 8 || digits > 15) return false;
  if (word.starts_with('+')) return word.find('+', 1) == word.npos;
  const std::string shape = shape_of(word);
  return shape == "999-999-9999" || shape == "(999) 999-9999" || shape == "(999)999-9999" ||
         (word.starts_with("(0") && shape.find(')') != shape.npos) || (word.starts_with("00") && !all_digits(word));
}

bool is_iban(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 36> kLengths = {
      {{"AD", 24}, {"AE", 23}, {"AT", 20}, {"BE", 16}, {"BG", 22}, {"BR", 29}, {"CH", 21}, {"CY", 28}, {"CZ", 24},
       {"DE", 22}, {"DK", 18}, {"EE", 20}, {"ES", 24}, {"FI", 18}, {"FR", 27}, {"GB", 22}, {"GR", 27}, {"HR", 21},
       {"HU", 28}, {"IE", 22}, {"IS", 26}, {"IT", 27}, {"LI", 21}, {"LT", 20}, {"LU", 20}, {"LV", 21}, {"MC", 27},
       {"MT", 31}, {"NL", 18}, {"NO", 15}, {"PL", 28}, {"PT", 25}, {"RO", 24}, {"SE", 24}, {"SI", 19}, {"SK", 24}}};
  const std::string id = compacted(word, 34);
  if (id.size() < 15 || !is_upper(id[0]) || !is_upper(id[1]) || !decimal_digit(id[2]) || !decimal_digit(id[3]))
    return false;
  const auto country =
      std::ranges::find(kLengths, std::string_view(id).substr(0, 2), [](const auto& each) { return each.first; });
  if (country == kLengths.end() || country->second != id.size()) return false;
  unsigned rest = 0;
  for (const char c : id.substr(4) + id.substr(0, 4))
    rest = decimal_digit(c) ? (rest * 10 + static_cast<unsigned>(c - '0')) % 97
                            : (rest * 100 + static_cast<unsigned>(c - 'A') + 10) % 97;
  return rest == 1;
}

bool is_card(std::string_view word) {
  if (word.find('.') != word.npos) return false;
  const std::string digits = compacted(word, 19);
  if (digits.size() < 13 || !all_digits(digits)) return false;
  const std::uint64_t two = number_in(digits.substr(0, 2)), four = number_in(digits.substr(0, 4));
  const std::size_t size = digits.size();
  const bool issuer = (digits[0] == '4' && (size == 13 || size == 16 || size == 19)) ||                // Visa
                      (size == 16 && ((two >= 51 && two <= 55) || (four >= 2221 && four <= 2720))) ||  // Mastercard
                      (size == 15 && (two == 34 || two == 37)) ||                  // American Express
                      (size == 16 && (four == 6011 || two == 65 || two == 35)) ||  // Discover, JCB
                      (size == 14 && (two == 36 || two == 38));                    // Diners
  return issuer && luhn(digits);
}

bool is_national_id(std::string_view word) {
  return is_ssn(word) || is_nino(word) || is_dni(word) || is_nir(word) || is_ahv(word) || is_steuer_id(word) ||
         is_codice_fiscale(word);
}

const char* personal_kind(std::string_view value) {
  value = value.substr(0, kLongestSearched);
  std::size_t digits = 0;
  bool at = false;
  for (const char c : value) digits += decimal_digit(c) ? 1 : 0, at |= c == '@';
  if (!at && digits < 6) return nullptr;
  if (value.size() <= 64) {
    if (const char* const kind = kind_of_word(value)) return kind;
  }
  constexpr std::string_view kAround = " \t\r\n,;:<>()[]{}\"'|";
  for (std::size_t begin = 0; (begin = value.find_first_not_of(kAround, begin)) != value.npos;) {
    const std::size_t end = std::min(value.find_first_of(kAround, begin), value.size());
    std::string_view word = value.substr(begin, end - begin);
    while (word.ends_with('.') || word.ends_with('!') || word.ends_with('?')) word.remove_suffix(1);
    begin = end;
    if (word.size() == value.size()) break;  // was looked at
    // Bare digits inside of text are seldom anything: there, only forms with a shape or a check digit count.
    if (const char* const kind = word.size() >= 6 ? kind_of_word(word) : nullptr) return kind;
  }
  return nullptr;
}

const char* personal_column(std::string_view name) {
  std::string words = " ";
  for (std::size_t i = 0; i < name.size(); ++i) {  // firstName, first_name, FIRST-NAME → " first name "
    if (i > 0 && is_upper(name[i]) && !is_upper(name[i - 1])) words += ' ';
    words += is_letter(name[i]) || decimal_digit(name[i]) ? name[i] : ' ';
  }
  words = lower(words) + " ";
  constexpr std::array<std::pair<std::string_view, const char*>, 34> kNames = {{{" email ", "email"},
                                                                                {" e mail ", "email"},
                                                                                {" mail ", "email"},
                                                                                {" phone ", "phone"},
                                                                                {" telephone ", "phone"},
                                                                                {" mobile ", "phone"},
                                                                                {" telefon ", "phone"},
                                                                                {" tel ", "phone"},
                                                                                {" fax ", "phone"},
                                                                                {" iban ", "iban"},
                                                                                {" card number ", "card"},
                                                                                {" credit card ", "card"},
                                                                                {" ssn ", "national id"},
                                                                                {" national id ", "national id"},
                                                                                {" passport ", "national id"},
                                                                                {" tax id ", "national id"},
                                                                                {" nino ", "national id"},
                                                                                {" dni ", "national id"},
                                                                                {" first name ", "name"},
                                                                                {" firstname ", "name"},
                                                                                {" last name ", "name"},
                                                                                {" lastname ", "name"},
                                                                                {" surname ", "name"},
                                                                                {" full name ", "name"},
                                                                                {" vorname ", "name"},
                                                                                {" nachname ", "name"},
                                                                                {" address ", "address"},
                                                                                {" street ", "address"},
                                                                                {" zip ", "address"},
                                                                                {" postcode ", "address"},
                                                                                {" date of birth ", "birth date"},
                                                                                {" dob ", "birth date"},
                                                                                {" birthdate ", "birth date"},
                                                                                {" birthday ", "birth date"}}};
  for (const auto& [word, kind] : kNames)
    if (words.find(word) != words.npos) return kind;
  return nullptr;
}

}  // namespace mlx::data
