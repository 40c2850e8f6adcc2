#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Records the stream of kernel events of streams_test: boots the guest, lets its own tracing watch some programs, and writes what it saw.

  record.py --test GUEST_SCENARIOS --polterd POLTERD --cache FOLDER >recorded.txt

One event a line, with the CPU's counter for a clock: NS CPU PID EVENT …, where EVENT is
  switch PREV_NAME PREV_PID STATE NEXT_NAME NEXT_PID    STATE as the kernel prints it: R+ for a preemption
  wakeup NAME PID CPU | migrate PID CPU
  enter KIND ID | leave KIND ID NAME                    KIND as in enum polter_frame_kind
"""

import argparse
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "guest"))
import guest_test
import kernels

INIT = """#!/bin/sh
mkdir -p /proc /sys /dev /run /tmp
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tracefs none /sys/kernel/tracing
insmod /polter.ko
cd /sys/kernel/tracing
echo x86-tsc >trace_clock
echo 8192 >buffer_size_kb
for e in sched/sched_switch sched/sched_wakeup sched/sched_migrate_task irq/irq_handler_entry irq/irq_handler_exit irq/softirq_entry \\
  irq/softirq_exit irq_vectors/local_timer_entry irq_vectors/local_timer_exit irq_vectors/reschedule_entry irq_vectors/reschedule_exit \\
  irq_vectors/call_function_single_entry irq_vectors/call_function_single_exit; do echo 1 >events/$e/enable; done
/guest_test cpu_unplugged >/dev/null
echo 0 >tracing_on
echo TRACE-BEGIN
cat trace
echo TRACE-END
poweroff -f
"""
VECTORS = {"local_timer": (1, 0), "reschedule": (3, 1), "call_function_single": (3, 3)}
MOST = 2600


def converted(line, names):
    """The line in the form above; None: it is no event."""
    head = re.match(r"\s*(.+)-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+): (\w+): (.*)", line)
    if not head:
        return None
    _, pid, cpu, clock, event, rest = head.groups()
    before = f"{clock} {int(cpu)} {pid}"
    fields = dict(re.findall(r"(\w+)=(.+?)(?= \w+=| ==>|$| \[)", rest))
    word = lambda name: re.sub(r"\s", "_", name)
    if event == "sched_switch":
        return (f"{before} switch {word(fields['prev_comm'])} {fields['prev_pid']} {fields['prev_state']} "
                f"{word(fields['next_comm'])} {fields['next_pid']}")
    if event == "sched_wakeup":
        return f"{before} wakeup {word(fields['comm'])} {fields['pid']} {int(fields['target_cpu'])}"
    if event == "sched_migrate_task":
        return f"{before} migrate {fields['pid']} {fields['dest_cpu']}"
    if event.startswith("irq_handler"):
        if event.endswith("entry"):
            names[fields["irq"]] = word(fields["name"])
            return f"{before} enter 2 {fields['irq']}"
        return f"{before} leave 2 {fields['irq']} {names.get(fields['irq'], '?')}"
    if event.startswith("softirq"):
        return f"{before} {'enter' if event.endswith('entry') else 'leave'} 4 {fields['vec']}"
    name, _, side = event.rpartition("_")
    if name in VECTORS:
        kind, number = VECTORS[name]
        return f"{before} {'enter' if side == 'entry' else 'leave'} {kind} {number}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("test", "polterd", "cache"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    options = parser.parse_args()
    guest_test.INIT = INIT
    release, headers = max((r, h) for r, h in kernels.installed_headers().items() if "cloud" in r)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        module, _ = kernels.build(headers, work / "build")
        said = guest_test.boot(kernels.image(release, options.cache), guest_test.initramfs(work, module, options.test, options.polterd, []))
    names = {}
    events = [e for e in (converted(line, names) for line in said.partition("TRACE-BEGIN")[2].splitlines()) if e]
    print(f"# Recorded by record.py on Linux {release}, two emulated CPUs: threads that compute and sleep while one CPU goes off and on.")
    print("\n".join(events[len(events) // 3:][:MOST]))


if __name__ == "__main__":
    main()
