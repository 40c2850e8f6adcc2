#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""polter interference, run --profile, variability, quality, predict and latency with real programs: what they write and print, and what they say of input that they cannot use."""
import json
import pathlib
import shutil
import sys
import unittest

import polter_run as p

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import schemas  # noqa: E402

FLAVOURS = [f for f in ("openmpi", "mpich") if (p.BUILD / f"lib/polter/polter-bsp-{f}").exists() and shutil.which(f"mpirun.{f}")]


def bsp(flavour, phases):
    return [*p.launcher(flavour, 2), p.BUILD / f"lib/polter/polter-bsp-{flavour}", "time", "200000", "0", phases, "2", "allreduce", "0", "0", "0", "/dev/null"]


class Verbs(unittest.TestCase):
    def test_profile(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                made = p.command([p.POLTER, "run", "--profile", "--json", "-o", folder / "profile", *bsp(flavour, 300)])
                self.assertEqual(made.returncode, 0, made.stderr)
                result = json.loads(made.stdout)
                (run,) = result["runs"]
                self.assertEqual((result["schema"], run["ranks"], run["os_noise"]), ("polter.interference/1", 2, None))
                self.assertGreaterEqual(run["segments"], 301)  # 302 intervals: more than a metric has bins
                self.assertIn("a profile has no noise", run["os_noise_unknown"])
                self.assertFalse((folder / "profile" / "traces.otf2").exists())
                for rank in (0, 1):
                    profile = json.loads((folder / "profile" / f"profile.{rank}.json").read_text())
                    self.assertTrue(all(len(metric["bins"]) <= 256 for metric in profile["metrics"].values()))
                    self.assertEqual(2 * profile["segments"], len(profile["metrics"]["time_ns"]["index"]))
                again = p.command([p.POLTER, "interference", "--json", folder / "profile"])
                self.assertEqual(json.loads(again.stdout), result)
                damaged = folder / "profile" / "profile.1.json"
                damaged.write_text(damaged.read_text().replace('"index": "', '"index": "zz', 1))
                refused = p.command([p.POLTER, "interference", folder / "profile"])
                self.assertEqual(refused.returncode, 1)
                self.assertIn("profile.1.json", refused.stderr)
                damaged.unlink()
                self.assertEqual(p.command([p.POLTER, "interference", folder / "profile"]).returncode, 1)

    def test_profile_of_fortran(self):
        """By mpif.h, the module mpi and the module mpi_f08: 9 Alltoall and 9 Allreduce, each of which ends a segment."""
        for flavour in FLAVOURS:
            for binding in (1, 2, 3):
                program = p.PROGRAMS / flavour / f"fortran_ft-{binding}"
                if not program.exists():
                    self.skipTest(f"{program} is not built: no Fortran compiler")
                with self.subTest(f"{flavour} {binding}"), p.folder() as folder:
                    made = p.command([p.POLTER, "run", "--profile", "--json", "-o", folder / "profile", *p.launcher(flavour, 3), program])
                    self.assertEqual(made.returncode, 0, made.stderr)
                    for rank in range(3):
                        metrics = json.loads((folder / "profile" / f"profile.{rank}.json").read_text())["metrics"]
                        values = {name: [m["bins"][int(m["index"][2 * i : 2 * i + 2], 16)] for i in range(len(m["index"]) // 2)] for name, m in metrics.items()}
                        self.assertEqual(values["collectives_all"], [1] * 17)
                        self.assertEqual(len(set(values["functions"])), 2)
                        self.assertTrue(all(sent > 0 for sent in values["bytes_received"]))

    def test_delays_of_fortran(self):
        program = p.PROGRAMS / "openmpi" / "fortran_ft-1"
        if "openmpi" not in FLAVOURS or not program.exists():
            self.skipTest(f"{program} is not built")
        with p.folder() as folder:
            made = p.command([p.POLTER, "run", "-q", "-o", folder / "run", "--delay", "mpi,probability=1,mean=1us,sigma=0ns,seed=1", *p.launcher("openmpi", 3), program])
            self.assertEqual(made.returncode, 0, made.stderr)
            for rank in range(3):
                first, *calls = [json.loads(line) for line in (folder / "run" / f"delays.{rank}.jsonl").read_text().splitlines()]
                self.assertEqual(first["delays"], 18)
                self.assertEqual({call["call"] for call in calls}, {"MPI_Alltoall", "MPI_Allreduce"})

    def test_profile_with_a_counter(self):
        """Segments that call the same and differ in page faults, which every machine can count."""
        for flavour in FLAVOURS:
            program = p.PROGRAMS / flavour / "two_kinds"
            with self.subTest(flavour), p.folder() as folder:
                for options, groups, counter in ((["--perf", "PAGE-FAULTS:u"], 2, "FAULT"), (["--perf", "NOTHING"], 0, ""), (["--perf", "PAGE-FAULTS,CPU-MIGRATIONS"], 0, "")):
                    made = p.command([p.POLTER, "run", "--profile", "--json", "-o", folder / str(len(options[1])), *options, *p.launcher(flavour, 2), program])
                    if not groups:
                        self.assertEqual(made.returncode, 1)
                        self.assertIn("--perf", made.stderr)
                        continue
                    self.assertEqual(made.returncode, 0, made.stderr)
                    (run,) = json.loads(made.stdout)["runs"]
                    self.assertIn(counter, run["computing_by"])
                    used = [group for group in run["groups"] if group["segments"] >= 5]
                    self.assertEqual(len(used), groups, run["groups"])

    def test_any_number_of_processes(self):
        for flavour in FLAVOURS:
            if not (p.BUILD / f"lib/polter/libpolter-group-{flavour}.so").exists():
                continue
            with self.subTest(flavour), p.folder() as folder:
                made = p.command([p.POLTER, "run", "-q", "-o", folder / "trace", *bsp(flavour, 60)])
                self.assertEqual(made.returncode, 0, made.stderr)
                words = [p.POLTER, "interference", "--json", folder / "trace"]
                alone, together = p.command(words), p.command([*p.launcher(flavour, 2), *words])
                self.assertEqual(alone.returncode, 0, alone.stderr)
                self.assertEqual(together.returncode, 0, together.stderr)
                self.assertEqual(together.stdout, alone.stdout)
                failed = p.command([*p.launcher(flavour, 2), p.POLTER, "interference", folder / "nothing"])
                self.assertNotEqual(failed.returncode, 0)
                self.assertEqual(failed.stderr.count("polter:"), 1, failed.stderr)

    def test_the_exit_code_is_the_job_s_own(self):
        with p.folder() as folder:
            done = p.command([p.POLTER, "run", "--profile", "-o", folder / "x", "--mpi", "openmpi", "sh", "-c", "exit 7"])
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn("no rank left a profile", done.stderr)

    def test_latency(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                files = [folder / "a.json", folder / "b.json"]
                for file in files:
                    done = p.command([p.POLTER, "latency", "--trials", 200, "--warmups", 20, "--cycles", 3, "-o", file, *p.launcher(flavour, 2)])
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("within nodes, pairwise", done.stdout)
                result = json.loads(files[0].read_text())
                node = result["distributions"]["on_node"]
                self.assertEqual(node["one_sided"]["histogram"]["samples"], 2 * 200 * 3)
                self.assertEqual(node["pairwise"]["histogram"]["samples"], 200 * 3)
                self.assertEqual(node["pairwise_minima"]["histogram"]["samples"], 3)
                self.assertEqual(result["clock"]["distribution"]["histogram"]["samples"], 2 * 200 // 4 * 3)  # one for each four samples
                self.assertGreater(node["pairwise"]["least_ns"], 0)
                self.assertEqual(len(result["blocks"]), 3)
                compared = p.command([p.POLTER, "latency", "--json", "--compare", *files])
                self.assertEqual(compared.returncode, 0, compared.stderr)
                self.assertEqual(json.loads(compared.stdout)["schema"], "polter.latency.compare/1")

    def test_variability(self):
        for flavour in FLAVOURS:
            with self.subTest(flavour), p.folder() as folder:
                bench = p.command([p.POLTER, "bench", "bsp", "--json", "--workload", "time", "--grain", "200us", "--phases", 200, *p.launcher(flavour, 2)])
                self.assertEqual(bench.returncode, 0, bench.stderr)
                (folder / "bsp.json").write_text(bench.stdout)
                measured = json.loads(bench.stdout)
                self.assertTrue(all(0 <= rank < 2 for rank in measured["slowest_rank"]))
                self.assertTrue(all(a <= b for a, b in zip(measured["shortest_wait_ns"], measured["longest_wait_ns"])))
                done = p.command([p.POLTER, "variability", "--json", folder / "bsp.json", "--ranks", "4,8", "--check", folder / "bsp.json"])
                self.assertEqual(done.returncode, 0, done.stderr)
                result = json.loads(done.stdout)
                self.assertEqual([x["ranks"] for x in result["kinds"][0]["projections"]], [2, 4, 8])
                # On a machine that is busy with something else intervals may be too much alike: then there is no basis.
                self.assertIn(result["check"]["typical_inside"], (True, None))
                self.assertGreater(result["check"]["share_inside"] or 1, 0.9)
                done = p.command([p.POLTER, "run", "-q", "-o", folder / "trace", *bsp(flavour, 100)])
                self.assertEqual(done.returncode, 0, done.stderr)
                done = p.command([p.POLTER, "variability", "--json", folder / "trace"])
                self.assertEqual(done.returncode, 0, done.stderr)
                result = json.loads(done.stdout)
                self.assertGreaterEqual(result["kinds"][0]["intervals"], 90)
                self.assertEqual(schemas.faults("variability", result), [])
                self.assertAlmostEqual(sum(part["of_variance"] for part in result["kinds"][0]["parts"]), 1, places=6)
                self.assertGreater(result["kinds"][0]["length"]["mean"]["value"], 200_000)

    def test_quality(self):
        flavour = FLAVOURS[0]
        with p.folder() as folder:
            history = folder / "history"
            for number in range(5):
                done = p.command([p.POLTER, "run", "-q", "--record", history, "--size", 50, "-o", folder / f"run{number}", *bsp(flavour, 50)])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(list((history / "jobs").glob("*.job"))), number + 1, done.stderr)
            listed = p.command([p.POLTER, "quality", "--list", history])
            self.assertEqual(len(listed.stdout.splitlines()), 5)
            done = p.command([p.POLTER, "quality", "--json", history])
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual((result["schema"], result["history"], result["job"]["processes"], result["job"]["size"]), ("polter.quality/1", 4, 2, 50))
            self.assertEqual(result["job"]["application"], f"polter-bsp-{flavour}")
            self.assertGreater(result["job"]["runtime_ns"], 50 * 200_000)
            self.assertIn(result["verdict"], ("as expected", "slower", "faster"))
            self.assertEqual(schemas.faults("quality", result), [])
            self.assertGreater(result["online"]["interval_ns"], 0)
            self.assertTrue(result["online"]["points"] or result["online"]["no_basis"])
            asked = json.loads(p.command([p.POLTER, "quality", "--json", "--interval", "2ms", history]).stdout)["online"]
            self.assertIn(asked["work"], ("calls", "bytes"))
            self.assertGreater(len(asked["points"]), 2)
            self.assertEqual([point["elapsed_ns"] for point in asked["points"][:2]], [asked["interval_ns"], 2 * asked["interval_ns"]])
            for wrong in ("soon", "0"):
                self.assertEqual(p.command([p.POLTER, "quality", "--interval", wrong, history]).returncode, 2)
            # A job that fails is not recorded, and its exit code stays its own.
            done = p.command([p.POLTER, "run", "-q", "--record", history, "-o", folder / "failed", "--mpi", flavour, "sh", "-c", "exit 7"])
            self.assertEqual(done.returncode, 7)
            self.assertIn("not recorded", done.stderr)
            self.assertEqual(len(list((history / "jobs").glob("*.job"))), 5)

    def test_predict(self):
        flavour = FLAVOURS[0]
        with p.folder() as folder:
            trace = folder / "trace"
            done = p.command([p.POLTER, "run", "-q", "-o", trace, *bsp(flavour, 50)])
            self.assertEqual(done.returncode, 0, done.stderr)
            done = p.command([p.POLTER, "predict", "--json", trace, "--ranks", "8,64"])
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(done.stdout)
            self.assertEqual(schemas.faults("predict", result), [])
            self.assertEqual((result["scaling"], result["measured"]["ranks"]), ("weak", 2))
            said = p.command([p.POLTER, "predict", trace, "--ranks", "8,64"])
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertNotIn("\\x", said.stdout)
            if result["no_basis_because"]:  # no exporter works here
                self.assertIn("No basis", said.stdout)
                return
            self.assertEqual([one["ranks"] for one in result["predictions"]], [8, 64])
            self.assertIn("weak scaling", said.stdout.lower())
            same = json.loads(p.command([p.POLTER, "predict", "--json", "--as-recorded", trace, "--ranks", "2"]).stdout)
            self.assertEqual(same["predictions"][0]["accumulated_noise"]["value"], same["measured"]["accumulated_noise_ns"])
            self.assertEqual(same["predictions"][0]["run_time_without_noise_ns"], same["measured"]["run_time_without_noise_ns"])
            for ranks, grid, why in (("1", "1", "at least 2"), ("8", "4,4", "do not extend")):
                wrong = p.command([p.POLTER, "predict", trace, "--ranks", ranks, "--grid", grid])
                self.assertEqual(wrong.returncode, 1)
                self.assertIn(why, wrong.stderr)

    def test_input_that_cannot_be_used(self):
        with p.folder() as folder:
            (folder / "empty.json").write_text("{}")
            (folder / "half.json").write_text('{"schema": "polter.latency.raw/1", "ranks": 2')
            (folder / "nan.json").write_text('{"schema": "polter.latency.raw/1", "ranks": NaN}')
            for words, code, text in (
                (["interference"], 2, "TRACE"),
                (["interference", folder / "nothing"], 1, "nothing"),
                (["interference", folder], 1, str(folder)),
                (["quality"], 2, "HISTORY"),
                (["quality", folder], 1, "no history"),
                (["quality", "--follow", folder, folder], 1, "no history"),
                (["quality", "--follow", folder, "--list", folder], 2, "--list"),
                (["quality", "--size", "3", folder], 2, "--follow"),
                (["run", "--size", "3", "true"], 2, "--record"),
                (["run", "--record", folder, "--profile", "true"], 2, "--profile"),
                (["predict", folder], 2, "--ranks"),
                (["predict", folder, "--ranks", "many"], 2, "--ranks"),
                (["predict", folder, "--ranks", "0"], 2, "--ranks"),
                (["predict", folder / "nothing", "--ranks", "8"], 1, "nothing"),
                (["variability"], 2, "INPUT"),
                (["variability", folder / "nothing.json"], 1, "nothing.json"),
                (["variability", folder / "empty.json"], 1, "polter bench bsp"),
                (["variability", folder / "half.json"], 1, "half.json"),
                (["variability", folder], 1, str(folder)),
                (["variability", folder / "empty.json", "--ranks", "0"], 2, "--ranks"),
                (["latency", "--compare", folder / "empty.json"], 2, "--compare"),
                (["latency", "--compare", folder / "empty.json", folder / "empty.json"], 1, "no result of polter latency"),
                (["latency", "--from", folder / "half.json"], 1, "half.json"),
                (["latency", "--from", folder / "nan.json"], 1, "nan.json"),
                (["latency", "--from", folder / "empty.json"], 1, "no result of the latency benchmark"),
                (["latency", "--top", "10ns"], 2, "--top"),
                (["latency", "--nonsense"], 2, "--nonsense"),
                (["latency", "--seed", "3"], 2, "--compare"),
                (["latency", "mpirun", "-n", "1"], 1, "one rank"),
                (["run", "--profile", "-o", folder / "z", "--papi", "PAPI_TOT_INS", "mpirun", "-n", "2", "true"], 1, "--perf"),
            ):
                with self.subTest(words=[str(w) for w in words]):
                    done = p.command([p.POLTER, *words])
                    self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                    self.assertIn(text, done.stderr)


if __name__ == "__main__":
    if not FLAVOURS:
        print("SKIP: no MPI launcher, or the benchmarks are not built")
        sys.exit(77)
    unittest.main(verbosity=2)
