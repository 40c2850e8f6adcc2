#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`cmake --install BUILD --prefix X`: what is installed says X, knows nothing of the folders that it was built in, is stripped with what a
debugger needs beside it, and works, under DESTDIR too."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import polter_run as p

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def sections(path):
    return subprocess.run(["readelf", "-SW", str(path)], capture_output=True, text=True, check=True).stdout


class Install(unittest.TestCase):
    def installed(self, prefix, destdir=""):
        done = p.command([os.environ.get("CMAKE", "cmake"), "--install", p.BUILD, "--prefix", prefix], {"DESTDIR": str(destdir)} if destdir else None)
        if done.returncode:
            self.skipTest("not everything is built: " + done.stderr.strip().splitlines()[-1])
        return pathlib.Path(str(destdir) + str(prefix))

    def check(self, prefix, root):
        """`prefix`: what it says; `root`: where it lies."""
        files = [f for f in root.rglob("*") if f.is_file() and not f.is_symlink()]
        service, = (f for f in files if f.name == "polterd.service")
        text = service.read_text(encoding="utf-8")
        daemon = re.search(r"exec (\S+/polterd) ", text).group(1)
        self.assertTrue(daemon.startswith(f"{prefix}/"), daemon)
        self.assertTrue((root / pathlib.Path(daemon).relative_to(prefix)).exists(), daemon)
        self.assertIn("/polter/policy.json", text)
        package, = (f for f in files if f.name == "polter-noise.pc")
        self.assertEqual(package.read_text(encoding="utf-8").splitlines()[0], f"prefix={prefix}")
        ours = [str(place).encode() for place in {p.BUILD.resolve(), SOURCE}]
        for file in files:
            if ".debug" in file.parts:
                continue
            content = file.read_bytes()
            for place in ours:
                self.assertFalse(place + b"/" in content or content.endswith(place), f"{file} names {place.decode()}")
        self.assertIn("share/doc/polter", p.command([root / "bin" / "polter", "replay", "--help"]).stdout.replace("\n", " "))
        self.assertTrue((root / "share/doc/polter/replay/README.md").exists())
        return files

    def stripped(self, files):
        if not shutil.which("readelf"):
            self.skipTest("no readelf")
        binaries = [f for f in files if ".debug" not in f.parts and is_elf(f)]
        self.assertIn("polter", {f.name for f in binaries})
        for binary in binaries:
            with self.subTest(binary.name):
                self.assertNotIn(".debug_info", sections(binary))
                self.assertIn(".gnu_debuglink", sections(binary))
                debug = binary.parent / ".debug" / f"{binary.name}.debug"
                self.assertIn(".note.gnu.build-id", sections(debug))
                if binary.name == "polter":  # built with debug information, whatever else was
                    self.assertEqual(".debug_info" in sections(debug), ".debug_info" in sections(p.POLTER))

    def works(self, root, folder):
        polter = root / "bin" / "polter"
        self.assertEqual(p.command([polter, "--version"]).stdout, p.command([p.POLTER, "--version"]).stdout)
        self.assertEqual(p.command([polter, "doctor"]).returncode, p.command([p.POLTER, "doctor"]).returncode)
        for flavour in p.FLAVOURS:
            bsp = [*p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", "5", "1000"]
            for job in (bsp, ["sh", "-c", " ".join(map(str, bsp))]):
                done = p.command([polter, "run", "-o", folder / "e", *job])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("bsp: 2 ranks on ", done.stdout)
                shutil.rmtree(folder / "e")

    def test_two_prefixes(self):
        with p.folder() as folder:
            for name in ("first", "second"):
                files = self.check(folder / name, self.installed(folder / name))
            self.stripped(files)
            self.works(folder / "second", folder)

    def test_destdir(self):
        with p.folder() as folder:
            for prefix, configured in (("/usr", "=/etc/polter/"), ("/opt/polter", "=/etc/opt/polter/polter/"), ("/usr/local", "=/usr/local/etc/polter/")):
                root = self.installed(prefix, folder / "stage")
                files = self.check(prefix, root)
                self.assertIn(configured, next(f for f in files if f.name == "polterd.service").read_text(encoding="utf-8"))
                self.works(root, folder)
                shutil.rmtree(folder / "stage")

    def test_twice(self):
        """What has been stripped is installed anew."""
        with p.folder() as folder:
            self.installed(folder / "x")
            self.stripped(self.check(folder / "x", self.installed(folder / "x")))


if __name__ == "__main__":
    if not p.POLTER.exists():
        print(f"SKIP: {p.POLTER} is not built")
        sys.exit(77)
    unittest.main(verbosity=2)
