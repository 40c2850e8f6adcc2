# SPDX-License-Identifier: BSD-3-Clause
"""What the end-to-end tests share: where things are, running a job traced, reading its result."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

BUILD = pathlib.Path(os.environ["POLTER_BUILD"])
POLTER = BUILD / "polter"
PROGRAMS = BUILD / "test" / "programs"
LIMIT = 240  # seconds, for any one command

ENVIRONMENT = dict(
    os.environ,
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    OMPI_MCA_rmaps_base_oversubscribe="1",
    OMPI_MCA_hwloc_base_binding_policy="none",
)
for name in [n for n in ENVIRONMENT if n.startswith("POLTER_")]:
    del ENVIRONMENT[name]

FLAVOURS = [f for f in ("openmpi", "mpich") if (PROGRAMS / f / "bsp").exists() and shutil.which(f"mpirun.{f}")]


def launcher(flavour, ranks):
    return [f"mpirun.{flavour}", "-n", str(ranks)]


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="polter-test-") as path:
        yield pathlib.Path(path)


def command(words, environment=None, limit=LIMIT, cwd=None):
    """Runs to its end, both outputs kept. A time-out is a failure of the test."""
    return subprocess.run([str(w) for w in words], env=dict(ENVIRONMENT, **(environment or {})), timeout=limit, check=False,
                          capture_output=True, text=True, cwd=cwd)


def go_first():
    """For tests of timing: this process and its children go before whatever else runs on this machine, where that is allowed. The ranks
    and their competitor are all started so, and share as equals."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        # Where the scheduler groups by session, niceness counts within the session only, and the session has its own.
        if os.getsid(0) != os.getpid():
            os.setsid()
        with open("/proc/self/autogroup", "w", encoding="utf-8") as file:
            file.write("-20")
        ENVIRONMENT["BSP_GO_FIRST"] = "1"
    except OSError as error:
        print(f"not before others: {error}", file=sys.stderr)


def said_by_bsp(experiment):
    """The environment in which bsp writes what it has to say beside the experiment: on a stream, launchers mix the lines of ranks."""
    return {"BSP_RESULT": f"{experiment}.bsp.json"}


def program_json(experiment):
    """What bsp said of itself; "ranks": each rank's account of its run delay."""
    said = json.loads(pathlib.Path(f"{experiment}.bsp.json").read_text(encoding="utf-8"))
    said["ranks"] = [json.loads(pathlib.Path(f"{experiment}.bsp.json.{rank}").read_text(encoding="utf-8")) for rank in range(len(said["pids"]))]
    return said


def stolen_ns(cpu):
    """What the hypervisor has taken from this CPU, by the kernel's books: tasks do not run then, and the scheduler knows nothing of it."""
    for line in pathlib.Path("/proc/stat").read_text(encoding="ascii").splitlines():
        words = line.split()
        if words[0] == f"cpu{cpu}":
            return int(words[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return 0


def preempted_bounds(account):
    """Between which times a rank of bsp was preempted, as the kernel says. Its run delay has waits after wake-ups too: how long those are
    depends on the machine."""
    return account["preempted_ns"], account["run_delay_ns"] - account["woken_ns"]


def read_terminal(master):
    """All that is written to a pseudo-terminal until nobody has it open any more."""
    said, failed = b"", 0
    while failed < 2:  # the kernel looks for data, then for writers: what the last one writes in between is there at the second try
        try:
            part = os.read(master, 65536)
        except OSError:  # no writer is left
            part = b""
        said += part
        failed = 0 if part else failed + 1
    os.close(master)
    return said.decode()


class Run:
    """A traced job: its exit code, its own output, the result as JSON."""

    def __init__(self, job, experiment, options=(), environment=None, limit=LIMIT):
        self.experiment = pathlib.Path(experiment)
        done = command([POLTER, "run", "--json", "-o", experiment, *options, "--", *job], {**said_by_bsp(self.experiment), **(environment or {})}, limit)
        self.code, self.error, self.output = done.returncode, done.stderr, done.stdout
        self.result = json.loads(done.stdout) if done.stdout.startswith("{") else None

    def explain(self):
        return f"exit code {self.code}\n{self.error[-3000:]}\n{self.output[:1000]}"

    def program_json(self):
        """What bsp said of itself."""
        return program_json(self.experiment)


def otf2_print_errors(experiment, limit=LIMIT):
    """Whatever otf2-print says that looks like an error; None where it is not installed. Its output is read as it comes: it has a line
    an event."""
    if not shutil.which("otf2-print"):
        return None
    reader = subprocess.Popen(["otf2-print", str(pathlib.Path(experiment) / "traces.otf2")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    late = threading.Timer(limit, reader.kill)
    late.start()
    try:
        bad = [line.decode(errors="replace") for line in reader.stdout if b"error" in line.lower()]
        code = reader.wait()
    finally:
        late.cancel()
        reader.stdout.close()
    return bad if code == 0 else bad + [f"exit code {code}"]


def replay(experiment, *options):
    done = command([POLTER, "replay", "--json", *options, experiment])
    if done.returncode:
        raise AssertionError(f"polter replay: {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


@contextlib.contextmanager
def rival(cpu, percent, period_us=10000):
    process = subprocess.Popen([str(PROGRAMS / "polter-rival"), str(cpu), str(percent), str(period_us)])
    try:
        time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def on_each_mpi(check, tries):
    """Calls check(flavour) until it holds or has failed `tries` times: the machine may be busy with something else."""
    for flavour in FLAVOURS:
        for left in reversed(range(tries)):
            try:
                check(flavour)
                break
            except AssertionError as error:
                if left == 0:
                    raise
                print(f"{flavour}: once more: {str(error).splitlines()[0]}", file=sys.stderr)


def needs_two_cpus_and_an_exporter(test):
    why = exporter_works()
    if why or len(os.sched_getaffinity(0)) < 2:
        test.skipTest(why or "one CPU only")


def beside_rival(test, what, run, percent):
    """The result of run(folder), with a competitor on CPU 1, where a thread of its only rank works for which the main thread waits: the
    thread's noise reaches the result, and without it the run is as long as one without the competitor."""
    with folder() as path:
        with rival(1, percent):
            noisy = run(path / "noisy")
        quiet = run(path / "quiet")
    test.assertEqual((noisy.code, quiet.code), (0, 0), noisy.explain() + quiet.explain())
    rank, cost, without = noisy.result["per_rank"][0], noisy.result["accumulated_noise_ns"], noisy.result["approximated_ns"]
    thread, measured = rank["threads"]["local_noise_ns"], [r.result["measured_ns"] for r in (noisy, quiet)]
    print(f"{what}: thread lost {thread}, main thread {rank['local_noise_ns']}, cost {cost}; measured {measured[0]}, without noise {without}, "
          f"quiet run {measured[1]}", file=sys.stderr)
    test.assertGreater(thread, 0.5 * percent / 100 * without)
    test.assertGreater(cost, 0.8 * thread)
    test.assertLess(abs(without - measured[1]), 0.1 * measured[1])
    return noisy.result


def exporter_works():
    """Why no exporter in the kernel measures a job here; empty if one does. What perf and /proc see is not enough for tests of culprits and
    of what a daemon does: those have tests of their own."""
    with folder() as path:
        run = Run([*launcher(FLAVOURS[0], 1), PROGRAMS / FLAVOURS[0] / "bsp", "2", "1000"], path / "e")
        if run.result is None:
            return run.explain()
        exporter = run.result["run"]["exporter"]
        return "" if exporter["name"] in ("bpf", "module") else f"{exporter['name']} is the best: {exporter['why']}"
