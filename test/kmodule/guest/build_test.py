#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The module builds without a warning against every kernel whose headers are there, and the checkers have nothing to say of it.

  build_test.py --cache FOLDER --build FOLDER [--all]
"""

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import kernels

CACHE = BUILD = pathlib.Path()
ALL = False


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

    def test_dkms_builds_what_is_installed(self):
        if not shutil.which("dkms"):
            print("SKIP: dkms is not installed; scripts/setup installs it")
            self.skipTest("no dkms")
        prefix = self.work / "usr"
        installed = kernels.run(["cmake", "--install", BUILD, "--component", "module-sources", "--prefix", prefix])
        self.assertEqual(installed.returncode, 0, installed.stdout)
        version = next((prefix / "src").glob("polter-*")).name.removeprefix("polter-")
        # One kernel, unless all are asked for: against which kernels the sources build is the other tests' question.
        kernels_of_dkms = list(self.headers.items())[: None if ALL else 1]
        for release, headers in kernels_of_dkms:
            with self.subTest(release):
                where = ["-m", "polter", "-v", version, "--dkmstree", self.work / release, "--sourcetree", prefix / "src"]
                (self.work / release).mkdir()
                # As root it would make itself a key to sign with, and leave that behind.
                apart = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /var/lib/dkms && exec "$@"', "sh"] if os.geteuid() == 0 else []
                if apart and kernels.run([*apart, "true"]).returncode != 0:
                    print("SKIP: dkms would leave a key in /var/lib/dkms: no mounts of one's own here")
                    self.skipTest("no mounts")
                added = kernels.run([*apart, "dkms", "add", *where])
                self.assertEqual(added.returncode, 0, added.stdout)
                built = kernels.run([*apart, "dkms", "build", *where, "-k", release, "--kernelsourcedir", headers])
                self.assertEqual(built.returncode, 0, built.stdout)
                modules = list((self.work / release / "polter" / version / release).rglob("polter.ko*"))
                self.assertEqual(len(modules), 1)
                info = kernels.run(["modinfo", modules[0]]).stdout
                self.assertRegex(info, rf"(?m)^version:\s+{version}$")
                self.assertIn(f"vermagic:       {release} ", info)
                print(f"built by dkms for {release}")

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
        scripts = sorted(pathlib.Path("/usr/src").glob("linux-*/scripts/checkpatch.pl"))
        if os.environ.get("CHECKPATCH"):
            scripts = [pathlib.Path(os.environ["CHECKPATCH"])]
        if not scripts or not shutil.which("perl"):
            print("SKIP: no checkpatch.pl: no package of Debian 12 brings it but the whole source, linux-source-6.1 (CHECKPATCH names a file)")
            self.skipTest("no checkpatch.pl")
        files = sorted((kernels.SOURCES / "module").glob("*.[ch]"))
        # The line's length is this project's. A macro that is a further parameter begins with its comma, and one that is two initialisers
        # takes no parentheses.
        done = kernels.run(["perl", scripts[0], "--no-tree", "--terse", "--no-summary", "--max-line-length=140",
                            "--ignore", "SPACING,COMPLEX_MACRO", "-f", *files])
        self.assertEqual(done.stdout.strip(), "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true", help="DKMS for every kernel whose headers are installed")
    options, rest = parser.parse_known_args()
    CACHE, BUILD, ALL = options.cache, options.build, options.all
    unittest.main(argv=[sys.argv[0], *rest])
