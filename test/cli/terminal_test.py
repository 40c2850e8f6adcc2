#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is printed fits the terminal: 60, 80 and 140 columns, UTF-8 or not, and 80 where there is none."""
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import unittest

import polter_run as p

BLOCKS = "▁▂▃▄▅▆▇█"


def on_terminal(words, columns, locale="C"):
    """Standard output of a command that has a terminal there."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = dict(p.ENVIRONMENT, LC_ALL=locale)
    with subprocess.Popen([str(w) for w in words], stdout=slave, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment) as process:
        os.close(slave)
        output = p.read_terminal(master)
        error = process.stderr.read()
    assert process.returncode == 0, error.decode()
    return output.replace("\r", "")


class Terminal(unittest.TestCase):
    def fits(self, text, columns):
        for line in text.splitlines():
            self.assertLessEqual(len(line), columns, text)
            self.assertNotRegex(line, r"(?<![\w.-])-0(\.0+)? ")

    @unittest.skipUnless(p.FLAVOURS, "no MPI program was built")
    def test_run_and_replay(self):
        flavour = p.FLAVOURS[0]
        job = [*p.launcher(flavour, 2), p.PROGRAMS / flavour / "p2p"]
        with p.folder() as folder:
            for columns, exporter in ((60, "auto"), (60, "none"), (80, "auto")):
                name = folder / f"an-experiment-with-a-long-name-{columns}-{exporter}"
                text = on_terminal([p.POLTER, "run", "-q", "-o", name, "--exporter", exporter, "--mpi", flavour, *job], columns)
                begin = text.find("p2p: 2 ranks on ")
                self.assertGreaterEqual(begin, 0, text)
                result, _, more = text[begin:].partition("\nMore: ")
                self.fits(result, columns)
                self.assertIn("Run time ", result)
                self.assertTrue(more.split("\n")[0], text)
                if exporter == "none":
                    self.assertIn("Noise: not measured (recorded without an exporter", result)
                    self.assertNotIn("stolen", result)
                for wide in (60, 80, 140):
                    for options in ((), ("--all", "-v", "--attribution"), ("--model",)):
                        self.fits(on_terminal([p.POLTER, "replay", *options, name], wide), wide)
            text = on_terminal([p.POLTER, "replay", folder / "an-experiment-with-a-long-name-80-auto"], 80)
            utf8 = on_terminal([p.POLTER, "replay", folder / "an-experiment-with-a-long-name-80-auto"], 80, "C.UTF-8")
            self.assertFalse(set(text) & set(BLOCKS))
            if "Delay over time" in utf8:
                self.assertTrue(set(utf8) & set(BLOCKS), utf8)
            piped = p.command([p.POLTER, "replay", "--all", folder / "an-experiment-with-a-long-name-60-auto"]).stdout
            self.fits(piped, 80)

    def test_noise(self):
        if p.command([p.POLTER, "noise", "--seconds", "0.05"]).returncode:
            self.skipTest("the node cannot be observed here")
        for columns in (60, 80, 140):
            text = on_terminal([p.POLTER, "noise", "--seconds", "0.2", "--per-cpu", "--histogram"], columns)
            self.fits(text, columns)
            self.assertNotIn("?", text)
        self.fits(p.command([p.POLTER, "noise", "--seconds", "0.2"]).stdout, 80)
        for columns in (60, 80):
            self.fits(on_terminal([p.POLTER, "noise", "--loop", "selfish", "--seconds", "0.2"], columns), columns)


if __name__ == "__main__":
    unittest.main(verbosity=2)
