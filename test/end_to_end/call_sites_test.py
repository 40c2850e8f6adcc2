#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Where a program calls MPI from: function, file and line as the source has them, with less where the program says less."""
import os
import re
import shutil
import sys
import unittest

import polter_run as p

SOURCES = p.pathlib.Path(__file__).parent / "programs"
C, CC, FORTRAN, PLUGIN = (SOURCES / f"call_sites{suffix}" for suffix in (".c", ".cc", ".F90", "_plugin.c"))


def line(source, name):
    """The call's own line, where a comment names it."""
    for number, text in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        if re.search(rf"line: {name}\b", text):
            return number
    raise KeyError(name)


class CallSites(unittest.TestCase):
    def compile(self, flavour, folder, source, *options, name="program", compiler="mpicc"):
        out = folder / name
        if not shutil.which(f"{compiler}.{flavour}"):
            self.skipTest(f"no {compiler}.{flavour}")
        done = p.command([f"{compiler}.{flavour}", "-pthread", *options, source, "-o", out])
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def sites(self, flavour, folder, *job, ranks=2):
        """{(operation, call site): calls} of a traced run."""
        where = folder / f"e{len(list(folder.iterdir()))}"
        run = p.command([p.POLTER, "run", "-q", "--exporter", "none", "-o", where, "--", *p.launcher(flavour, ranks), *job])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(p.otf2_print_errors(where), (None, []))
        return {(site["operation"], site["call_site"]): site["calls"] for site in p.replay(where)["call_sites"]}

    def each(self):
        for flavour in p.FLAVOURS:
            with p.folder() as folder:
                yield flavour, folder

    def test_c_with_lines(self):
        for flavour, folder in self.each():
            for options in (["-O0", "-g"], ["-O2", "-g"], ["-O2", "-g", "-no-pie", "-fno-pie"]):
                sites = self.sites(flavour, folder, self.compile(flavour, folder, C, *options))
                for function, operation, name, calls in (
                    ("main", "MPI_Init_thread", "init", 2), ("inlined", "MPI_Allreduce", "inlined", 40), ("exchange", "MPI_Send", "exchange", 80),
                    ("main", "MPI_Barrier", "barrier", 14), ("in_thread", "MPI_Iprobe", "in_thread", 2), ("main", "MPI_Finalize", "finalize", 2)):
                    if operation == "MPI_Iprobe" and (operation, f"in_thread (call_sites.c:{line(C, name)})") not in sites:
                        continue  # this MPI has no MPI_THREAD_MULTIPLE
                    self.assertEqual(sites.get((operation, f"{function} (call_sites.c:{line(C, name)})")), calls, f"{options} {name} {sites}")

    def test_c_with_less(self):
        for flavour, folder in self.each():
            program = self.compile(flavour, folder, C, "-O2")
            sites = self.sites(flavour, folder, program)
            self.assertTrue(any(re.fullmatch(r"exchange[.\w]*\+0x[0-9a-f]+", site) and calls == 80 for (_, site), calls in sites.items()), sites)
            p.command(["strip", program])
            sites = self.sites(flavour, folder, program)
            self.assertEqual({operation: calls for (operation, _), calls in sites.items()}["MPI_Send"], 80)
            for operation, site in sites:
                self.assertRegex(site, r"program\+0x[0-9a-f]+", operation)

    def test_plugins_at_the_same_addresses(self):
        for flavour, folder in self.each():
            program = self.compile(flavour, folder, C, "-O2", "-g")
            names = ["first", "other"]
            plugins = [self.compile(flavour, folder, PLUGIN, "-O2", "-g", "-shared", "-fPIC", f"-DNAME={name}", name=f"{name}.so") for name in names]
            sites = self.sites(flavour, folder, program, *plugins, *plugins)
            for name in names:
                self.assertEqual(sites.get(("MPI_Bcast", f"{name} (call_sites_plugin.c:{line(PLUGIN, 'plugin')})")), 4, sites)

    def test_cplusplus(self):
        for flavour, folder in self.each():
            sites = self.sites(flavour, folder, self.compile(flavour, folder, CC, "-O2", "-g", compiler="mpicxx"))
            self.assertIn(("MPI_Allreduce", f"halo::Exchange<double>::run (call_sites.cc:{line(CC, 'method')})"), sites)

    def test_fortran(self):
        for flavour, folder in self.each():
            for options in (["-O0"], ["-O2"], ["-O2", "-DF08"]):
                program = self.compile(flavour, folder, FORTRAN, "-g", *options, f"-J{folder}", compiler="mpifort")
                sites = self.sites(flavour, folder, program)
                # A small subroutine is inlined: the innermost function is still it.
                self.assertEqual(sites.get(("MPI_Allreduce", f"exchange (call_sites.F90:{line(FORTRAN, 'exchange')})")), 2, f"{options} {sites}")
                self.assertEqual(sites.get(("MPI_Barrier", f"sites (call_sites.F90:{line(FORTRAN, 'barrier')})")), 2, f"{options} {sites}")

    def test_a_program_that_is_another_one_since(self):
        """What lies at its path when the trace is sealed was built otherwise: its lines would be wrong."""
        flavour = p.FLAVOURS[0]
        with p.folder() as folder:
            program = self.compile(flavour, folder, C, "-O2", "-g")
            other = self.compile(flavour, folder, C, "-O0", "-g", name="other")
            script = folder / "job.sh"
            script.write_text(f"#!/bin/sh\n{' '.join(p.launcher(flavour, 2))} {program} && mv {other} {program}\n", encoding="ascii")
            run = p.command([p.POLTER, "run", "-q", "--exporter", "none", "--mpi", flavour, "-o", folder / "e", "--", "sh", script])
            self.assertEqual(run.returncode, 0, run.stderr)
            for site in p.replay(folder / "e")["call_sites"]:
                self.assertRegex(site["call_site"], r"program\+0x")

    def test_cost(self):
        """Instructions of a call, counted: of calls that come in the same order, and of those that do not."""
        if not shutil.which("valgrind"):
            self.skipTest("no valgrind")
        flavour = p.FLAVOURS[0]
        tracer = p.BUILD / "lib" / "polter" / f"libpolter-mpi-{flavour}.so"
        text = """#include <mpi.h>
#include <stdlib.h>
static double data;
int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const long rounds = atol(argv[1]);
    unsigned random = 1;
    for (long i = 0; i < rounds; i++) {
        if (argc > 2) random = random * 1664525 + 1013904223;
        switch (argc > 2 ? random >> 29 : i & 7) {
"""
        text += "".join(f'case {i}: MPI_Send(&data, 1, MPI_DOUBLE, MPI_PROC_NULL, {i}, MPI_COMM_WORLD); __asm__ volatile("nop # {i}"); break;\n' for i in range(8))
        text += "} } MPI_Finalize(); return 0; }\n"
        with p.folder() as folder:
            (folder / "cost.c").write_text(text, encoding="ascii")
            program = self.compile(flavour, folder, folder / "cost.c", "-O2", name="cost")

            def instructions(traced, *arguments):
                environment = {"LD_PRELOAD": str(tracer)} if traced else {}
                environment.update({"POLTER_EXPERIMENT": str(folder), "POLTER_EXPORTER": "none"})
                done = p.command(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, *arguments], environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                return int(re.search(r"Collected : (\d+)", done.stderr).group(1))

            def per_call(*which):
                return (instructions(True, "9000", *which) - instructions(True, "5000", *which)) / 4000

            same, mixed = per_call(), per_call("mixed")
            print(f"instructions a call: {same:.0f} in the same order, {mixed:.0f} in none", file=sys.stderr)
            # A call that is expected pays for no attribute. Without call sites a Send to nobody has some 550 to 590.
            self.assertLess(same + 150, mixed)
            self.assertLess(same, 700)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    os.environ.pop("DEBUGINFOD_URLS", None)
    unittest.main(verbosity=2)
