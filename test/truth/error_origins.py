#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Where the replay's error first arises: the approximated timeline against the quiet run, event by event.

    test/truth/fuzz_truth.py --seeds 17 --visible --light --keep --work DIR
    test/truth/error_origins.py DIR/17 [--form counters] [--top 20]

Both runs execute the same calls in the same order (programs whose control flow does not depend on time), so the k-th Enter or Leave of a
rank is the same event in both. The error of an event is its approximated time minus its time in the quiet run. Propagation cannot make an
error larger than all errors before it: where an event's error exceeds, in either direction, that of every rank's latest event, it arose
there. The table adds up these increments by MPI call.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

EVENT = re.compile(r'^(ENTER|LEAVE)\s+(\d+)\s+(\d+)\s+Region: "([^"]*)"')


def events(anchor):
    """By location: (time, "ENTER" or "LEAVE", region) of each event."""
    found = collections.defaultdict(list)
    process = subprocess.Popen(["otf2-print", str(anchor)], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        event = EVENT.match(line)
        if event:
            found[int(event[2])].append((int(event[3]), event[1], event[4]))
    if process.wait() != 0:
        raise SystemExit(f"error_origins.py: otf2-print cannot read {anchor}")
    return found


def approximated(polter, trace, folder):
    subprocess.run([polter, "replay", "-q", "--json", "--write-approximated", str(folder), str(trace)], check=True, stdout=subprocess.DEVNULL)
    return events(pathlib.Path(folder) / "traces.otf2")


def first(of):
    return min(rows[0][0] for rows in of.values())


def errors(approximated_events, quiet_events):
    """All events in the order of the quiet run: (quiet time, location, region, kind, error, quiet length of the call)."""
    begins = first(approximated_events), first(quiet_events)
    rows = []
    for location, quiet in quiet_events.items():
        mine = approximated_events[location]
        if [row[1:] for row in mine] != [row[1:] for row in quiet]:
            raise SystemExit(f"error_origins.py: location {location} does not execute the same calls in both runs")
        enter = 0
        for (time, kind, region), (true, _, _) in zip(mine, quiet):
            if kind == "ENTER":
                enter = true
            rows.append((true - begins[1], location, region, kind, (time - begins[0]) - (true - begins[1]), true - enter))
    rows.sort(key=lambda row: row[0])
    return rows


def origins(rows):
    """(increment, event) for each event whose error exceeds, in one direction, those of all ranks' latest events."""
    current = {}
    for row in rows:
        error, location = row[4], row[1]
        others = [value for other, value in current.items() if other != location]
        before = current.get(location, 0)
        highest, lowest = max([0, before, *others]), min([0, before, *others])
        current[location] = error
        if error > highest:
            yield error - highest, row
        elif error < lowest:
            yield error - lowest, row


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=pathlib.Path)
    parser.add_argument("--form", choices=["events", "counters"], default="events")
    parser.add_argument("--polter", default=pathlib.Path(__file__).resolve().parent.parent.parent / "build" / "polter")
    parser.add_argument("--top", type=int, default=10, help="single events shown")
    options = parser.parse_args(argv)
    if not shutil.which("otf2-print"):
        print("SKIP: otf2-print is not installed (scripts/setup installs otf2-tools)")
        return 77
    with tempfile.TemporaryDirectory(prefix="error-origins-") as folder:
        approximation = approximated(options.polter, options.case / options.form / "traces.otf2", pathlib.Path(folder) / "approximated")
    rows = errors(approximation, events(options.case / "quiet" / "traces.otf2"))
    found = list(origins(rows))
    by_call = collections.Counter()
    for increment, row in found:
        by_call[row[2], row[3], increment > 0] += increment
    print(f"error at the end: {rows[-1][4]} ns; largest {max(r[4] for r in rows)}, least {min(r[4] for r in rows)}")
    for (region, kind, _), total in sorted(by_call.items(), key=lambda item: -abs(item[1]))[:15]:
        print(f"{total:12} ns  {kind:5} {region}")
    print("\nlargest single increments: ns, at (ns since the start), location, call, its length in the quiet run")
    for increment, row in sorted(found, key=lambda item: -abs(item[0]))[: options.top]:
        print(f"{increment:12} {row[0]:12} {row[1]:5} {row[3]} {row[2]} {row[5]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
