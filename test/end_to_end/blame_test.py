#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What was injected is found again as what it was: preemption with the injector's name, packets as network softirqs, a timer storm as timer
interrupts, calls from another CPU as inter-processor interrupts, and delays inside calls as no noise at all.

Each figure is compared with what the injector itself counted or logged while the rank had its CPU, so that a busy machine changes neither."""
import contextlib
import csv
import json
import pathlib
import statistics
import sys
import unittest

import polter_run as p

PHASES, WORK = 150, 4_000_000
NOISE = ("timer", "irq", "ipi", "softirq", "nmi", "preempt", "runqueue", "throttle", "steal")


def bound(flavour, ranks):
    return [*p.launcher(flavour, ranks), *(["--bind-to", "core"] if flavour == "openmpi" else ["-bind-to", "core"])]


def run_bsp(folder, flavour, *options):
    run = p.Run([*bound(flavour, 1), p.PROGRAMS / flavour / "bsp", PHASES, WORK], folder / "e", options)
    if run.code != 0:
        raise AssertionError(run.explain())
    return run


def slices(folder):
    """Every interruption of every rank: (rank, kind, source, culprit, begin, end)."""
    done = p.command([p.POLTER, "export", "-q", folder / "e", "--to", "csv", "--measured-only", "-o", folder / "csv"])
    if done.returncode:
        raise AssertionError(done.stderr)
    with open(folder / "csv" / "noise.csv", newline="", encoding="utf-8") as file:
        return [(int(row["rank"]), row["kind"], row["source"], row["culprit"], int(row["begin_ns"]), int(row["end_ns"])) for row in csv.DictReader(file)]


def deferred():
    """How often the kernel's threads for softirqs have run, on all CPUs."""
    runs = 0
    for status in pathlib.Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if status.read_text(encoding="ascii", errors="replace").startswith("ksoftirqd/"):
                runs += int((status.parent / "schedstat").read_text(encoding="ascii").split()[2])
    return runs


class Interrupts(unittest.TestCase):
    """Interrupts have no log of events, but their number while the rank had the CPU is known."""

    def storm(self, folder, spec):
        run = run_bsp(folder, p.FLAVOURS[0], "--inject", spec)
        said = json.loads((folder / "e" / "injected.json").read_text(encoding="utf-8"))["injector"]
        (storm,) = said["interrupts"]
        injected_ns = min(storm["end_ns"], run.result["measured_ns"]) - max(0, storm["begin_ns"])
        away = run.program_json()["ranks"][0]["run_delay_ns"]
        self.assertGreater(injected_ns, away, "the rank had no CPU at all")
        self.begun, self.ended = storm["begin_ns"] + 100_000_000, storm["end_ns"] - 20_000_000  # without the injector's own start and end
        hit = [s for s in slices(folder) if s[4] >= storm["begin_ns"]]
        return storm, hit, injected_ns - away, said["warnings"]

    def number(self, hit, *sources):
        return sum(s[2] in sources for s in hit)

    def time(self, hit, *sources):
        return sum(s[5] - s[4] for s in hit if s[2] in sources)

    def of_injector(self, hit):
        names = ("polter-inject", "polter-calls", "polter-packets")
        return sum(s[5] - s[4] for s in hit if s[3] in names and self.begun < s[4] < self.ended)

    def test_timers(self):
        """5000 a second: no kernel has as many ticks (1000 at most), and ticks alone fail this."""
        with p.folder() as folder:
            storm, hit, running_ns, _ = self.storm(folder, "timers,period=200us,ranks=0")
            expected = running_ns / storm["period_ns"]
            self.assertGreater(expected, 500)
            self.assertGreater(self.number(hit, "timer"), 0.9 * expected)
            self.assertLessEqual(self.number(hit, "timer"), storm["caused"] + 1.1 * (storm["end_ns"] - storm["begin_ns"]) / 1e6)
            self.assertEqual(0, self.of_injector(hit))

    def test_calls(self):
        with p.folder() as folder:
            storm, hit, running_ns, _ = self.storm(folder, "calls,period=500us,ranks=0")
            self.assertGreater(self.number(hit, "ipi"), 0.9 * storm["caused"] * running_ns / (storm["end_ns"] - storm["begin_ns"]))
            self.assertGreater(storm["caused"], 300)
            self.assertLess(self.of_injector(hit), 0.05 * self.time(hit, "ipi"))

    def test_packets(self):
        with p.folder() as folder:
            before = deferred()
            storm, hit, running_ns, warnings = self.storm(folder, "packets,period=1ms,ranks=0")
            if any("polter-packets" in w for w in warnings):
                self.skipTest(warnings[-1])
            bursts = storm["caused"] / 16
            self.assertGreater(bursts, 50)
            # What the kernel leaves to its thread on a busy CPU is no interruption by a softirq; all else is one a burst.
            expected = bursts * running_ns / (storm["end_ns"] - storm["begin_ns"])
            if deferred() - before < 0.02 * bursts:
                self.assertGreater(sum(s[3] == "NET_RX" for s in hit), 0.8 * expected)
            else:
                self.assertGreater(sum(s[3] == "NET_RX" for s in hit), 20)  # a rank that sends no packets sees hardly any
            # Receiving is a service of the kernel's, and has an account of its own: 16 packets take more than the bare entry of a softirq.
            received = [s[5] - s[4] for s in hit if s[2] == "os-service:net" and s[3] == "NET_RX"]
            self.assertGreater(statistics.mean(received), 1_000)
            network = self.time(hit, "os-service:net", "softirq", "irq", "ipi")
            self.assertGreater(network, 0.95 * (network + self.of_injector(hit)))


