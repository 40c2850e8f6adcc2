#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Boots a small machine with the module in it, lets the scenarios run there, and reads its log.

  guest_test.py --kernel installed|newer|older --test GUEST_TEST --polterd POLTERD --cache FOLDER [--node NODE_TEST] [--scenarios NAME…] [--keep]
  guest_test.py --image VMLINUZ --module POLTER.KO …          any other kernel, and the module as it was built for it
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import kernels

# Without KVM: it hangs in machines that are guests themselves. Freed and neighbouring memory is watched by the allocator. The two CPUs are
# executed in turn: see below for what becomes of a kernel otherwise that patches its text.
QEMU = ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", "640", "-nodefaults", "-nographic",
        "-serial", "stdio", "-monitor", "none", "-no-reboot"]
# One instruction is a nanosecond there, whatever the machine that emulates has to do.
COUNTING = [*QEMU, "-smp", "1", "-icount", "shift=0,sleep=off"]
PARALLEL = [word.replace("thread=single", "thread=multi") for word in QEMU]
# A CPU that hangs ends it, and tells where all of them are.
COMMAND_LINE = "console=ttyS0 panic=-1 loglevel=5 slub_debug=FZP softlockup_panic=1 softlockup_all_cpu_backtrace=1"
INIT = """#!/bin/sh
echo
mkdir -p /proc /sys /dev /run /tmp
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t cgroup2 none /sys/fs/cgroup
insmod /polter.ko && chmod 755 / && /guest_test SCENARIOS
echo "EXIT $?"
rmmod polter && echo UNLOADED
NODE
echo LOG-BEGIN
dmesg
echo LOG-END
poweroff -f
"""
# The test of the whole node's noise, but for what needs a disk or other processes' pages. The loopback is for its packets.
NODE = """mkdir -p /var/tmp
ifconfig lo 127.0.0.1 up
/node_test -ts=guest
echo "NODE-EXIT $?"
"""
# What a kernel says when something is wrong in it.
ALARMS = re.compile(r"BUG[: ]|WARNING:|Oops|Call Trace|general protection|unable to handle|stall|scheduling while atomic|refcount_t|"
                    r"blocked for more than|Poison|Redzone|Object already free|list_(add|del) corruption|Bad page|leaked|Kernel panic")
HARMLESS = re.compile(r"out-of-tree module taints|module verification failed")


def libraries(program):
    """The shared libraries of a program, as the loader finds them."""
    said = subprocess.run(["ldd", program], text=True, capture_output=True).stdout
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", said)]


