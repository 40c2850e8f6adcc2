#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reference values of the extreme value distribution, by SciPy and by R's package evd.

reference.py FILE writes them; reference.py --check FILE compares what these programs say here with the file. Debian: python3-scipy, r-cran-evd."""
import json
import shutil
import subprocess
import sys

SHAPES = [-0.3, -0.1, -0.01, 0.0, 0.01, 0.1, 0.3, 0.45]  # Hosking's sign, which is SciPy's; evd's is the other
LEVELS = [0.001, 0.1, 0.570376, 0.9, 0.999]
LOCATION, SCALE = 100.0, 10.0
SKIP = 77


def by_scipy():
    from scipy import stats

    rows = []
    for shape in SHAPES:
        law = stats.genextreme(shape, LOCATION, SCALE)
        mean, variance, skewness = (float(m) for m in law.stats(moments="mvs"))
        # b_r = E[x F^r], integrated over the quantile function.
        from scipy import integrate

        weighted = [integrate.quad(lambda p, r=r: float(law.ppf(p)) * p**r, 0, 1, limit=500)[0] for r in range(3)]
        rows.append({"shape": shape, "quantiles": [float(law.ppf(p)) for p in LEVELS], "cumulative": [float(law.cdf(x)) for x in (80, 100, 130)],
                     "mean": mean, "deviation": variance**0.5, "skewness": skewness, "weighted": weighted})
    return rows


def by_evd(sample):
    """Quantiles; and of a sample the maximum-likelihood fit, which fits by moments must be near to."""
    script = f"""
library(evd)
for (shape in c({", ".join(map(str, SHAPES))})) cat("q", shape, qgev(c({", ".join(map(str, LEVELS))}), {LOCATION}, {SCALE}, -shape), "\\n", sep=" ")
fitted <- fgev(c({", ".join(f"{x:.10g}" for x in sample)}))
cat("fit", fitted$estimate, "\\n")
cat("se", fitted$std.err, "\\n")
"""
    done = subprocess.run(["Rscript", "--vanilla", "-e", "options(digits=12)", "-e", script], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    location, scale, shape = (float(x) for x in next(line[1:] for line in lines if line[:1] == ["fit"]))
    errors = [float(x) for x in next(line[1:] for line in lines if line[:1] == ["se"])]
    return {"quantiles": [[float(x) for x in line[2:]] for line in lines if line[:1] == ["q"]], "fit": {"location": location, "scale": scale, "shape": -shape, "errors": errors}}


def sample():
    """300 values of a heavy tail, by a generator that anybody can repeat."""
    state, values = 12345, []
    for _ in range(300):
        state = (1103515245 * state + 12345) % 2**31
        p = (state + 0.5) / 2**31
        import math

        values.append(LOCATION + SCALE * (1 - (-math.log(p)) ** -0.15) / -0.15)
    return values


def made():
    values = sample()
    return {"location": LOCATION, "scale": SCALE, "levels": LEVELS, "scipy": by_scipy(), "evd": by_evd(values), "sample": values}


def near(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(near(x, y) for x, y in zip(a, b))
    return abs(a - b) <= 1e-5 * max(1.0, abs(a))


def main():
    try:
        import scipy  # noqa: F401
    except ImportError:
        print("SKIP: python3-scipy is not installed")
        return SKIP
    if not shutil.which("Rscript") or subprocess.run(["Rscript", "--vanilla", "-e", "library(evd)"], capture_output=True, check=False).returncode != 0:
        print("SKIP: R with its package evd is not installed (r-cran-evd)")
        return SKIP
    if sys.argv[1] == "--check":
        with open(sys.argv[2], encoding="utf-8") as file:
            same = near(json.load(file), made())
        print("the same" if same else "SciPy or evd say something else than the file")
        return int(not same)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(made(), file, indent=1)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
