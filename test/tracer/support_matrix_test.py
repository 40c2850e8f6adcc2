#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""support_matrix_test.py PROGRAM DOCUMENT MPICC…: the published support matrix is what the tables say, and has every function that the
installed MPI libraries export. A function that it lacks is found. With POLTER_UPDATE=1 the document is written anew."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

program, document, *compilers = sys.argv[1:]
made = subprocess.run([program], capture_output=True, text=True, check=False)
if made.returncode:
    sys.exit(made.stderr)
file = pathlib.Path(document)
if os.environ.get("POLTER_UPDATE"):
    file.write_text(made.stdout, encoding="utf-8")
if file.read_text(encoding="utf-8") != made.stdout:
    sys.exit(f"{document} is not what the tables say; write it anew with POLTER_UPDATE=1 ctest -R support-matrix")


def exported(compiler):
    """Of the libraries that a program of this MPI is linked with."""
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "a")
        source = "int MPI_Init(int*, char***); int main(void) { return MPI_Init(0, 0); }"
        subprocess.run([compiler, "-x", "c", "-", "-o", binary], input=source, text=True, check=True)
        listing = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    names = set()
    for library in re.findall(r"=> (\S*/libmpi\S*)", listing):
        lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
        # Functions alone; Fortran's names are in capitals, or in lower case with an underscore at the end.
        names |= {n for n in (line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TW")
                  if re.match(r"MPI_[A-Z]\w*[a-z0-9]", n) and n != n.upper()}
    return names


def lacking(names):
    lists = made.stdout[made.stdout.index("\n## "):]
    rows = set(re.findall(r"`(MPI_\w+)`", lists)) | {name + "_c" for name in re.findall(r"`(MPI_\w+)`, `_c`", lists)}
    return sorted(names - rows)


for compiler in compilers:
    names = exported(compiler)
    if len(names) < 300:
        sys.exit(f"{compiler}: only {len(names)} functions found in its libraries")
    if lacking(names):
        sys.exit(f"{compiler}: exported and not in the support matrix: {' '.join(lacking(names))}")
    print(f"{compiler}: {len(names)} functions exported, all in the support matrix")
    if lacking(names | {"MPI_Novelty"}) != ["MPI_Novelty"]:
        sys.exit("a function that the matrix lacks was not found")
