# SPDX-License-Identifier: BSD-3-Clause
"""What fuzz_truth.py prints: a line for each program, a summary by class of dependencies, a table by kind of phase."""

import collections
import dataclasses
import statistics

import bars
import fuzz_bars

FORMS = ("events", "counters")
HEADER = (
    f"{'program':34} {'ranks':>5} {'latency':>8} {'phases':>6} {'class':7} {'quiet ms':>9} {'slowed':>8}"
    f" {'events':>10} {'bounds':>16} {'counters':>10} {'bounds':>16}  why conditional"
)


def bounds(judged):
    where = "cond." if judged["conditional"] else "in" if judged["bounds_cover"] else "OUT"
    if judged["conditional"] and not judged["bounds_cover"]:
        where = "cond. out"
    return f"{judged['bounds_width_percent']:.2f}% {where}"


def why(outcome):
    warnings = outcome["events"]["warnings"] if outcome["events"]["conditional"] else []
    return next((text for text in warnings if "conditional" in text.lower()), warnings[0] if warnings else "")[:90]


def changed(o):
    """Habits that change the estimate."""
    changes = {f"{habit}, {form}": fuzz_bars.change(o, form, habit) for habit in o["events"].get("habits", {}) for form in FORMS}
    return "".join(f" [{name}: {change:+.2f}%]" for name, change in changes.items() if abs(change) > fuzz_bars.HABIT_PERCENT)


def line(o):
    case = o["case"]
    phases = sum(len(block["phases"]) for block in case["blocks"])
    text = f"{o['name']:34} {case['ranks']:5} {case['machine']['latency']:>8} {phases:6} {o['dependencies']:7}"
    if "failed" in o:
        said = o["failed"].splitlines()
        return f"{text} {'SIMULATOR FAILED' if o['simulator'] else 'FAILED'}: {said[0][:60]} … {said[-1][:200]}"
    text += f" {o['runtime_ns'] / 1e6:9.2f} {o['slowdown_percent']:7.2f}%"
    for form in FORMS:
        text += f" {fuzz_bars.error(o[form]):+9.2f}% {bounds(o[form]):>16}"
    return f"{text}  {why(o)}{changed(o)}"


def classes(outcomes):
    """(class, form) → what replay.judge gave, without cases that are known to be open."""
    found = collections.defaultdict(list)
    for o in outcomes:
        if "failed" not in o and not o["open"]:
            for form in FORMS:
                found[o["dependencies"], form].append(o[form])
    return found


def summary(outcomes):
    return {
        "programs": len(outcomes),
        "simulator_failed": sum(o.get("simulator", False) for o in outcomes),
        "replay_failed": sum("failed" in o and not o["simulator"] for o in outcomes),
        "classes": {" ".join(key): fuzz_bars.figures(judged) for key, judged in sorted(classes(outcomes).items())},
    }


def missed(outcomes, name, habits):
    """Of the set `name` of fuzz_bars.py, in words."""
    found = classes(outcomes)
    texts = []
    for key, limits in fuzz_bars.SETS[name].items():
        if key[1] == "counters" and len(found[key]) == 1:
            limits = dataclasses.replace(limits, median=None)  # one program's error is no median: without events it scatters more than that
        if found[key]:
            texts += [f"{' '.join(key)}: {text}" for text in fuzz_bars.missed(fuzz_bars.figures(found[key]), limits)]
    unable = 100 * sum(o.get("simulator", False) for o in outcomes) / len(outcomes)
    if unable > fuzz_bars.SIMULATOR_FAILS_PERCENT:
        texts.append(f"SMPI could not run {unable:.1f}% of the programs, at most {fuzz_bars.SIMULATOR_FAILS_PERCENT}")
    for habit, form, changes in habit_changes(outcomes, habits):
        limit = fuzz_bars.habit_limit(name, habit, form)
        if bars.percentile(changes, 95) > limit:
            texts.append(f"habit {habit}, {form}: 95th percentile {bars.percentile(changes, 95):.3f} > {limit}")
    return texts


def percent(value):
    return "-" if value is None else f"{value:.1f}%"


def summary_lines(outcomes):
    whole = summary(outcomes)
    yield f"{'class':18} {'programs':>8} {'error: median':>14} {'95th':>9} {'not conditional':>16} {'of those inside':>16} {'width: median':>14}"
    for name, f in whole["classes"].items():
        yield (
            f"{name:18} {f['programs']:8} {f['median']:13.2f}% {f['most']:8.2f}% {percent(f['unconditional']):>16} {percent(f['inside']):>16}"
            f" {f['width']:13.2f}%"
        )
    yield f"{whole['programs']} programs; SMPI could not run {whole['simulator_failed']}, the replay failed on {whole['replay_failed']}"
    for o in outcomes:
        if o["open"] and "failed" not in o and fuzz_bars.failing(o) is None:
            yield f"the open case {o['name']} holds its bars now: it need not be open any more"


def habit_changes(outcomes, habits):
    """(habit, form, changes of the estimate where another recorder writes the same run)."""
    done = [o for o in outcomes if "failed" not in o and not o["open"]]
    for habit in habits if done else []:
        for form in FORMS:
            yield habit, form, [abs(fuzz_bars.change(o, form, habit)) for o in done]


def habit_lines(outcomes, habits):
    for habit, form, changes in habit_changes(outcomes, habits):
        beyond = sum(change > fuzz_bars.HABIT_PERCENT for change in changes)
        yield (
            f"habit {habit}, {form}: the estimate changes by {statistics.median(changes):.3f}% of the noise in the median,"
            f" 95th {bars.percentile(changes, 95):.3f}%; by more than {fuzz_bars.HABIT_PERCENT}% in {beyond} of {len(changes)}"
        )


def by_kind(outcomes):
    """Markdown: errors in percent of the true noise, for each latency."""
    groups = collections.defaultdict(list)
    for o in outcomes:
        groups[o["case"]["kind"]].append(o)
    latencies = sorted({o["case"]["machine"]["latency"] for o in outcomes}, key=lambda text: float(text.removesuffix("us")))
    columns = [f"{form}, {latency}: median, 95th" for form in FORMS for latency in latencies]
    yield f"| kind | programs | {' | '.join(columns)} | not conditional | outside | width, % | failed |"
    yield "|---|---|" + "---|" * (len(columns) + 4)
    for kind, programs in groups.items():
        done = [o for o in programs if "failed" not in o]
        cells = [kind, str(len(programs))]
        for form in FORMS:
            for latency in latencies:
                errors = [fuzz_bars.effective_error(o[form]) for o in done if o["case"]["machine"]["latency"] == latency]
                cells.append(f"{statistics.median(errors):.2f}, {bars.percentile(errors, 95):.2f}" if errors else "-")
        sure = [o[form] for o in done for form in FORMS if not o[form]["conditional"]]
        cells.append(percent(fuzz_bars.share(not o["events"]["conditional"] for o in done)))
        cells.append(f"{sum(not j['bounds_cover'] for j in sure)} of {len(sure)}")
        cells.append(f"{statistics.median(o['events']['bounds_width_percent'] for o in done):.2f}" if done else "-")
        cells.append(str(len(programs) - len(done) or ""))
        yield "| " + " | ".join(cells) + " |"
