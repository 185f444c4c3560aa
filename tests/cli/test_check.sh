# shellcheck shell=bash
# Rules of dataset.toml through the real binary, and hostile ones.
. "$(dirname "$0")/lib.sh"
mlx init -q .
mkdir -p data/h
printf 'age,city\n20,Bonn\n200,Ulm\n30,ann@example.org\n' >data/h/train.csv
printf '[check.columns.age]\ntype = "int"\nrange = [0, 120]\n' >data/h/dataset.toml
mlx add -q data/h && mlx commit -q -m one
expect 1 mlx check data/h --junit junit.xml
has "$out" "train.csv: columns.age.range: 1 of 3 values is not from 0 to 120"
has "$out" "line 3: 200"
has "$out" 'personal = ["city"]'
python3 -c 'import xml.etree.ElementTree as e; assert e.parse("junit.xml").getroot()[0].get("failures") == "1"'
expect 1 mlx check data/h --json
same "$(json 'd["schema"], d["passed"], d["failures"][0]["found"], d["personal"][0]["kind"]')" \
  "('mlx.check/1', False, [{'line': 3, 'value': '200'}], 'email')"
expect 0 mlx show data/h
has "$out" "statistics"

# Inferred rules hold, and are added once.
mkdir free && printf 'x,y\n1,a\n2,b\n' >free/train.csv
expect 0 mlx check --infer --write ./free
expect 0 mlx check ./free
has "$out" passed
error 4 "has [check] already" mlx check --infer --write ./free
error 2 "only with --infer" mlx check --write ./free

# Hostile: unknown keys, wrong and exploding patterns, a huge declaration, ragged and empty tables.
wrong() { printf '%b' "$2" >free/dataset.toml && error 2 "$1" mlx check ./free; }
wrong "dataset.toml:2" '[check]\nrowz = 3\n'
wrong "pattern" '[check.columns.x]\npattern = "("\n'
wrong "too large" '[check.columns.x]\npattern = "((a{1000}){1000}){1000}"\n'
printf '[check.columns.y]\npattern = "(a+)+b"\n' >free/dataset.toml
expect 1 mlx check ./free
head -c 17000000 /dev/zero | tr '\0' '#' >free/dataset.toml
error 2 "too much" mlx check ./free
rm free/dataset.toml
printf 'x,y\n1\n' >ragged.csv && error 6 "line 2" mlx check ./ragged.csv
error 3 "neither" mlx check ./none

# Descriptions, kept with the version; what changed between two.
expect 0 mlx describe data/h --target age
has "$out" "train: 3 rows"
has "$out" "with the target age"
expect 0 mlx describe data/h --json
same "$(json 'd["schema"], d["splits"]["train"]["columns"][0]["max"]')" "('mlx.describe/1', 200.0)"
printf 'age,city\n20,Ulm\n21,Ulm\n' >data/h/train.csv
mlx add -q data/h && mlx commit -q -m two
expect 0 mlx describe data/h@v1 data/h@v2
has "$out" "3 -> 2 items"
has "$out" "lost 'Bonn'"
expect 0 env LC_ALL=C "$mlx_binary" describe data/h
[[ $out != *[^[:ascii:]]* ]] || fail "not ASCII: $out"
