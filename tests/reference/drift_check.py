"""Compares the tests of `mlx monitor` with scipy's on random tables: distances, p-values, false discovery rates.

usage: drift_check.py MLX [TABLES]. Needs scipy (1.11 or newer). Prints what differs; exits with 1 if anything does.

The distance of numbers is taken at the values of the reference: it may be smaller than scipy's by the share of one of
them, and is never larger. The p-values of Kolmogorov and Smirnov's test are both asymptotic, with other corrections:
of the same distance they agree to 3 % of their logarithm or 0.02.
"""
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile

from scipy import stats

MLX, TABLES = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
ENVIRONMENT = {**os.environ, "NO_COLOR": "1"}


def mlx(folder, *words):
    done = subprocess.run([MLX, *words], cwd=folder, env={**ENVIRONMENT, "HOME": folder}, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def table(path, rows):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["x", "k", "c", "y"])
        out.writerows(rows)


def drawn(count, shift, tilt, holes):
    rows = []
    for _ in range(count):
        x = round(random.gauss(shift, 1), 6)
        c = random.choices("abcdefg", [1, 1, 1, 1, 0.02, 0.01, 1 + tilt])[0]
        rows.append(["" if random.random() < holes else x, random.randrange(5) + (random.random() < tilt / 3), c, round(x, 3)])
    return rows


def pooled(before, after):
    """Cells of which a row can expect less than 5 are joined, the rarest first."""
    share = min(sum(before), sum(after)) / (sum(before) + sum(after))
    cells = sorted(((a, b) for a, b in zip(before, after) if a + b), key=lambda cell: (sum(cell), cell[0]))
    out, pool = [], (0, 0)
    for cell in cells:
        if sum(cell) * share >= 5 and not 0 < sum(pool) * share < 5:
            out.append(cell)
        else:
            pool = (pool[0] + cell[0], pool[1] + cell[1])
    return [list(row) for row in zip(*(out + [pool] if sum(pool) else out))]


def chi_square(before, after):
    cells = pooled(before, after)
    return stats.chi2_contingency(cells, correction=False)[:2] if len(cells[0]) > 1 else (0, 1)


def same_share(before, all_before, after, all_after):
    rarer = min(before + after, all_before + all_after - before - after)
    rows = [[before, all_before - before], [after, all_after - after]]
    if rarer * min(all_before, all_after) / (all_before + all_after) >= 5:
        return stats.chi2_contingency(rows, correction=False)[1]
    return stats.fisher_exact(rows)[1]


def expected(column, old, new, ours):
    """The statistic, and the p-value of our own one."""
    place = "xkc".index(column)
    a, b = [row[place] for row in old if row[place] != ""], [row[place] for row in new if row[place] != ""]
    absent = same_share(len(old) - len(a), len(old), len(new) - len(b), len(new))
    if column == "c":
        values = sorted(set(a) | set(b))
        statistic, p = chi_square([a.count(v) for v in values], [b.count(v) for v in values])
    else:
        statistic = stats.ks_2samp(a, b, method="asymp")[0]
        p = stats.kstwo.sf(ours, round(len(a) * len(b) / (len(a) + len(b))))
    return statistic, min(1, 2 * min(p, absent))


def close(column, ours, theirs):
    if column == "c":
        return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-300)
    return abs(ours - theirs) < 0.02 and max(ours, theirs) > 0.05 or math.isclose(math.log(ours), math.log(theirs), rel_tol=0.03)


def main():
    wrong = 0
    for number in range(TABLES):
        random.seed(number)
        with tempfile.TemporaryDirectory() as folder:
            old = drawn(500, 0, 0, random.choice([0, 0.1]))
            new = drawn(random.randrange(100, 800), random.choice([0, 0, 0.2, 0.7]), random.choice([0, 0.5, 1.5]), random.choice([0, 0.05]))
            os.mkdir(f"{folder}/t")
            table(f"{folder}/t/train.csv", old)
            table(f"{folder}/new.csv", new)
            with open(f"{folder}/m.toml", "w") as file:
                file.write('[data]\ndataset = "t"\ntarget = "y"\nmissing = "mean"\n[data.columns]\nc = "category"\nk = "number"\n'
                           '[model]\nname = "m"\nfamily = "mlp"\nhidden = [2]\n[train]\nepochs = 1\n')
            mlx(folder, "init")
            mlx(folder, "add", "t")
            mlx(folder, "commit", "-m", "t")
            mlx(folder, "train", "-c", "m.toml")
            columns = json.loads(mlx(folder, "monitor", "m", "--data", "new.csv", "--json"))["columns"]
            q = stats.false_discovery_control([column["p"] for column in columns])
            for column, rate in zip(columns, q):
                faults = []
                if not math.isclose(column["q"], rate, rel_tol=1e-9):
                    faults.append(f"q {column['q']} scipy {rate}")
                if column["column"] in ("x", "k", "c"):
                    statistic, p = expected(column["column"], old, new, column["statistic"])
                    room = 1 / 400 if column["column"] == "x" else 1e-6 * statistic
                    if not statistic - room - 1e-9 <= column["statistic"] <= statistic * (1 + 1e-6) + 1e-9:
                        faults.append(f"statistic {column['statistic']} scipy {statistic}")
                    if not close(column["column"], column["p"], p):
                        faults.append(f"p {column['p']} scipy {p}")
                for fault in faults:
                    print(f"table {number}, {column['column']}: {fault}")
                wrong += len(faults)
    print(f"{TABLES} tables, {wrong} differences")
    return 1 if wrong else 0


sys.exit(main())