def initramfs(work, module, test, polterd, node, scenarios):
    root = work / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for tool in ("sh", "mount", "mkdir", "insmod", "rmmod", "cat", "chmod", "dmesg", "ifconfig", "poweroff"):
        (root / "bin" / tool).symlink_to("busybox")
    shutil.copy(module, root / "polter.ko")
    for program, name in ((test, "guest_test"), (polterd, "polterd"), *([(node, "node_test")] if node else [])):
        shutil.copy(program, root / name)
        subprocess.run(["strip", "-g", root / name], check=True)
        for library in libraries(program):
            place = root / str(library).lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                shutil.copy(library, place)
    (root / "init").write_text(INIT.replace("SCENARIOS", " ".join(scenarios)).replace("NODE\n", NODE if node else ""))
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = work / "initramfs"
    with archive.open("wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), stdout=out, cwd=root, check=True)
    return archive


def boot(kernel, archive, seconds, qemu):
    """All that the machine said on its console."""
    console = archive.with_name("console")
    late = ""
    with console.open("wb") as out:
        try:
            subprocess.run([*qemu, "-kernel", str(kernel), "-initrd", str(archive), "-append", COMMAND_LINE], stdin=subprocess.DEVNULL,
                           stdout=out, stderr=subprocess.STDOUT, timeout=seconds)
        except subprocess.TimeoutExpired:
            late = f"\nTIMEOUT after {seconds} s\n"
    return console.read_bytes().decode(errors="replace").replace("\r", "") + late


# An emulator that executes both CPUs at once may keep its translation of an instruction that the other CPU has overwritten in the
# meantime: QEMU before 8.1 reads the instruction first and watches its page for writes only then. No CPU does that. What is overwritten while
# other CPUs run is breakpoints (tracepoints, ftrace and static calls, switched on and off by each test): the kernel meets one that it has
# taken back. It says so and dies,
STALE_TRANSLATION = re.compile(r"Oops: int3: .*\n(?:.*\n){0,8}?.*Code: [0-9a-f ]*0f <1f> 44 00 00 ")
# or, where kprobes are asked first, has the instruction tried again, for ever: CPUs hang, with and without "int3" in their backtraces, and
# others wait for them. (Seen in one of ten runs, more on a busy machine.) What hangs in the module with no breakpoint is its own fault.
HANGS = re.compile(r"soft lockup|kthread timer wakeup didn't happen|detected stalls")
IN_MODULE = re.compile(r"\[polter\]")


def not_sound(said):
    """What the emulator did that no machine does; else nothing."""
    if STALE_TRANSLATION.search(said):
        return "executed a breakpoint that was no longer there"
    if HANGS.search(said) and "Call Trace" in said:
        if "exc_int3" in said:
            return "hung at a breakpoint that was no longer there"
        if not IN_MODULE.search(said):
            return "hung, with no backtrace in the module"
    return None


def boot_until_sound(*arguments, keep):
    """As often as the emulator is at fault, but three times at most."""
    for attempt in range(3):
        said = boot(*arguments)
        why = not_sound(said)
        if not why:
            break
        if keep:
            print(said)
        print(f"start {attempt + 1}: the emulator {why}")
    return said


def faults(said, node):
    """What is wrong with it, one line each; nothing: all went well."""
    lines = said.splitlines()
    found = [line for line in lines if ALARMS.search(line) and not HARMLESS.search(line)]
    found += [line for line in lines if line.startswith(("FAIL ", "TIMEOUT"))]
    if not re.search(r"^EXIT 0$", said, re.M):
        found.append("the scenarios did not end well (no EXIT 0)")
    if node and not re.search(r"^NODE-EXIT 0$", said, re.M):
        found.append("the node's test did not end well (no NODE-EXIT 0)")
    if not re.search(r"^PASS ", said, re.M):
        found.append("no scenario passed")
    for marker in ("UNLOADED", "LOG-BEGIN", "LOG-END"):
        if marker not in lines:
            found.append(f"it did not come to {marker}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=("installed", "newer", "older"), default="installed")
    parser.add_argument("--image", type=pathlib.Path, help="a kernel that is none of these, with --module")
    parser.add_argument("--module", type=pathlib.Path)
    parser.add_argument("--node", type=pathlib.Path, help="kmodule_node_test, to be run too")
    parser.add_argument("--test", type=pathlib.Path, required=True)
    parser.add_argument("--polterd", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--scenarios", nargs="*", default=[])
    parser.add_argument("--count-instructions", action="store_true", help="one CPU whose clock is that, for --scenarios costs")
    parser.add_argument("--parallel", action="store_true", help="both CPUs at once, started anew where the emulator fails in that")
    parser.add_argument("--megabytes", default="640", help="of the machine's memory; the node's object needs more on newer kernels")
    parser.add_argument("--seconds", type=int, default=360, help="how long the machine may take")
    parser.add_argument("--keep", action="store_true", help="print all that the machine said")
    options = parser.parse_args()
    for tool in ("qemu-system-x86_64", "busybox", "cpio", "make"):
        if not shutil.which(tool):
            print(f"SKIP: {tool} is not installed; scripts/setup installs it")
            return 77
    scenarios = options.scenarios
    try:
        if options.image:
            release, headers = options.image.name, None
        elif options.kernel == "newer":
            release, headers = kernels.newer_headers(options.cache)
        elif options.kernel == "older":
            release, headers = kernels.older_headers(options.cache)
            # Before 5.18 there is no eBPF backend.
            scenarios = scenarios or ["--without-bpf"]
        else:
            clouds = {r: h for r, h in kernels.installed_headers().items() if "cloud" in r}
            if not clouds:
                raise kernels.Unavailable("no kernel headers are installed (linux-headers-cloud-amd64)")
            release, headers = max(clouds.items())
        kernel = options.image or kernels.image(release, options.cache)
    except kernels.Unavailable as why:
        print(f"SKIP: no guest: {why}")
        return 77
    with tempfile.TemporaryDirectory(prefix="polter-guest-") as folder:
        work = pathlib.Path(folder)
        module = options.module or kernels.build(headers, work / "build")[0]
        kind = COUNTING if options.count_instructions else PARALLEL if options.parallel else QEMU
        machine = [options.megabytes if word == "640" else word for word in kind]
        archive = initramfs(work, module, options.test, options.polterd, options.node, scenarios)
        arguments = (kernel, archive, options.seconds, machine)
        said = boot_until_sound(*arguments, keep=options.keep) if options.parallel else boot(*arguments)
    wrong = faults(said, options.node)
    if wrong or options.keep:
        print(said)
    else:
        print("\n".join(line for line in said.splitlines() if line.startswith(("PASS", "  "))))
    print(f"kernel {release}: {'; '.join(wrong) if wrong else 'all went well'}")
    if wrong:
        print("rerun: " + " ".join(["PYTHONPATH=" + os.path.dirname(__file__), *sys.argv]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
