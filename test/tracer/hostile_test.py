#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hostile_test.py TRACER READER LAUNCHER PROGRAMS [OTHER…]: the tracer in programs and surroundings that do not behave. OTHER: the
tracers of other MPIs than the programs'.

The program's own result must be what it is without the tracer, and what was traced until then must be there.
"""
import json
import os
import subprocess
import sys
import tempfile

tracer, reader, launcher, programs, *others = sys.argv[1:]
hostile = os.path.join(programs, "hostile")
plugin = [os.path.join(programs, os.pardir, "test-plugin"), os.path.join(programs, "libhostile.so")]
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
FORTRAN = [f"fortran_{p}-{b}" for p in ("messages", "groups") for b in (1, 2, 3) if os.path.exists(os.path.join(programs, f"fortran_{p}-{b}"))]
failures = []


def launch(experiment, *arguments, traced=True, command=None, preload=tracer, limit=120):
    environment = [f"POLTER_EXPERIMENT={experiment}", "POLTER_EXPORTER=none", "POLTER_BUFFER_CHUNKS=2", f"LD_PRELOAD={preload}"]
    line = [launcher, "-n", "2", *(["env", *environment] if traced else []), *(command or [hostile]), *arguments]
    return subprocess.run(line, env={**os.environ, **ROOT}, capture_output=True, text=True, timeout=limit, check=False)


def read(experiment):
    done = subprocess.run([reader, experiment], capture_output=True, text=True, timeout=120, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"ranks": {}, "problems": [done.stderr], "warnings": []}


def check(case, condition, detail=""):
    print(("ok    " if condition else "FAILED"), case, "" if condition else detail)
    if not condition:
        failures.append(case)


def allreduces(trace, rank):
    return trace["ranks"].get(str(rank), {}).get("collectives", {}).get("ALLREDUCE", {}).get("calls", -1)


with tempfile.TemporaryDirectory() as folder:

    def experiment(name):
        path = os.path.join(folder, name)
        os.mkdir(path)
        return path

    for case in ("fork", "after", "errors"):
        where = experiment(case)
        done = launch(where, case)
        trace = read(where)
        check(f"{case}: the program ends well", done.returncode == 0, done.stderr)
        check(f"{case}: nothing is wrong with the trace", case == "errors" or not trace["problems"] + trace["warnings"], trace)
        check(f"{case}: all of both ranks is there", allreduces(trace, 0) == allreduces(trace, 1) == 1000, trace)
        if case == "errors":  # the one that failed has no end; the one that did not has
            check("errors: only what failed is open", all(r["open_requests"] == 2 - r["receives"] <= 1 for r in trace["ranks"].values()), trace)

    # 200,000 calls are more than the buffers and what OTF2 holds back, so there are flushes, and chunks that only the tail has.
    for case in ("exit", "abort", "kill"):
        plain = launch(folder, case, traced=False)
        for times in (1000, 200000):
            for attempt in range(3):
                where = experiment(f"{case}{times}.{attempt}")
                done = launch(where, case, str(times))
                # Which of the ranks' ends Hydra reports is chance, traced or not: once in some dozens of times it is the other's.
                if done.returncode == plain.returncode:
                    break
                plain = launch(folder, case, traced=False)
            check(f"{case} {times}: the job's result is the untraced one", done.returncode == plain.returncode, (done, plain))
            trace = read(where)
            check(f"{case} {times}: every call until then is in the trace", allreduces(trace, 0) == allreduces(trace, 1) == times,
                  (allreduces(trace, 0), allreduces(trace, 1), trace["problems"], trace["warnings"]))
            check(f"{case} {times}: marked", any("unfinished" in w for w in trace["warnings"]), trace["warnings"])

    # A child that ends by exit() has its parent's buffers; most of what is not flushed yet lies there.
    where = experiment("fork20000")
    done = launch(where, "fork", "20000")
    trace = read(where)
    check("fork 20000: the program ends well", done.returncode == 0, done.stderr)
    check("fork 20000: the child's end adds nothing", not trace["problems"] + trace["warnings"]
          and allreduces(trace, 0) == allreduces(trace, 1) == 20000, trace)

    # Files that may not grow: tracing ends, the program does not. First where the program itself lowers the limit.
    for case in ("limited", "limited-exit"):
        for times in (20000, 200000):
            plain = launch(folder, case, str(times), traced=False)
            where = experiment(f"{case}{times}")
            done = launch(where, case, str(times))
            check(f"{case} {times}: the job's result is the untraced one", (done.returncode, done.stdout) == (plain.returncode, plain.stdout), (done, plain))
            trace = read(where)
            check(f"{case} {times}: what was before is in the trace", min(allreduces(trace, r) for r in (0, 1)) >= times, trace)
    check("limited: said once a rank", launch(experiment("said"), "limited", "200000").stderr.count("tracing ends here") == 2)
    # And where it is there from the start: below a tail file, and below what is flushed.
    for limit in (100_000, 1_000_000, 6_000_000):
        wrap = ["prlimit", f"--fsize={limit}", hostile]
        plain = launch(folder, "after", "300000", traced=False, command=wrap)
        if plain.returncode != 0:
            print(f"SKIP: this MPI itself does not start with files of at most {limit} bytes")
            continue
        where = experiment(f"fsize{limit}")
        done = launch(where, "after", "300000", command=wrap)
        check(f"files of at most {limit} bytes: the job's result is the untraced one", (done.returncode, done.stdout) == (0, plain.stdout), done)
        check(f"files of at most {limit} bytes: said once a rank", done.stderr.count("tracing ends here") == 2, done.stderr)

    # Functions that this MPI lacks are not looked for on the disk one by one: a rank searches for hardly more libraries than untraced.
    def searches(traced):
        output = os.path.join(experiment(f"loader-{traced}"), "ld")
        where = experiment(f"loader-experiment-{traced}")
        launch(where, "after", "10", traced=traced, command=["env", "LD_DEBUG=libs", f"LD_DEBUG_OUTPUT={output}", hostile])
        files = [os.path.join(os.path.dirname(output), name) for name in os.listdir(os.path.dirname(output))]
        return max(sum("find library=" in line for line in open(file, encoding="utf-8", errors="replace")) for file in files)

    plain, traced = searches(False), searches(True)
    check("loader: libraries are looked up once", traced <= plain + 20, (plain, traced))

    # A thread that ends inside of MPI, by pthread_exit or pthread_cancel, unwinds the tracer's frames: as far as the MPI itself lives through it.
    cancel = [os.path.join(programs, "cancel")]
    for case in ("exit", "self", "probe", "receive"):
        try:
            plain = launch(folder, case, traced=False, command=cancel, limit=20)
        except subprocess.TimeoutExpired:
            plain = None
        if plain is None or plain.stdout.count("ended inside") != 2:
            print(f"SKIP: thread ends inside of MPI ({case}): this MPI does not live through it untraced")
            continue
        where = experiment(f"cancel-{case}")
        done = launch(where, case, command=cancel)
        check(f"thread ends inside of MPI ({case}): the job's result is the untraced one",
              (done.returncode, sorted(done.stdout)) == (plain.returncode, sorted(plain.stdout)), (done, plain))  # both ranks' lines may mix
        if case != "receive":  # after which the program cannot go on
            trace = read(where)
            check(f"thread ends inside of MPI ({case}): the others' calls are in the trace",
                  allreduces(trace, 0) == allreduces(trace, 1) == 1000 and (case in ("exit", "self") or not trace["problems"]), trace)  # their sends began, to nobody

    where = experiment("window")
    launch(where, "window")
    trace = read(where)
    windows = [[r["collectives"].get(op, {}).get("calls") for op in ("RMA_CREATE_HANDLE", "RMA_BARRIER", "PUT")] for r in trace["ranks"].values()]
    check("window: all of both ranks is there", windows == [[1, 1000, 999]] * 2, trace)
    check("window: nothing but the end is missing", not trace["problems"], trace["problems"])

    done = launch(os.path.join(folder, "missing"), "after")
    check("no such directory: the job goes on", done.returncode == 0, done.stderr)
    check("no such directory: one line a rank says so", done.stderr.count("is not traced") == 2, done.stderr)

    where = experiment("no-mpi")
    done = launch(where, "no-mpi")
    check("a program that does not initialise MPI leaves nothing", done.returncode == 0 and not os.listdir(where), done.stderr)
    for attempt in range(3):  # Hydra, under load, now and then fails a program that ends at once
        done = launch(where, "-c", "true", command=["bash"])
        if done.returncode == 0:
            break
    check("a shell leaves nothing", done.returncode == 0 and not os.listdir(where), (done.returncode, os.listdir(where), done.stderr))

    # MPI behind a library that only its loader sees.
    where = experiment("plugin")
    done = launch(where, "after", command=plugin)
    trace = read(where)
    check("plugin: the program ends well", done.returncode == 0, done.stderr)
    check("plugin: all of both ranks is there", allreduces(trace, 0) == allreduces(trace, 1) == 1000, trace)

    # The same in Fortran: its constants are variables, and the plug-in has its own.
    for binding in (1, 2, 3):
        direct, loaded = os.path.join(programs, f"fortran_groups-{binding}"), os.path.join(programs, f"libfortran_groups-{binding}.so")
        if not os.path.exists(loaded):
            continue
        results = []
        for command in ([direct], [plugin[0], loaded]):
            where = experiment(f"fortran{binding}.{len(results)}")
            done = launch(where, command=command)
            results.append((done.stdout, [{k: r[k] for k in ("sends", "sent_bytes", "received_bytes", "collectives", "calls")}
                                          for r in read(where)["ranks"].values()]))
        check(f"Fortran plugin {binding}: the trace is that of the program itself", results[0] == results[1] and len(results[1][1]) == 2, results)

    for other in others:
        for command in ([hostile], plugin, *([os.path.join(programs, p)] for p in ("p2p", "nonblocking", "persistent", "probe", "collectives",
                                                                                   "communicators", "threads", *FORTRAN))):
            name = os.path.basename(other) + " in " + os.path.basename(command[-1])
            where = experiment(name)
            done = launch(where, "10" if command[-1].endswith("threads") else "after", command=command, preload=other)
            check(f"{name}: the program ends well", done.returncode == 0, done.stderr)
            check(f"{name}: said once a rank", done.stderr.count("is for another MPI than the program's") == 2, done.stderr)
            check(f"{name}: leaves nothing", not os.listdir(where), os.listdir(where))

    # A file system that fills up while the job runs.
    small = experiment("small")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", small], capture_output=True, check=False).returncode == 0
    if mounted:
        try:
            done = launch(small, "after", "300000")
            check("full disk: the job goes on", done.returncode == 0, done.stderr)
            check("full disk: said once a rank", done.stderr.count("tracing ends here") == 2, done.stderr)
            subprocess.run(["mount", "-o", "remount,size=200m", small], check=True)
            trace = read(small)
            check("full disk: what was written before is there", min(allreduces(trace, 0), allreduces(trace, 1)) > 10000, trace)
        finally:
            subprocess.run(["umount", small], check=False)
        os.mkdir(os.path.join(folder, "tiny"))
        tiny = os.path.join(folder, "tiny")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tiny], check=True)
        try:
            done = launch(tiny, "after")
            check("no room from the start: the job goes on", done.returncode == 0, done.stderr)
            check("no room from the start: said", "No space left" in done.stderr, done.stderr)
        finally:
            subprocess.run(["umount", tiny], check=False)
    else:
        print("skipped: a file system that fills up needs the right to mount one")

sys.exit(f"{len(failures)} failed" if failures else 0)
