# SPDX-License-Identifier: BSD-3-Clause
"""What the replay has to hold over random programs: the goal, and what it reaches today.

Each class is judged on its own. An error below 0.05 % of the runtime counts as none, and a true noise below that is measured against the
runtime. `share` bars are at least, the others at most; all in percent. None: no bar.
"""

import dataclasses
import statistics

import bars

SIMULATOR_FAILS_PERCENT = 2  # of the programs: more, and the generator writes what SMPI cannot run
TRUE_NOISE_WANTED = 100 * bars.RUNTIME_TOLERANCE  # % of the runtime
HABIT_PERCENT = 0.1  # of the true noise: what a recorder's habit may change, 95th percentile


@dataclasses.dataclass(frozen=True)
class Bars:
    median: float | None  # error
    most: float | None  # error: 95th percentile
    unconditional: float | None = None  # share of results
    inside: float | None = None  # share of the unconditional results whose bounds contain the truth
    width: float | None = None  # of the bounds: median, % of the runtime


GOAL = {
    ("visible", "events"): Bars(median=0.3, most=3, unconditional=70, inside=99, width=1),
    ("visible", "counters"): Bars(median=2, most=15),
}
# With a margin above what was measured when this was written: tighten them as the replay improves. A run is deterministic by its seeds.
REACHED = {
    ("visible", "events"): Bars(median=0.3, most=5, unconditional=80, inside=95, width=2),
    ("visible", "counters"): Bars(median=2, most=20),
    ("hidden", "events"): Bars(median=10, most=60),
    ("hidden", "counters"): Bars(median=10, most=60),
}
SETS = {"goal": GOAL, "reached": REACHED}
# What habits reach today where it is not HABIT_PERCENT.
HABITS_REACHED = {
    ("inside", "events"): 1,
    ("inside", "counters"): 5,
    ("ticks", "events"): 6,
    ("ticks", "counters"): 15,
    ("plain", "events"): 50,
    ("plain", "counters"): 50,
}


def habit_limit(name, habit, form):
    return HABITS_REACHED.get((habit, form), HABIT_PERCENT) if name == "reached" else HABIT_PERCENT


def error(judged):
    """In percent of the true noise, with its sign; where there is next to none, of the runtime."""
    if judged["error_percent"] is None or judged["true_percent_of_runtime"] < TRUE_NOISE_WANTED:
        return judged["error_percent_of_runtime"]
    return judged["error_percent"]


def change(outcome, form, habit):
    """By how much a recorder's habit changes the estimate: in percent of the true noise, at least of a part of the runtime."""
    return 100 * outcome[form]["habits"][habit] / max(abs(outcome["true_noise_ns"]), bars.RUNTIME_TOLERANCE * outcome["runtime_ns"])


def effective_error(judged):
    return 0.0 if abs(judged["error_percent_of_runtime"]) <= 100 * bars.RUNTIME_TOLERANCE else abs(error(judged))


def share(flags):
    flags = list(flags)
    return 100 * sum(flags) / len(flags) if flags else None


def figures(judged):
    """Of one class of results."""
    errors = [effective_error(j) for j in judged]
    sure = [j for j in judged if not j["conditional"]]
    return {
        "programs": len(judged),
        "median": statistics.median(errors),
        "most": bars.percentile(errors, 95),
        "unconditional": share(not j["conditional"] for j in judged),
        "inside": share(j["bounds_cover"] for j in sure),
        "width": statistics.median(j["bounds_width_percent"] for j in judged),
        "outside": sum(not j["bounds_cover"] for j in sure),
    }


def missed(found, wanted):
    """Names of the bars that `found`, of figures(), misses."""
    for name in ("median", "most", "width"):
        if getattr(wanted, name) is not None and found[name] > getattr(wanted, name):
            yield f"{name} {found[name]:.2f} > {getattr(wanted, name)}"
    for name in ("unconditional", "inside"):
        if getattr(wanted, name) is not None and found[name] is not None and found[name] < getattr(wanted, name):
            yield f"{name} {found[name]:.1f} < {getattr(wanted, name)}"


def failing(outcome):
    """Why this program alone is worth shrinking, or None: "simulator", "failed", "outside" or "error"."""
    if "failed" in outcome:
        return "simulator" if outcome["simulator"] else "failed"
    for form in ("events", "counters"):
        if not outcome[form]["bounds_cover"] and not outcome[form]["conditional"]:
            return "outside"
    wanted = GOAL.get((outcome["dependencies"], "events"))
    return "error" if wanted and effective_error(outcome["events"]) > wanted.most else None
