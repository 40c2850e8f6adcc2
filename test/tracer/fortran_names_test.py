#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fortran_names_test.py generate_fortran.py functions.txt TRACER MPIFORT: each routine that this MPI's Fortran libraries have is in the
tracer under the same name; a name that is not is found."""
import os
import re
import subprocess
import sys

generate, table, tracer, mpifort = sys.argv[1:]


def names_in(library):
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}


def check(names):
    return subprocess.run([sys.executable, generate, "check", "--table", table], input="\n".join(names), capture_output=True, text=True, check=False)


# What a program is linked with, as the loader finds it.
source = "program p\ncall MPI_Init(i)\nend\n"
program = os.path.join(os.getcwd(), f"names-{os.getpid()}")
try:
    subprocess.run([mpifort, "-x", "f95", "-", "-Wl,--no-as-needed", "-o", program], input=source, text=True, check=True, stderr=subprocess.DEVNULL)
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
finally:
    if os.path.exists(program):
        os.unlink(program)
libraries = re.findall(r"=> (\S*/libmpi\S*)", listing)
print("\n".join(libraries))
# Without an underscore they are no Fortran names but of programs in C (see the README).
names = {n for library in libraries for n in names_in(library) if re.fullmatch(r"mpi_\w+_", n)}

good = check(names)
if good.returncode:
    sys.exit(good.stdout + good.stderr)
print(good.stdout.strip())
lacking = check(names | {"mpi_novelty_"})
if lacking.returncode == 0 or "mpi_novelty_" not in lacking.stderr:
    sys.exit("a routine that is not wrapped is not found")
wrapped = names_in(tracer)
absent = sorted(n for n in ("mpi_send_", "mpi_send__", "MPI_SEND", "mpi_send_f08_", "mpi_send_f08ts_", "mpi_send_f08ts_large_",
                            "mpi_win_allocate_cptr_") if n not in wrapped)
foreign = sorted(n for n in wrapped if re.fullmatch(r"mpi_\w*[a-z]", n))
if absent or foreign:
    sys.exit(f"the tracer lacks {absent}, and has {foreign}")
