#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""table_test.py generate.py functions.txt COMPILER INCLUDE…: the table has every function of that mpi.h, and its faults are found."""
import os
import re
import subprocess
import sys
import tempfile

generate, table, compiler, *include = sys.argv[1:]


def generator(what, of, *more):
    command = [sys.executable, generate, what, "--table", of, "--compiler", compiler, "--include", *include, *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def must(condition, message, run):
    if not condition:
        sys.exit(f"{message}\n{run.stdout}{run.stderr}")


good = generator("check", table)
must(good.returncode == 0, "functions are missing from the table", good)
print(good.stdout.strip())

with open(table, encoding="utf-8") as file:
    text = file.read()
FAULTS = {
    "a function is missing": (r"^MPI_Waitsome \|.*\n", "", "check", "MPI_Waitsome"),
    "a class is unknown": (r"^MPI_Send \| send", "MPI_Send | sends", "regions", "no class sends"),
    "a role names no argument": (r"root=root", "root=boot", "regions", "no argument boot"),
    "an entry stands twice": (r"^(MPI_Send \|.*\n)", r"\1\1", "regions", "twice"),
    "an argument is missing": (r"^(MPI_Send \|.*), int tag", r"\1", "wrappers", "5 arguments in the table"),
}
with tempfile.TemporaryDirectory() as folder:
    for fault, (pattern, replacement, what, message) in FAULTS.items():
        broken, out = os.path.join(folder, "functions.txt"), os.path.join(folder, "out")
        changed = re.sub(pattern, replacement, text, count=1, flags=re.M)
        must(changed != text, f"{fault}: the table was not changed", good)
        with open(broken, "w", encoding="utf-8") as file:
            file.write(changed)
        run = generator(what, broken, "-o", out)
        must(run.returncode != 0 and message in run.stderr, f"{fault}: not found", run)
        print(f"found: {fault}")