class Preemption(unittest.TestCase):
    def test_named(self):
        """A published pattern, by its name."""
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                run_bsp(folder, flavour, "--inject", "ferreira-100hz,ranks=0")
                done = p.command([p.POLTER, "validate", "--json", "--trace", folder / "e"])
                self.assertEqual(0, done.returncode, done.stderr)
                log = json.loads(done.stdout)
                self.assertEqual("polter.validate.log/1", log["schema"])
                self.assertGreater(log["events"], 20)
                for key in ("recall", "precision", "source_right", "culprit_right"):
                    self.assertGreaterEqual(log[key], 0.95, (key, log))


class Delays(unittest.TestCase):
    """Of a call's delay the trace has as noise only what interrupted it as it interrupts everything else."""

    def covered(self, folder, ranks):
        """The part of each delay that is noise of any source or a service; and the delays."""
        found, parts, delays = slices(folder), [], {}
        for rank in range(ranks):
            lines = [json.loads(line) for line in (folder / "e" / f"delays.{rank}.jsonl").read_text(encoding="utf-8").splitlines()]
            self.assertEqual([rank, len(lines) - 1, 0], [lines[0]["rank"], lines[0]["delays"], lines[0]["lost"]])
            delays[rank] = lines[1:]
            for delay in lines[1:]:
                begin = delay["begin_ns"] - lines[0]["origin_ns"]
                end = begin + delay["duration_ns"]
                inside = sum(max(0, min(end, s[5]) - max(begin, s[4])) for s in found if s[0] == rank)
                parts.append(inside / delay["duration_ns"])
        return parts, delays

    def check(self, folder, run, ranks):
        self.assertFalse((folder / "e" / "injected.json").exists())
        parts, delays = self.covered(folder, ranks)
        self.assertLess(statistics.median(parts), 0.05)
        self.assertEqual([], [c for c in run.result["culprits"] if c["culprit"].startswith("polter-inject")])
        return delays

    def test_mpi(self):
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                job = [*bound(flavour, 2), p.PROGRAMS / flavour / "bsp", 50, 100_000]
                run = p.Run(job, folder / "e", ["--delay", "mpi,probability=1,mean=1ms,sigma=100us"])
                self.assertEqual(0, run.code, run.explain())
                for delays in self.check(folder, run, 2).values():
                    self.assertEqual(50, sum(d["call"] == "MPI_Allreduce" for d in delays))
                    self.assertGreater(run.result["measured_ns"], sum(d["duration_ns"] for d in delays))

    def test_files(self):
        """POSIX and MPI-IO: each call of the program's, and none that MPI makes in its own calls."""
        rounds = 30
        for flavour in p.FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                job = [*bound(flavour, 2), p.PROGRAMS / flavour / "files", folder, rounds]
                run = p.Run(job, folder / "e", ["--delay", "io,probability=1,mean=500us,sigma=50us"])
                self.assertEqual(0, run.code, run.explain())
                for delays in self.check(folder, run, 2).values():
                    calls = {}
                    for delay in delays:
                        calls[delay["call"].removesuffix("64")] = calls.get(delay["call"].removesuffix("64"), 0) + 1
                    self.assertEqual({"pread": rounds, "pwrite": rounds, "MPI_File_write_at": rounds, "MPI_File_open": 1, "MPI_File_close": 1}, calls)
                self.assertGreater(run.result["measured_ns"], 3 * rounds * 400_000)


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI here")
        sys.exit(77)
    WHY = p.exporter_works()
    if WHY:
        print(f"SKIP: {WHY}")
        sys.exit(77)
    unittest.main(verbosity=2)
