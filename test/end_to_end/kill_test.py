#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that never reach MPI_Finalize: one rank killed, all ranks killed, the launcher killed, polter interrupted. The trace reads, says
that it is incomplete, and nothing hangs or is left running."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import polter_run as p

BEGIN_LIMIT = 60
END_LIMIT = 90
# Calls that each rank makes before it is killed: those that fill the tracer's buffers some times over, and as many as get events to disk
# too (OTF2 keeps up to 4 MiB of what was flushed).
FLUSHED, ON_DISK = 30000, 250000
EVERY_CALL = ["--calls", "all"]  # those calls are local


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Kill(unittest.TestCase):
    def begun(self, pids):
        end = time.monotonic() + BEGIN_LIMIT
        ranks = []
        while len(ranks) < 2:
            self.assertLess(time.monotonic(), end, "the job does not begin")
            time.sleep(0.05)
            ranks = [int(f.read_text()) for f in sorted(pids.iterdir()) if f.read_text().strip()]
        return ranks

    def kill(self, flavour, whom, calls=FLUSHED):
        with p.folder() as folder:
            pids = folder / "pids"
            pids.mkdir()
            words = [p.POLTER, "run", "--json", *EVERY_CALL, "-o", folder / "e", *p.launcher(flavour, 2), p.PROGRAMS / flavour / "endless", pids, calls]
            environment = dict(p.ENVIRONMENT, POLTER_BUFFER_CHUNKS="2")  # the least, so that there are flushes
            polter = subprocess.Popen([str(w) for w in words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                ranks = self.begun(pids)
                whom(polter, ranks)
                output, error = polter.communicate(timeout=END_LIMIT)
            finally:
                polter.kill()
            self.assertTrue(output.startswith("{"), error[-2000:])
            result = json.loads(output)
            self.assertEqual(result["ranks"], 2)
            self.assertGreater(result["events"], 2 * 2 * calls)
            self.assertIn(p.otf2_print_errors(folder / "e"), (None, []))
            properties = result["provenance"] if "provenance" in result else p.replay(folder / "e")["provenance"]
            self.assertEqual(properties["INCOMPLETE"], "yes", properties)
            self.assertTrue(properties["RANKS_UNFINISHED"])
            for rank in ranks:
                self.assertFalse(alive(rank), "a rank is left running")
            return result, polter.returncode

    def each(self, whom, calls=FLUSHED):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour=flavour):
                _, code = self.kill(flavour, whom, calls)
                self.assertNotEqual(code, 0)

    def test_one_rank(self):
        self.each(lambda polter, ranks: os.kill(ranks[1], signal.SIGKILL), ON_DISK)

    def test_all_ranks(self):
        self.each(lambda polter, ranks: [os.kill(rank, signal.SIGKILL) for rank in ranks])

    def test_launcher(self):
        def launcher(polter, ranks):
            with open(f"/proc/{polter.pid}/task/{polter.pid}/children", encoding="utf-8") as file:
                children = [int(pid) for pid in file.read().split()]
            for child in children:
                with open(f"/proc/{child}/comm", encoding="utf-8") as file:
                    if file.read().startswith("mpi"):
                        os.kill(child, signal.SIGKILL)

        self.each(launcher)

    def test_polter_itself(self):
        """Nobody is left to seal: polter replay does."""
        with p.folder() as folder:
            pids = folder / "pids"
            pids.mkdir()
            words = [p.POLTER, "run", *EVERY_CALL, "-o", folder / "e", *p.launcher(p.FLAVOURS[0], 2)]
            words += [p.PROGRAMS / p.FLAVOURS[0] / "endless", pids, ON_DISK]
            polter = subprocess.Popen([str(w) for w in words], env=p.ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            ranks = self.begun(pids)
            polter.kill()
            polter.wait()
            early = p.command([p.POLTER, "replay", folder / "e"])
            self.assertEqual(early.returncode, 1)
            self.assertIn("still run", early.stderr)
            for rank in ranks:
                os.kill(rank, signal.SIGKILL)
            end = time.monotonic() + END_LIMIT
            while any(alive(rank) for rank in ranks) and time.monotonic() < end:
                time.sleep(0.05)
            result = p.replay(folder / "e")
            self.assertEqual(result["ranks"], 2)
            self.assertGreater(result["events"], 2 * 2 * ON_DISK)
            self.assertEqual(result["provenance"]["INCOMPLETE"], "yes")

    def test_interrupt_is_passed_on(self):
        for flavour in p.FLAVOURS:
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(flavour=flavour, signal=number):  # what the launcher makes of it is its own: Hydra may exit with 0
                    self.kill(flavour, lambda polter, ranks, number=number: polter.send_signal(number))


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    unittest.main(verbosity=2)
