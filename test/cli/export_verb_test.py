#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`polter export` where it cannot write, and what it prints."""
import json
import os
import stat
import unittest

import cli_test
import polter_run as p


class Export(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(p.folder())
        self.trace = self.folder / "t"
        done = p.command([p.BUILD / "test" / "replay" / "write_random", "3", self.trace])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_export_on_a_full_device(self):
        device = cli_test.Output.full(self)
        for to in ("perfetto", "chrome", "goal"):
            with self.subTest(to):
                done = p.command([p.POLTER, "export", "--to", to, "-o", device, self.trace], {"TMPDIR": self.folder})
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(f"{device}: cannot be written (No space left on device)", done.stderr)
                self.assertTrue(stat.S_ISCHR(device.stat().st_mode))
                self.assertEqual({f.name for f in self.folder.iterdir()}, {"t", "full"})

    def test_export_without_room(self):
        for to in ("perfetto", "chrome", "csv", "loggopsim", "goal"):
            with self.subTest(to):
                done = cli_test.on_terms("trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"", "export", "--to", to, "-o", self.folder / "a", self.trace)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("File too large", done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertEqual([f.name for f in self.folder.iterdir()], ["t"])

    def test_export_by_its_default_name(self):
        done = p.command([p.POLTER, "export", "--to", "goal", "t"], cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("t.goal: ", done.stdout)
        self.assertEqual({f.name for f in self.folder.iterdir()}, {"t", "t.goal"})

    def test_json_and_text_say_the_same(self):
        words = [p.POLTER, "export", "--to", "perfetto", "-o", self.folder / "o", self.trace]
        text, said = p.command(words), p.command([*words, "--json"])  # the second one replaces the first one's file
        self.assertEqual((text.returncode, said.returncode), (0, 0), said.stderr)
        result = json.loads(said.stdout)
        self.assertEqual(result["bytes"], (self.folder / "o").stat().st_size)
        self.assertIn(f"{result['counts']['calls']} calls", text.stdout)
        self.assertEqual(len(text.stderr.strip().splitlines()), len(result["warnings"]))
        self.assertIn("timelines: measured, approximated", text.stdout)

    def test_a_damaged_trace_leaves_nothing(self):
        for file in (self.trace / "traces").glob("*.evt"):
            file.write_bytes(os.urandom(64))
        done = p.command([p.POLTER, "export", "--to", "perfetto", "-o", self.folder / "o", self.trace])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual([f.name for f in self.folder.iterdir()], ["t"])

    def test_a_window_ends_with_the_run(self):
        done = p.command([p.POLTER, "export", "--to", "loggopsim", "-o", self.folder / "o", "--window", "3600s-3601s", self.trace])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--window: begins after the end of", done.stderr)
        lengths = []
        for folder, window in (("a", []), ("b", ["--window", "0s-3600s"])):
            done = p.command([p.POLTER, "export", "--to", "loggopsim", "-o", self.folder / folder, *window, self.trace])
            self.assertEqual(done.returncode, 0, done.stderr)
            lengths.append({f.name: f.read_text().splitlines()[-1] for f in (self.folder / folder).iterdir() if f.is_file()})
        self.assertTrue(lengths[0])
        self.assertEqual(lengths[0], lengths[1])

    def test_ranks_that_are_not_there(self):
        done = p.command([p.POLTER, "export", "--to", "perfetto", "-o", self.folder / "o", "--ranks", "0,99", self.trace])
        self.assertEqual(done.returncode, 1)
        self.assertIn("has ranks 0 to 5 only", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
