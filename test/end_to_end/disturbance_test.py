#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A competitor on rank 1's CPU: its time is found, named, agrees with the kernel's own figure, and is seen to propagate or to be
absorbed."""
import os
import sys
import unittest

import polter_run as p

PERCENT = 20
TRIES = 3
PHASES, WORK = 400, 4_000_000


def source(rank, name):
    return rank["sources"].get(name, {}).get("local_noise_ns", 0)


class Disturbance(unittest.TestCase):
    def disturbed(self, flavour, *arguments):
        with p.folder() as folder, p.rival(1, PERCENT):
            run = p.Run([*p.launcher(flavour, 2), p.PROGRAMS / flavour / "bsp", PHASES, WORK, *arguments], folder / "e")
            self.assertEqual(run.code, 0, run.explain())
            return run.result, run.program_json()

    def attempt(self, check, *arguments):
        """On each MPI, until it holds or has failed too often."""
        p.on_each_mpi(lambda flavour: check(*self.disturbed(flavour, *arguments)), TRIES)

    def test_found_and_named(self):
        def check(result, program):
            zero, one = result["per_rank"]
            one_services = one.get("services", {})
            preempted = source(one, "preempt") + one_services.get("preempt_job", 0)
            off_cpu = preempted + source(one, "runqueue") + one_services.get("wakeup", 0)
            account = program["ranks"][1]
            least, most = p.preempted_bounds(account)
            print(f"preempt {source(one, 'preempt')}, preempted {preempted}, off the CPU {off_cpu}; {account}", file=sys.stderr)
            self.assertGreater(preempted, 0.98 * least)
            self.assertLess(preempted, 1.02 * most)
            # The kernel's own sum ends a wait after a wake-up on an idle CPU early, so no more is said of those.
            self.assertGreater(off_cpu, 0.98 * (least + account["woken_ns"]))
            self.assertGreater(source(one, "preempt"), 0.9 * least)
            worst = max((c for c in result["culprits"] if c["rank"] == 1 and c["source"] == "preempt"), key=lambda c: c["local_ns"])
            self.assertEqual(worst["culprit"], "polter-rival")

        self.attempt(check)

    def test_propagates(self):
        def check(result, _):
            zero, one = result["per_rank"]
            print(f"local {zero['local_noise_ns']} {one['local_noise_ns']}, accumulated {zero['accumulated_noise_ns']} {one['accumulated_noise_ns']}",
                  file=sys.stderr)
            self.assertLess(zero["local_noise_ns"], 0.5 * one["local_noise_ns"])
            self.assertGreaterEqual(zero["accumulated_noise_ns"], 0.9 * one["accumulated_noise_ns"])

        self.attempt(check)

    def test_is_absorbed_by_slack(self):
        def check(result, _):
            one = result["per_rank"][1]
            preempt = result["sources"]["preempt"]
            # What rank 1's competitor costs: rank 0 has next to none of this source itself.
            cost = preempt["alone_ns"] - source(result["per_rank"][0], "preempt")
            print(f"rank 1 lost {source(one, 'preempt')} to preemption, cost {cost}", file=sys.stderr)
            self.assertGreater(source(one, "preempt"), 0)
            self.assertLessEqual(cost, 0.1 * source(one, "preempt"))

        self.attempt(check, 1, 40)  # rank 1 has 40 % of the work

    def test_oversubscription_is_a_service(self):
        """Four ranks a CPU: what they take of each other is no noise, and the result says what it is."""
        ranks = 4 * len(os.sched_getaffinity(0))
        if ranks > 32:
            self.skipTest("too many CPUs to be oversubscribed")
        for flavour in p.FLAVOURS:
            with p.folder() as folder:
                run = p.Run([*p.launcher(flavour, ranks), p.PROGRAMS / flavour / "bsp", 20, 1_000_000], folder / "e")
                self.assertEqual(run.code, 0, run.explain())
                services = run.result["services"]["preempt_job"]["local_ns"]["mean"]
                noise = sum(s["local_noise_ns"]["mean"] for name, s in run.result["sources"].items() if name in ("preempt", "runqueue"))
                print(f"{flavour}: preempt_job {services}, preempt and runqueue {noise}", file=sys.stderr)
                self.assertGreater(services, noise)
                self.assertGreater(services, 0.05 * run.result["measured_ns"])
                self.assertTrue(any("more of them than CPUs" in w for w in run.result["warnings"]), run.result["warnings"])


if __name__ == "__main__":
    if not p.FLAVOURS:
        print("SKIP: no MPI launcher")
        sys.exit(77)
    if len(os.sched_getaffinity(0)) < 2:
        print("SKIP: one CPU only: a competitor cannot be kept to one rank")
        sys.exit(77)
    why = p.exporter_works()
    if why:
        print("SKIP: no exporter works here: " + why.splitlines()[0])
        sys.exit(77)
    p.go_first()
    unittest.main(verbosity=2)
