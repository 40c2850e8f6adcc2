#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`polter export`, read back by what is not ours: python3's json and csv, the grammar of LogGOPSim, the counts of otf2-print."""
import collections
import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import goal_check
import polter_run as p

MICRO = pathlib.Path(__file__).parents[2] / "replay" / "micro"
FOREIGN = pathlib.Path(os.environ.get("POLTER_FOREIGN_TRACES", "/polter/nowhere"))
WRITE_MICRO = p.BUILD / "test" / "analyzers" / "export" / "write_micro"
WRITE_RANDOM = p.BUILD / "test" / "replay" / "write_random"


class Formats(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(p.folder())
        self.number = 0

    def trace(self, writer, *words):
        self.number += 1
        path = self.folder / f"t{self.number}"
        done = p.command([writer, words[0], path, *words[1:]])
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def traces(self):
        for name in ("late_sender", "waitall", "subcommunicator", "ibarrier", "cancelled", "posting_order", "rooted", "scan", "partitioned_order", "rma_fence"):
            yield name, self.trace(WRITE_MICRO, MICRO / f"{name}.txt")
        for seed in (1, 2, 3):
            yield f"random {seed}", self.trace(WRITE_RANDOM, seed, 5)
        if FOREIGN.is_dir():
            for path in sorted(FOREIGN.iterdir()):
                if path.is_dir():
                    yield path.name, path

    def export(self, trace, to, *options):
        self.number += 1
        output = self.folder / f"o{self.number}"
        done = p.command([p.POLTER, "export", "--json", "--to", to, "-o", output, *options, trace])
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["schema"], result["format"]), ("polter.export/1", to))
        files = [output] if output.is_file() else list(output.iterdir())
        self.assertEqual(result["files"], len(files))
        self.assertEqual(result["bytes"], sum(f.stat().st_size for f in files))
        return output, result

    def chrome(self, path):
        return json.loads(path.read_text(encoding="utf-8"))["traceEvents"]

    def tables(self, folder):
        found = {}
        for file in folder.iterdir():
            with open(file, newline="", encoding="utf-8") as text:
                found[file.stem] = list(csv.DictReader(text, strict=True))
                for row in found[file.stem]:
                    self.assertNotIn(None, row, f"{file}: a row that is too long")
                    self.assertNotIn(None, row.values(), f"{file}: a row that is too short")
        return found

    def test_chrome(self):
        for name, trace in self.traces():
            with self.subTest(name):
                output, result = self.export(trace, "chrome")
                by_phase = collections.defaultdict(list)
                for event in self.chrome(output):
                    by_phase[event["ph"]].append(event)
                self.assertLessEqual(set(by_phase), {"M", "X", "s", "f", "C"})
                noise = [e for e in by_phase["X"] if e["cat"] in ("noise", "service")]
                self.assertEqual(len(noise), result["counts"]["noise_slices"])
                self.assertEqual(len(by_phase["X"]) - len(noise), result["counts"]["calls"])
                for event in by_phase["X"]:
                    self.assertGreaterEqual(event["ts"], 0)
                    self.assertGreaterEqual(event["dur"], 0)
                begun, ended = (collections.Counter(e["id"] for e in by_phase[phase]) for phase in "sf")
                self.assertLessEqual(set(begun.values()) | set(ended.values()), {1}, "a flow's number belongs to one message")
                processes = {e["args"]["name"] for e in by_phase["M"] if e["name"] == "process_name"}
                self.assertEqual({n.split(":")[0] for n in processes}, set(result["timelines"]))
                for line in output.read_text(encoding="utf-8").splitlines():
                    if '"ts":' in line:
                        self.assertRegex(line, r'"ts":[0-9]+\.[0-9]{3}[,}]')

    def test_csv_and_chrome_agree(self):
        for name, trace in self.traces():
            with self.subTest(name):
                tables = self.tables(self.export(trace, "csv")[0])
                self.assertEqual(set(tables), {"runs", "ranks", "sources", "rank_sources", "calls", "messages", "noise", "counters"})
                events = self.chrome(self.export(trace, "chrome")[0])
                slices = collections.Counter((e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in events if e["ph"] == "X" and e["cat"] in ("MPI", "code"))
                rows = collections.Counter((r["operation"], int(r["begin_ns"]), int(r["end_ns"]) - int(r["begin_ns"])) for r in tables["calls"])
                self.assertEqual(slices, rows)
                both = collections.defaultdict(set)
                for row in tables["messages"]:
                    if row["message"]:
                        both[row["timeline"], row["message"]].add((row["role"], row["tag"], row["size_bytes"]))
                flows = collections.Counter(e["id"] for e in events if e["ph"] in "sf")
                self.assertEqual(sum(len(ends) == 2 for ends in both.values()), sum(n == 2 for n in flows.values()))

    def test_csv_is_the_result_of_the_replay(self):
        trace = self.trace(WRITE_RANDOM, 1, 5)
        tables = self.tables(self.export(trace, "csv")[0])
        result = json.loads(p.command([p.POLTER, "replay", "--json", trace]).stdout)
        (run,) = tables["runs"]
        for key in ("measured_ns", "approximated_ns", "accumulated_noise_ns", "ranks", "events"):
            self.assertEqual(int(run[key]), result[key])
        self.assertEqual([int(r["accumulated_noise_ns"]) for r in tables["ranks"]], [r["accumulated_noise_ns"] for r in result["per_rank"]])
        shares = {r["source"]: int(r["share_ns"]) for r in tables["sources"] if r["kind"] == "noise"}
        self.assertEqual(shares, {name: s["share_ns"] for name, s in result["sources"].items()})
        self.assertEqual(sum(shares.values()), result["accumulated_noise_ns"])
        # The timelines themselves: their ends differ by what the noise cost.
        last = {t: max(int(r["end_ns"]) for r in tables["calls"] if r["timeline"] == t) for t in ("measured", "approximated")}
        self.assertEqual(last["measured"] - last["approximated"], result["accumulated_noise_ns"])

    def test_noise_files(self):
        for name, trace in self.traces():
            with self.subTest(name):
                done = p.command([p.POLTER, "export", "--to", "loggopsim", "-o", self.folder / "refused", trace])
                if "no noise metrics" in done.stderr:
                    self.assertEqual((done.returncode, (self.folder / "refused").exists()), (1, False))
                    continue
                shutil.rmtree(self.folder / "refused")
                output, result = self.export(trace, "loggopsim")
                tables = self.tables(self.export(trace, "csv", "--measured-only")[0])
                expected = collections.defaultdict(list)
                for row in tables["noise"]:
                    if row["kind"] == "noise" and row["thread"] == "0":
                        expected[int(row["rank"])].append((int(row["begin_ns"]), int(row["end_ns"]) - int(row["begin_ns"])))
                length = max(int(r["end_ns"]) for r in tables["calls"])
                pooled, ranks = [], len(list(output.iterdir())) - 1
                for rank in range(ranks):
                    events = goal_check.noise_file((output / f"noise-rank{rank}.txt").read_text())
                    self.assertEqual(events[1:-1], sorted(expected[rank]))
                    self.assertEqual(events[-1], (length, 0))
                    pooled += [(begin + rank * length, duration) for begin, duration in events[1:-1]]
                self.assertEqual(goal_check.noise_file((output / "noise-pooled.txt").read_text()), [(0, 0), *pooled, (ranks * length, 0)])
                self.assertEqual(result["counts"]["noise_events"], len(pooled))

    def test_goal(self):
        for name, trace in self.traces():
            with self.subTest(name):
                output, result = self.export(trace, "goal")
                ranks = goal_check.parse(output.read_text())
                left, sizes = goal_check.run(ranks)
                self.assertEqual(left, set(), "operations that never end")
                counted = collections.Counter(o.kind for program in ranks for o in program)
                self.assertEqual((counted["send"], counted["recv"]), (result["counts"]["sends"], result["counts"]["receives"]))
                self.assertEqual(counted["send"], counted["recv"])
                self.assertEqual(len(sizes), counted["send"])
                for sent, received in sizes:
                    self.assertEqual(sent, received, "a message has one size")
                # As many messages as the other formats see, beside those of collectives (whose tags are above).
                messages = sum(o.kind == "send" and o.tag < 2**31 for program in ranks for o in program)
                tables = self.tables(self.export(trace, "csv", "--measured-only")[0])
                ends = collections.Counter(r["message"] for r in tables["messages"] if r["message"] and r["thread"] == "0")
                self.assertEqual(messages, sum(n == 2 for n in ends.values()))

    def test_goal_of_a_small_program(self):
        """By hand: of 100 ns of computation 20 were noise."""
        trace = self.trace(WRITE_MICRO, MICRO / "late_sender.txt")
        text = self.export(trace, "goal")[0].read_text()
        self.assertEqual(text[text.index("num_ranks"):], "num_ranks 2\nrank 0 {\nl0: calc 80\nl1: send 8b to 1 tag 7\nl1 requires l0\n}\n"
                         "rank 1 {\nl0: calc 40\nl1: recv 8b from 0 tag 7\nl1 requires l0\nl2: calc 40\nl2 requires l1\n}\n")

    def test_goal_runs_without_buffers(self):
        """With each send waiting for its receive, as in LogGOPSim with --LogGOPS_S 0."""
        for name in ("rooted", "scan", "ibarrier", "barrier", "subcommunicator", "sendrecv", "waitall"):
            with self.subTest(name):
                ranks = goal_check.parse(self.export(self.trace(WRITE_MICRO, MICRO / f"{name}.txt"), "goal")[0].read_text())
                self.assertEqual(goal_check.run(ranks, eager=False)[0], set())

    def test_the_checker_itself(self):
        good = "num_ranks 2\nrank 0 {\nl0: send 8b to 1 tag 3\n}\nrank 1 {\nl0: recv 8b from 0 tag 3\nl1: calc 5\nl1 requires l0\n}\n"
        self.assertEqual(goal_check.run(goal_check.parse(good)), (set(), [(8, 8)]))
        for wrong in (good.replace("l1 requires l0", "l1 requires l2"), good.replace("\nl0: send", "\n l0: send"), good[:-2], good.replace("rank 1 {", "rank 2 {"),
                      good.replace("num_ranks 2", "num_ranks 3"), good.replace("to 1", "from 1"), good.replace("8b to 1", "8b to 2"), good.replace("send 8b", "send b")):
            with self.assertRaises(goal_check.GoalError):
                goal_check.parse(wrong)
        self.assertEqual(len(goal_check.run(goal_check.parse(good.replace("from 0 tag 3", "from 0 tag 4")))[0]), 2)
        for wrong in ("", "0\t0\n5\t1\n", "0\t0\n5\t1\n4\t1", "0\t0\n1 2", "0\t0", "1\t0\n5\t0"):
            with self.assertRaises(goal_check.GoalError):
                goal_check.noise_file(wrong)

    def test_hostile_names(self):
        trace = self.trace(WRITE_MICRO, "--hostile")
        events = self.chrome(self.export(trace, "chrome")[0])
        names = {e["name"] for e in events if e["ph"] == "X"}
        expected = {"MPI_Send", "<script>alert('x')</script>", "quote\" comma, newline\n tab\t return\r bell\a", "x" * 10000, "bad \\xff\\xfe utf-8 \\xc3",
                    "=1+1", "right \u202e to left", "  blanks  "}
        self.assertLessEqual(expected, names)
        self.assertLessEqual({"<script>alert(1)</script>", 'a,"b"\nc'}, names)
        self.assertLessEqual(expected, {e["args"]["culprit"] for e in events if e["ph"] == "X" and e["cat"] == "noise"})
        tables = self.tables(self.export(trace, "csv")[0])
        self.assertEqual(expected, {r["operation"] for r in tables["calls"]})
        self.assertEqual(expected, {r["culprit"] for r in tables["noise"]})
        self.assertEqual({"<script>alert(1)</script>", 'a,"b"\nc'}, {r["source"] for r in tables["noise"]})
        goal_check.parse(self.export(trace, "goal")[0].read_text())
        data = self.export(trace, "perfetto")[0].read_bytes()
        for name in expected:
            self.assertIn(name.encode(), data)
        self.assertNotIn(b"bad \xff", data)  # bytes that are not UTF-8 are written as text

    @unittest.skipUnless(shutil.which("otf2-print"), "no otf2-print")
    def test_counts_of_otf2_print(self):
        for name, trace in self.traces():
            with self.subTest(name):
                anchor = trace / "traces.otf2" if (trace / "traces.otf2").exists() else next(trace.glob("*.otf2"))
                counts = collections.Counter()
                with subprocess.Popen(["otf2-print", anchor], stdout=subprocess.PIPE, text=True, errors="replace") as reader:
                    for line in reader.stdout:
                        if found := re.match(r"(ENTER|MPI_SEND|MPI_ISEND|MPI_RECV|MPI_IRECV) ", line):
                            counts[found[1]] += 1
                _, result = self.export(trace, "perfetto", "--measured-only")
                self.assertEqual(result["counts"]["calls"], counts["ENTER"])
                self.assertEqual(result["counts"]["messages_sent"], counts["MPI_SEND"] + counts["MPI_ISEND"])
                self.assertEqual(result["counts"]["messages_received"], counts["MPI_RECV"] + counts["MPI_IRECV"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
