#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The JSON behind the page: its published schema, sums that must agree among its parts, and the verb's errors."""
import base64
import gzip
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "test"))
import schemas  # noqa: E402

BUILD = pathlib.Path(os.environ["POLTER_BUILD"])
POLTER = str(BUILD / "polter")


def polter(*words):
    return subprocess.run([POLTER, *words], capture_output=True, text=True, timeout=250)


def data_of(page):
    text = re.search(r'<script id="data"[^>]*>([^<]*)<', page.read_text(encoding="utf-8")).group(1)
    return json.loads(gzip.decompress(base64.b64decode(text)))


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.work.name)
        cls.results = []
        for seed, ranks in ((1, 6), (2, 1), (5, 9)):
            trace = cls.folder / f"{seed}"
            subprocess.run([BUILD / "test/replay/write_random", str(seed), trace, str(ranks)], check=True)
            run = polter("replay", "-q", "--json", "--attribution", "--timeline", str(trace))
            assert run.returncode == 0, run.stderr
            cls.results.append(json.loads(run.stdout))

    @classmethod
    def tearDownClass(cls):
        cls.work.cleanup()

    def test_schema(self):
        for result in self.results:
            self.assertEqual([], schemas.faults("replay", result))
        self.assertEqual(1, len(schemas.faults("replay", dict(self.results[0], measured_ns="1 s"))))

    def test_schemas_of_what_a_page_has_besides(self):
        """Advice and comparison, as the page has them and as their verbs print them."""
        page, advised = self.folder / "sides.html", self.folder / "advised"
        subprocess.run([BUILD / "test/analyzers/export/write_micro", ROOT / "test/replay/micro/late_sender.txt", advised], check=True)
        advice = json.loads(polter("advise", "-q", "--json", str(advised)).stdout)
        self.assertTrue(advice["suggestions"])
        self.assertEqual([], schemas.faults("advise", advice))
        self.assertEqual(1, len(schemas.faults("advise", dict(advice, candidates=None))))
        sides = [str(self.folder / "1"), str(self.folder / "5"), str(advised)]
        compared = json.loads(polter("compare", "-q", "--json", *sides).stdout)
        self.assertEqual([], schemas.faults("compare", compared))
        self.assertEqual(1, len(schemas.faults("compare", dict(compared, seed="1"))))
        run = polter("report", "-q", *sides, "-o", str(page))
        if "built without its page" in run.stderr:
            self.skipTest("polter was built without the page")
        data = data_of(page)
        self.assertEqual(compared, data["comparison"])
        self.assertEqual(advice, data["runs"][2].pop("advice"))
        for result in data["runs"]:
            self.assertEqual([], schemas.faults("advise", result.pop("advice", advice)))
            result["attribution"]["rows"] = []  # left out of the page
            self.assertEqual([], schemas.faults("replay", result))

    def test_levels_agree(self):
        for result in self.results:
            levels = result["timeline"]["levels"]
            for level in levels:
                for key in ("mpi_ns", "waiting_ns", "without_mpi_ns", "without_waiting_ns"):
                    self.assertEqual([sum(row) for row in levels[0][key]], [sum(row) for row in level[key]], key)
                for row in range(result["timeline"]["rows"]):
                    for mpi, waiting in zip(level["mpi_ns"][row], level["waiting_ns"][row]):
                        self.assertLessEqual(waiting, mpi)
                        self.assertLessEqual(mpi, level["bucket_ns"])

    def test_whole_run_agrees_with_levels(self):
        """A short run is one close-up: its calls and its noise add up to the levels."""
        for result in self.results:
            timeline = result["timeline"]
            self.assertTrue(timeline["whole_run"])
            (whole,) = timeline["close_ups"]
            calls, noise, finest = whole["calls"], whole["noise"], timeline["levels"][0]
            for rank in range(result["ranks"]):
                spent = sum(leave - enter for r, enter, leave in zip(calls["rank"], calls["enter_ns"], calls["leave_ns"]) if r == rank)
                self.assertEqual(sum(finest["mpi_ns"][rank]), spent)
                taken = sum(e - b for r, b, e in zip(noise["rank"], noise["begin_ns"], noise["end_ns"]) if r == rank)
                self.assertEqual(sum(sum(n["ns"][rank]) for n in finest["noise"]), taken)

    def test_delays(self):
        followed = 0
        for result in self.results:
            for rank, row in enumerate(result["timeline"]["levels"][0]["delay_ns"]):
                self.assertEqual(result["per_rank"][rank]["accumulated_noise_ns"], row[-1] if row else 0)
            delays = result["timeline"]["delays"]
            self.assertEqual(delays["growth_ns"], sorted(delays["growth_ns"], reverse=True))
            for i, growth in enumerate(delays["growth_ns"]):
                if not delays["complete"][i]:
                    continue
                followed += 1
                # What was gathered on the way explains the growth; some of it may be lost again on the way.
                self.assertGreaterEqual(delays["noise_ns"][i], growth)
                self.assertGreaterEqual(delays["origin"][i], 0)
                steps = [delays["first_step"][i]]
                while len(steps) < delays["steps"][i]:
                    steps.append(delays["step"]["next"][steps[-1]])
                # It ends where the rank was no later than this one before its call, or at a rank's beginning.
                first, last = delays["step"]["delay_ns"][steps[0]], delays["step"]["delay_ns"][steps[-1]]
                self.assertTrue(last <= first - growth or delays["step"]["next"][steps[-1]] == -1)
                self.assertEqual(delays["rank"][i], delays["step"]["rank"][steps[0]])
                self.assertLessEqual(delays["step"]["at_ns"][steps[-1]], delays["leave_ns"][i])
        self.assertGreater(followed, 20)

    def test_sums(self):
        for result in self.results:
            rows = result["attribution"]["rows"]
            self.assertEqual(sum(r["ns"] for r in rows), sum(p["ns"] for p in result["attribution"]["by_place"]))
            self.assertEqual(sum(r["ns"] for r in rows), sum(sum(w) for w in result["attribution"]["by_window"].values()))
            self.assertEqual(list(range(result["ranks"])), sorted(r for h in result["hosts"] for r in h["ranks"]))
            self.assertEqual(len(result["warnings"]), len(result["explained_warnings"]))

    def test_page_is_the_json(self):
        page = self.folder / "page.html"
        run = polter("report", "-q", str(self.folder / "1"), "-o", str(page))
        if "built without its page" in run.stderr:
            self.skipTest("polter was built without the page")
        self.assertEqual((0, str(page) + "\n"), (run.returncode, run.stdout))
        data = data_of(page)
        self.assertEqual(("polter.page/1", None, 1), (data["schema"], data["comparison"], len(data["runs"])))
        shown = data["runs"][0]
        for key in ("timeline", "durations", "sources", "per_rank", "answer", "propagation"):
            self.assertEqual(self.results[0][key], shown[key], key)
        self.assertLess(page.stat().st_size, 2 << 20)

    def test_sections_of_analyzers(self):
        """Interference of each run, or why there is none; a result of polter latency, without what the page does not draw."""
        rank = {"rank": 0, "host": "a", "clock": dict.fromkeys(("ticks_per_ns", "drift", "least_ns", "mean_ns", "own_ns"), 1.0) | {"name": "system"}}
        bins = {"width_ns": 50, "top_ns": 1e9, "bins": 100, "samples": 1, "least_ns": 700, "most_ns": 700, "mean_ns": 700, "clamped": 0, "above_top": 0, "counts": [[15, 1]]}
        kinds = ("one_sided", "one_sided_minima", "pairwise", "pairwise_minima", "one_sided_hit", "pairwise_hit")
        place = {kind: bins for kind in kinds}
        rank |= {"timer": bins, "on_node": place, "off_node": place, "marked": False, "stolen_ns": {}, "blocks": []}
        block = dict.fromkeys(("begin_ns", "ns", "least_ns", "p25_ns", "median_ns", "p75_ns", "p99_ns", "most_ns", "stolen_ns"), 700)
        raw = {"schema": "polter.latency.raw/1", "ranks": 2, "bytes": 8, "trials": 1, "warmups": 0, "cycles": 1, "stages": [1],
               "of_ranks": [dict(rank, blocks=[dict(block, peer=1, cycle=0, hit=0, bins=[[15, 1]])]), dict(rank, rank=1)]}
        (self.folder / "raw.json").write_text(json.dumps(raw))
        made = polter("latency", "--from", str(self.folder / "raw.json"), "-o", str(self.folder / "latency.json"))
        self.assertEqual(0, made.returncode, made.stderr)
        self.assertEqual([], schemas.faults("latency", json.loads((self.folder / "latency.json").read_text())))
        judged = {"schema": "polter.quality/1", "online": {}}
        (self.folder / "quality.json").write_text(json.dumps(judged))
        predicted = {"schema": "polter.predict/1", "predictions": [{"ranks": 8, "draws_ns": [1, 2]}]}
        (self.folder / "predicted.json").write_text(json.dumps(predicted))
        page = self.folder / "analyzers.html"
        run = polter("report", "-q", str(self.folder / "1"), "-o", str(page), "--latency", str(self.folder / "latency.json"), "--quality", str(self.folder / "quality.json"),
                     "--predict", str(self.folder / "predicted.json"))
        if "built without its page" in run.stderr:
            self.skipTest("polter was built without the page")
        self.assertEqual(0, run.returncode, run.stderr)
        data = data_of(page)
        self.assertEqual("polter.latency/1", data["latency"]["schema"])
        self.assertEqual(judged, data["quality"])
        self.assertEqual([{"ranks": 8}], data["prediction"]["predictions"])
        self.assertNotIn("bins", data["latency"]["blocks"][0])
        shown, alone = data["runs"][0], polter("interference", "-q", "--json", str(self.folder / "1"))
        if alone.returncode:
            self.assertIn(shown["interference_unknown"], alone.stderr)
        else:
            self.assertEqual(json.loads(alone.stdout)["runs"][0], shown["interference"])
        alone = polter("variability", "-q", "--json", str(self.folder / "1"))
        if alone.returncode:
            self.assertIn(shown.get("variability_unknown") or shown["interference_unknown"], alone.stderr)
        else:
            self.assertEqual([], schemas.faults("variability", shown["variability"]))
            typical = [[p["typical"] for p in k["projections"]] for k in json.loads(alone.stdout)["kinds"]]
            self.assertEqual(typical[:5], [[p["typical"] for p in k["projections"]] for k in shown["variability"]["kinds"]])
        self.assertEqual(1, polter("report", "-q", str(self.folder / "1"), "--latency", str(self.folder / "raw.json")).returncode)
        for flag in ("--quality", "--predict"):
            self.assertEqual(1, polter("report", "-q", str(self.folder / "1"), flag, str(self.folder / "raw.json")).returncode)

    def test_pipes_and_links_stay_what_they_are(self):
        trace, pipe, link, target = (self.folder / name for name in ("1", "pipe", "link.html", "target.html"))
        os.mkfifo(pipe)
        with open(self.folder / "page.html", "wb") as page, subprocess.Popen(["cat", str(pipe)], stdout=page) as reader:
            run = polter("report", "-q", "-o", str(pipe), str(trace))
            self.assertEqual(0, reader.wait(timeout=60))
        self.assertEqual(0, run.returncode, run.stderr)
        self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
        target.write_text("")
        link.symlink_to(target)
        run = polter("report", "-q", "-o", str(link), str(trace))
        self.assertEqual(0, run.returncode, run.stderr)
        self.assertTrue(link.is_symlink())
        self.assertEqual((self.folder / "page.html").stat().st_size, target.stat().st_size)

    def test_errors(self):
        run = polter("report", str(self.folder / "1"), "-o", str(self.folder / "no/such/page.html"))
        if "built without its page" in run.stderr:
            self.assertEqual(2, run.returncode)
            self.assertNotIn("report", polter("--help").stdout)
            self.assertIn("built without the page", polter("doctor").stdout)
            return
        self.assertEqual(1, run.returncode)
        self.assertIn("page.html", run.stderr)
        self.assertEqual(1, polter("report", str(self.folder / "nothing")).returncode)
        self.assertEqual(2, polter("report").returncode)
        self.assertEqual(2, polter("report", str(self.folder / "1"), ",").returncode)


if __name__ == "__main__":
    unittest.main(verbosity=2)
