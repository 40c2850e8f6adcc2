#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The fuzzer's own parts, without a simulator: what the generator draws, and that failing programs become small."""

import unittest

import error_origins
import fuzz_bars
import fuzz_report
import fuzz_truth
import random_program
import shrink

ANY = random_program.Wishes()


class Generator(unittest.TestCase):
    def test_a_seed_is_a_program(self):
        self.assertEqual(random_program.random_case(5, ANY), random_program.random_case(5, ANY))
        self.assertNotEqual(random_program.random_case(5, ANY)["blocks"], random_program.random_case(6, ANY)["blocks"])

    def test_every_kind_is_drawn(self):
        drawn = {kind for seed in range(300) for kind in random_program.kinds_of(random_program.random_case(seed, ANY))}
        self.assertEqual(drawn, set(random_program.KINDS))

    def test_wishes(self):
        for seed in range(50):
            wishes = random_program.Wishes(ranks=(5, 9), kinds=("halo", "bcast"), repeat="once", latency_us=2, heavy=False)
            case = random_program.random_case(seed, wishes)
            self.assertIn(case["ranks"], range(5, 10))
            self.assertLessEqual(set(random_program.kinds_of(case)), {"halo", "bcast"})
            self.assertEqual({block["repeat"] for block in case["blocks"]}, {1})
            self.assertEqual(case["machine"]["latency"], "2us")
            self.assertEqual(random_program.dependencies(case), "visible")
        looping = random_program.random_case(1, random_program.Wishes(repeat="loop", kinds=("halo",)))
        self.assertTrue(all(block["repeat"] > 1 for block in looping["blocks"]))

    def test_runs_are_long_enough_for_noise(self):
        for seed in range(50):
            self.assertGreaterEqual(random_program.work_ns(random_program.random_case(seed, ANY)), random_program.WORK_NS)

    def test_identities_are_unique(self):
        for seed in range(50):
            ids = [phase["id"] for block in random_program.random_case(seed, ANY)["blocks"] for phase in block["phases"]]
            self.assertEqual(len(ids), len(set(ids)))


class Shrinking(unittest.TestCase):
    def test_one_phase_that_needs_ranks_and_repetitions(self):
        def fails(case):
            guilty = [b for b in case["blocks"] for p in b["phases"] if p["kind"] == "halo" and b["repeat"] >= 3]
            return bool(guilty) and case["ranks"] >= 5

        seed = next(s for s in range(1000) if fails(random_program.random_case(s, ANY)) and len(random_program.random_case(s, ANY)["noise"]) > 1)
        small = shrink.shrink(random_program.random_case(seed, ANY), fails, 2000)
        self.assertEqual(random_program.kinds_of(small), ["halo"])
        self.assertEqual((small["ranks"], small["blocks"][0]["repeat"], len(small["noise"])), (5, 3, 1))
        self.assertEqual({key: small["blocks"][0]["phases"][0].get(key, value) for key, value in shrink.PLAIN.items()}, shrink.PLAIN)

    def test_two_phases_that_need_each_other(self):
        def fails(case):
            return {"halo", "allreduce"} <= set(random_program.kinds_of(case))

        seed = next(s for s in range(1000) if fails(random_program.random_case(s, ANY)))
        small = shrink.shrink(random_program.random_case(seed, ANY), fails, 2000)
        self.assertEqual(sorted(random_program.kinds_of(small)), ["allreduce", "halo"])
        self.assertEqual(small["ranks"], 2)

    def test_noise_of_a_rank_stays_on_a_rank(self):
        case = random_program.random_case(1, ANY) | {"ranks": 9, "noise": ["irq:random:period=9,duration=1,rank=7"]}
        small = shrink.shrink(case, lambda c: True, 500)
        self.assertEqual((small["ranks"], small["noise"]), (2, ["irq:random:period=9,duration=1,rank=1"]))

    def test_it_ends(self):
        tried = []
        shrink.shrink(random_program.random_case(1, ANY), lambda case: tried.append(case), 20)
        self.assertEqual(len(tried), 20)


