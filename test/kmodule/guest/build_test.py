#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The module builds without a warning against every kernel whose headers are there, and the checkers have nothing to say of it.

  build_test.py --cache FOLDER
"""

import argparse
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import kernels

CACHE = pathlib.Path()


class Build(unittest.TestCase):
    def setUp(self):
        self.headers = kernels.installed_headers()
        if not self.headers:
            print("SKIP: no kernel headers are installed (linux-headers-cloud-amd64, linux-headers-rt-amd64)")
            self.skipTest("no headers")
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="polter-module-"))
        self.addCleanup(shutil.rmtree, self.work)

    def build(self, headers, *options):
        module, said = kernels.build(headers, self.work / "build", ["KCFLAGS=-Werror", *options])
        warnings = [line for line in said.splitlines() if re.search(r"warning:|WARNING", line) and "pahole" not in line]
        self.assertEqual(warnings, [])
        return module, said

    def test_builds_against_installed_headers(self):
        for release, headers in self.headers.items():
            with self.subTest(release):
                module, _ = self.build(headers)
                info = kernels.run(["modinfo", module]).stdout
                self.assertIn(f"vermagic:       {release} ", info)
                self.assertRegex(info, r"license:\s+Dual BSD/GPL")
                version = re.search(r"project\(poltergeist VERSION (\S+)", (kernels.SOURCES.parent / "CMakeLists.txt").read_text())[1]
                self.assertRegex(info, rf"(?m)^version:\s+{version}$")
                print(f"built against {release}")

    def test_builds_against_a_newer_kernel(self):
        try:
            release, headers = kernels.newer_headers(CACHE)
        except kernels.Unavailable as why:
            print(f"SKIP: no second kernel: {why}")
            self.skipTest(str(why))
        module, said = self.build(headers)
        self.assertIn(release, kernels.run(["modinfo", module]).stdout)
        print(f"built against {release}")

    def test_sparse_has_nothing_to_say(self):
        if not shutil.which("sparse"):
            print("SKIP: sparse is not installed")
            self.skipTest("no sparse")
        headers = next(iter(self.headers.values()))
        _, said = kernels.build(headers, self.work / "build", ["C=2", "CF=-Wsparse-error -Wcontext"])
        ours = [line for line in said.splitlines() if str(self.work) in line and re.search(r"(warning|error):", line)]
        self.assertEqual(ours, [])
        self.assertIn("CHECK", said)

    def test_checkpatch_has_nothing_to_say(self):
        scripts = sorted(pathlib.Path("/usr/src").glob("linux-headers-*-common/scripts/checkpatch.pl"))
        if not scripts or not shutil.which("perl"):
            print("SKIP: checkpatch.pl is not in the installed kernel headers")
            self.skipTest("no checkpatch.pl")
        files = sorted((kernels.SOURCES / "module").glob("*.[ch]"))
        # The line's length is this project's; the names of types are those of the page, which is not the kernel's alone.
        done = kernels.run(["perl", scripts[0], "--no-tree", "--terse", "--no-summary", "--max-line-length=140", "-f", *files])
        self.assertEqual(done.stdout.strip(), "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    CACHE = options.cache
    unittest.main(argv=[sys.argv[0], *rest])
