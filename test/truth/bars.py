# SPDX-License-Identifier: BSD-3-Clause
"""The bars that the replay has to hold, and whether it does.

Errors are |estimated − true| accumulated noise in percent of the true one; an error below RUNTIME_TOLERANCE of the quiet runtime counts
as none. Which bar a case has is told by its group's "dependencies": "visible" in the trace, "hidden" (what MPI or the network does inside
is not in it), or none, where one trace does not determine the answer: those are reported.
"""

import math
import statistics

RUNTIME_TOLERANCE = 0.0005
SLOWDOWN_WANTED = 0.10  # at least half of the cases with a bar must be slowed down by this much, or the bars are too easy
VISIBLE_PERCENT = 1  # each case
HIDDEN_MEDIAN_PERCENT, HIDDEN_MOST_PERCENT = 5, 15  # over the cases; most: the 95th percentile
COUNTERS_PERCENT = 10  # with counters at MPI events only: each visible case; of the hidden ones the 95th percentile
WIDTH_PERCENT = {"events": 1, "counters": 2}  # of the runtime: the median width of the bounds
VISIBLE_WIDTH_PERCENT = 5  # each case, with events


def effective_error(judged):
    """In percent of the true noise; 0 where it does not matter for the runtime."""
    if abs(judged["error_percent_of_runtime"]) <= 100 * RUNTIME_TOLERANCE or judged["error_percent"] is None:
        return 0.0
    return abs(judged["error_percent"])


def percentile(values, percent):
    """The nearest rank: one of the values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def missed_by(outcome):
    """What this case alone misses, in words."""
    missed = []
    if outcome["dependencies"] == "visible" and effective_error(outcome["events"]) > VISIBLE_PERCENT:
        missed.append("error")
    if outcome["dependencies"] == "visible" and not outcome["events"]["conditional"] and outcome["events"]["bounds_width_percent"] > VISIBLE_WIDTH_PERCENT:
        missed.append("width of the bounds")
    if outcome["dependencies"] == "visible" and effective_error(outcome["counters"]) > COUNTERS_PERCENT:
        missed.append("error with counters")
    for form in ("events", "counters"):
        if not outcome[form]["bounds_cover"] and not outcome[form]["conditional"]:
            missed.append("bounds" if form == "events" else "bounds with counters")
    return missed


def overall(outcomes):
    """The bars over many cases: name, value, most that is allowed, held."""
    bars = []

    def bar(name, value, most):
        bars.append({"name": name, "value": value, "most": most, "held": value <= most})

    hidden = [effective_error(o["events"]) for o in outcomes if o["dependencies"] == "hidden"]
    if len(hidden) > 1:
        bar("hidden dependencies: median error, %", statistics.median(hidden), HIDDEN_MEDIAN_PERCENT)
        bar("hidden dependencies: 95th percentile, %", percentile(hidden, 95), HIDDEN_MOST_PERCENT)
        counted = [effective_error(o["counters"]) for o in outcomes if o["dependencies"] == "hidden"]
        bar("hidden dependencies, counters: 95th percentile, %", percentile(counted, 95), COUNTERS_PERCENT)
    for form, most in WIDTH_PERCENT.items():
        widths = [o[form]["bounds_width_percent"] for o in outcomes if not o[form]["conditional"]]
        if len(widths) > 1:
            bar(f"{form}: median width of the bounds, % of the runtime", statistics.median(widths), most)
    barred = [o for o in outcomes if o["dependencies"]]
    if len(barred) > 1:
        slow = sum(o["slowdown_percent"] < 100 * SLOWDOWN_WANTED for o in barred)
        bar("cases slowed down by less than 10 %, % of them", 100 * slow / len(barred), 50)
    return bars


def summary(outcomes, whole):
    """`whole`: these are all cases, so what must hold over many of them can be judged."""
    done = [o for o in outcomes if "failed" not in o]
    barred = [o for o in done if o["dependencies"]]
    bars = overall(done) if whole else []
    return {
        "cases": len(outcomes),
        "failed": len(outcomes) - len(done),
        "with_bar": len(barred),
        "missed": sum(bool(o["missed"]) for o in done),
        "overall": bars,
        "median_error_percent": statistics.median([abs(o["events"]["error_percent"] or 0) for o in barred]) if barred else None,
        "held": len(done) == len(outcomes) and not any(o["missed"] for o in done) and all(bar["held"] for bar in bars),
    }