def judged(error=0.0, inside=True, conditional=False, slowdown=10.0):
    """Of a run of 100 ns without noise."""
    return {
        "error_percent": error,
        "error_percent_of_runtime": error * slowdown / 100,
        "true_percent_of_runtime": slowdown,
        "bounds_cover": inside,
        "bounds_width_percent": 0.5,
        "conditional": conditional,
        "warnings": [],
    }


def outcome(events, counters=None):
    return {"name": "1", "dependencies": "visible", "open": False, "events": events, "counters": counters or judged()}


class Bars(unittest.TestCase):
    def test_held(self):
        self.assertEqual(fuzz_report.missed([outcome(judged(0.2))] * 10, "goal", []), [])

    def test_missed(self):
        for outcomes, name in (
            ([outcome(judged(0.6))] * 10, "median"),
            ([outcome(judged(0.1))] * 9 + [outcome(judged(5))], "most"),
            ([outcome(judged(0.1, inside=False))] + [outcome(judged(0.1))] * 9, "inside"),
            ([outcome(judged(0.1, conditional=True))] * 4 + [outcome(judged(0.1))] * 6, "unconditional"),
        ):
            texts = fuzz_report.missed(outcomes, "goal", [])
            self.assertEqual([text.split()[2] for text in texts], [name], texts)

    def test_counters_of_one_program_have_no_median(self):
        alone = outcome(judged(0.2)) | {"counters": judged(4.5)}
        self.assertEqual(fuzz_report.missed([alone], "reached", []), [])
        self.assertEqual(len(fuzz_report.missed([alone] * 2, "reached", [])), 1)
        self.assertEqual(len(fuzz_report.missed([alone | {"counters": judged(25)}], "reached", [])), 1)
        self.assertEqual(len(fuzz_report.missed([outcome(judged(0.6))], "reached", [])), 1)

    def test_small_errors_count_as_none(self):
        self.assertEqual(fuzz_bars.effective_error(judged(5, slowdown=1)), 0)
        self.assertEqual(fuzz_bars.effective_error(judged(6, slowdown=1)), 6)

    def test_hardly_any_noise_is_measured_against_the_runtime(self):
        self.assertAlmostEqual(fuzz_bars.effective_error(judged(1000, slowdown=0.01)), 0.1)

    def test_what_is_worth_shrinking(self):
        self.assertIsNone(fuzz_bars.failing(outcome(judged(2))))
        self.assertEqual(fuzz_bars.failing(outcome(judged(4))), "error")
        self.assertEqual(fuzz_bars.failing(outcome(judged(0.1, inside=False))), "outside")
        self.assertIsNone(fuzz_bars.failing(outcome(judged(0.1, inside=False, conditional=True))))
        self.assertEqual(fuzz_bars.failing({"failed": "why", "simulator": True}), "simulator")

    def test_cases_that_were_found_can_be_read(self):
        for case in fuzz_truth.found_cases():
            self.assertTrue(random_program.program_text(case).startswith("block "))
            self.assertLessEqual(set(random_program.kinds_of(case)), set(random_program.KINDS))

    def test_an_error_counts_where_it_first_arises(self):
        # (quiet time, location, region, kind, error, length): rank 0 is wrong by 50 from its receive on; rank 1 waits for it, then adds 20.
        rows = [
            (10, 0, "MPI_Recv", "ENTER", 0, 0),
            (20, 0, "MPI_Recv", "LEAVE", 50, 10),
            (25, 1, "MPI_Barrier", "ENTER", 0, 0),
            (30, 0, "MPI_Barrier", "LEAVE", 50, 5),
            (30, 1, "MPI_Barrier", "LEAVE", 50, 5),
            (40, 1, "MPI_Send", "LEAVE", 70, 5),
            (50, 0, "MPI_Send", "LEAVE", -5, 5),
        ]
        found = [(increment, row[1], row[2]) for increment, row in error_origins.origins(rows)]
        self.assertEqual(found, [(50, 0, "MPI_Recv"), (20, 1, "MPI_Send"), (-5, 0, "MPI_Send")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
