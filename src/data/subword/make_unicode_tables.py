"""Writes unicode_tables.inc, the tables of unicode.cpp, from the Unicode Character Database (Debian's package unicode-data).

usage: make_unicode_tables.py [/usr/share/unicode] > unicode_tables.inc

Properties of code points are tables of two stages: blocks of 128 code points, each different block once. Mappings are
sorted lists.
"""
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/unicode"
CODES, BLOCK = 0x110000, 128
CATEGORIES = ("Cn Cc Cf Cs Co Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp").split()
BREAKS = "Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT Extended_Pictographic".split()


def ranges(name):
    """(first, last, fields) of each line of a property file."""
    for line in open(f"{ROOT}/{name}", encoding="utf-8"):
        fields = [field.strip() for field in line.split("#")[0].split(";")]
        if len(fields) < 2:
            continue
        first, _, last = fields[0].partition("..")
        yield int(first, 16), int(last or first, 16), fields[1:]


def filled(name, value_of, default=0):
    out = [default] * CODES
    for first, last, fields in ranges(name):
        value = value_of(fields)
        if value is not None:
            out[first:last + 1] = [value] * (last + 1 - first)
    return out


def has(name, prop):
    return filled(name, lambda fields: 1 if fields[0] == prop else None)


def numbers(name, ctype, values, columns=32):
    print(f"constexpr {ctype} {name}[] = {{")
    for at in range(0, len(values), columns):
        print(" " + ",".join(map(str, values[at:at + columns])) + ",")
    print("};")


def two_stages(name, values):
    blocks, index = {}, []
    for at in range(0, CODES, BLOCK):
        index.append(blocks.setdefault(tuple(values[at:at + BLOCK]), len(blocks)))
    numbers(f"k{name}Index", "std::uint8_t" if len(blocks) <= 256 else "std::uint16_t", index)
    numbers(f"k{name}Blocks", "std::uint8_t", [value for block in blocks for value in block])


category, combining, single, lower = [0] * CODES, [0] * CODES, {}, []
first_of_range = None
for line in open(f"{ROOT}/UnicodeData.txt", encoding="utf-8"):
    field = line.split(";")
    code = int(field[0], 16)
    begin = first_of_range if field[1].endswith(", Last>") else code
    first_of_range = code if field[1].endswith(", First>") else None
    category[begin:code + 1] = [CATEGORIES.index(field[2])] * (code + 1 - begin)
    combining[code] = int(field[3])
    if field[5]:
        compat = field[5].startswith("<")
        single[code] = (compat, [int(c, 16) for c in field[5].split("> ")[-1].split()])
    if field[13]:
        lower.append((code, int(field[13], 16)))


def decomposed(code, compat):
    if code not in single or (single[code][0] and not compat):
        return [code]
    return [d for c in single[code][1] for d in decomposed(c, compat)]


excluded = has("DerivedNormalizationProps.txt", "Full_Composition_Exclusion")
pairs = sorted((d[0], d[1], code) for code, (compat, d) in single.items() if not compat and len(d) == 2 and not excluded[code])
forms = {}
for first, last, fields in ranges("DerivedNormalizationProps.txt"):
    if fields[0] in ("NFD_QC", "NFKD_QC", "NFC_QC", "NFKC_QC"):
        bit = 1 << ["NFD_QC", "NFKD_QC", "NFC_QC", "NFKC_QC"].index(fields[0])
        for code in range(first, last + 1):
            forms[code] = forms.get(code, 0) | bit

white, alphabetic = has("PropList.txt", "White_Space"), has("DerivedCoreProperties.txt", "Alphabetic")
breaks = filled("auxiliary/GraphemeBreakProperty.txt", lambda fields: BREAKS.index(fields[0]))
pictures = has("emoji/emoji-data.txt", "Extended_Pictographic")
scripts = ["Unknown"] + sorted({fields[0] for _, _, fields in ranges("Scripts.txt")})
script = filled("Scripts.txt", lambda fields: scripts.index(fields[0]))
version = re.search(r"-(\d+\.\d+)", open(f"{ROOT}/PropList.txt", encoding="utf-8").readline()).group(1)

print(f"// Made by make_unicode_tables.py from Unicode {version}. Included by unicode.cpp.")
print("// clang-format off")
two_stages("Property", [category[c] | white[c] << 5 | alphabetic[c] << 6 for c in range(CODES)])
two_stages("Script", script)
two_stages("Combining", combining)
two_stages("Form", [(breaks[c] or (14 if pictures[c] else 0)) | forms.get(c, 0) << 4 for c in range(CODES)])
print("constexpr const char* kScriptNames[] = {" + ", ".join(f'"{name}"' for name in scripts) + "};")
pool, entries = [], {"Canonical": [], "Compatible": []}
for name, compat in (("Canonical", False), ("Compatible", True)):
    for code in sorted(single):
        d = decomposed(code, compat)
        if d == [code] or (compat and d == decomposed(code, False)):
            continue
        entries[name].append((code, len(pool), len(d)))
        pool += d
numbers("kDecompositionPool", "char32_t", pool)
for name in entries:
    print(f"constexpr Decomposition k{name}[] = {{")
    for at in range(0, len(entries[name]), 10):
        print(" " + ",".join("{%d,%d,%d}" % entry for entry in entries[name][at:at + 10]) + ",")
    print("};")
for name, ctype, list_ in (("Compositions", "Composition", pairs), ("Lower", "Mapping", lower),
                           ("Folded", "Mapping", sorted((first, int(fields[1], 16)) for first, _, fields in ranges("CaseFolding.txt")
                                                        if fields[0] in "CS" and dict(lower).get(first) != int(fields[1], 16)))):
    print(f"constexpr {ctype} k{name}[] = {{")
    for at in range(0, len(list_), 10):
        print(" " + ",".join("{" + ",".join(map(str, entry)) + "}" for entry in list_[at:at + 10]) + ",")
    print("};")
print("// clang-format on")
