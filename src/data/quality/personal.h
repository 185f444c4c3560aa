// Looks for personal data in values: e-mail addresses, telephone numbers, IBANs, payment cards and national ids, the
// latter three by their check digits. Finds what is written in the usual ways, and may be wrong both ways. Used by
// measure.cpp and check.cpp.
#pragma once

#include <string>
#include <string_view>

namespace mlx::data {

// "email", "phone", "iban", "card", "national id"; null if the value is none. Looks at the whole value, and at the
// words of a longer one.
const char* personal_kind(std::string_view value);
// The same by a column's name: also "name", "address", "birth date"; null if the name suggests nothing.
const char* personal_column(std::string_view name);

// Single rules, for words of which nothing but this form is known.
bool is_email(std::string_view word);
bool is_phone(std::string_view word);        // international: + or 00 and 8 to 15 digits; or (0xx) and xxx-xxx-xxxx
bool is_iban(std::string_view word);         // ISO 13616: length by country, ISO 7064 mod 97-10
bool is_card(std::string_view word);         // ISO 7812: 13 to 19 digits, issuer, Luhn
bool is_national_id(std::string_view word);  // of CH, DE, ES, FR, GB, IT, US

}  // namespace mlx::data
