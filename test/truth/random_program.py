# SPDX-License-Identifier: BSD-3-Clause
"""Random MPI programs on random machines with random noise. A seed gives a case: plain data that `truth_program --program` executes.

    {"seed": 17, "ranks": 9, "machine": {…}, "overheads": {…}, "noise": ["timer:periodic:period=…", …],
     "blocks": [{"repeat": 40, "phases": [{"kind": "pairs", "id": 0, "compute_ns": 50000, "bytes": 8, …}, …]}, …]}

Every phase works on any number of ranks and cannot deadlock (programs/random.hpp), so a case may be made smaller at will.
"""

import dataclasses
import math
import random

MESSAGES = ["pairs", "exchange", "shift_sendrecv", "shift_blocking", "shift_nonblocking", "halo", "wavefront", "pipeline", "burst", "butterfly",
            "tree", "graph_waitall", "graph_send_wait", "graph_isend_recv", "persistent"]  # fmt: skip
ROOTED = ["bcast", "reduce", "gather", "scatter", "gatherv", "scatterv"]
COLLECTIVES = ["barrier", *ROOTED, "allreduce", "scan", "exscan", "allgather", "alltoall", "reduce_scatter_block", "reduce_scatter", "allgatherv",
               "alltoallv"]  # fmt: skip
NONBLOCKING = ["i" + name for name in COLLECTIVES if name != "barrier"]  # SMPI's MPI_Ibarrier deadlocks if its ranks come one after the other
WINDOWS = ["fence", "pscw"]
FARMS = ["master_worker", "result_farm", "probing_farm", "waitany_farm"]
# What a program does next depends on time: one trace does not determine the answer.
HIDDEN = ["waitany", "waitsome", "test_loop", "iprobe_poll", "wildcard", *FARMS, "lock"]
VISIBLE = [*MESSAGES, *COLLECTIVES, *NONBLOCKING, *WINDOWS]
KINDS = [*VISIBLE, *HIDDEN]

SYNCHRONOUS = ["pairs", "exchange", "shift_blocking", "shift_nonblocking", "halo", "wavefront", "pipeline", "burst", "tree", "graph_waitall",
               "graph_send_wait", "graph_isend_recv", "persistent"]  # fmt: skip
OVERLAPPED = ["exchange", "shift_nonblocking", "halo", "graph_waitall", "persistent", *NONBLOCKING, "fence", "pscw"]
MESSAGES_AT_MOST = 12_000  # of one block, over all ranks: what bounds the time of a case
WORK_NS = 3_000_000  # at least, of each rank: in less time too little noise would hit
HEAVY = 0.15  # share of cases with long messages, on slow networks too: where transfers wait for each other, one trace does not tell all
LONGEST = {False: 1 << 16, True: 1 << 19}  # bytes of a message, or of a collective at any one rank: ordinary, heavy


@dataclasses.dataclass
class Wishes:
    """What the caller restricts; everything else is drawn."""

    ranks: tuple = (4, 64)
    kinds: tuple = ()  # none: all
    repeat: str = "both"  # once, loop, both
    latency_us: float | None = None
    heavy: bool | None = None
    size: float = 1  # of a program, relative


def blocking_form(kind):
    return kind[1:] if kind in NONBLOCKING else kind


def log_uniform(draw, low, high):
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def some(draw, probability, value):
    return value() if draw.random() < probability else 0


def draw_machine(draw, wishes, heavy):
    latency = wishes.latency_us or round(log_uniform(draw, 0.5, 20), 2)
    return {
        "latency": f"{latency}us",
        "bandwidth": draw.choice(["1GBps", "2GBps", "10GBps"] if heavy else ["5GBps", "10GBps", "25GBps"]),
        "collectives": draw.choice(["mpich", "ompi", "default"]),
        "eager_limit": draw.choice([1024, 4096, 16384, 65536]),
    }


def draw_ranks(draw, low, high):
    """Powers of two as often as any other number."""
    powers = [n for n in (4, 8, 16, 32, 64) if low <= n <= high]
    return draw.choice(powers) if powers and draw.random() < 0.5 else round(log_uniform(draw, low, high))


def draw_bytes(draw, eager_limit, most):
    """Small, near the eager limit on either side, or anything."""
    bytes_ = draw.choice(
        [
            lambda: draw.choice([1, 4, 8, 64]),
            lambda: log_uniform(draw, 1, most),
            lambda: eager_limit * draw.choice([0.25, 0.5, 1, 1.01, 2, 4]),
        ]
    )()
    return max(1, min(round(bytes_), most))


def draw_phase(draw, kind, number, case):
    ranks, eager = case["ranks"], case["machine"]["eager_limit"]
    collective = kind in COLLECTIVES or kind in NONBLOCKING
    phase = {"kind": kind, "id": number, "compute_ns": round(log_uniform(draw, 3_000, 600_000))}
    phase["imbalance"] = round(some(draw, 0.8, lambda: draw.uniform(0.01, 0.5)), 3)
    phase["skew"] = round(some(draw, 0.4, lambda: draw.uniform(0.01, 0.5)), 3)
    longest = LONGEST[case["heavy"]]
    phase["bytes"] = draw_bytes(draw, eager, longest // ranks if collective else longest)
    if kind.endswith("v") or kind.endswith("reduce_scatter"):
        phase["spread"] = round(draw.uniform(0.1, 1), 3)
    elif not collective and kind not in FARMS and draw.random() < 0.3:
        phase["spread"] = round(draw.uniform(0.1, 0.9), 3)
    if blocking_form(kind) in ROOTED:
        phase["root"] = draw.randrange(ranks)
        phase["rotate"] = int(draw.random() < 0.3)
    if kind in ("wildcard", "lock"):
        phase["root"] = draw.randrange(ranks)
    phase["distance"] = draw.choice([1, 1, 2, 3, draw.randrange(1, ranks)])
    phase["count"] = draw.randint(1, 6)
    if kind == "burst":
        phase["count"] = draw.randint(2, 20)
    if kind in FARMS:
        phase |= {"count": draw.randint(3, 15), "compute_ns": max(20_000, phase["compute_ns"]), "bytes": min(phase["bytes"], 4096)}
    if kind not in FARMS and ranks >= 4 and draw.random() < 0.2:
        phase["groups"], phase["strided"] = draw.randint(2, max(2, ranks // 2)), draw.randint(0, 1)
    if kind in SYNCHRONOUS or kind == "fence":  # of a fence: gets, not puts
        phase["synchronous"] = int(draw.random() < 0.25)
    if kind in OVERLAPPED:
        phase["overlap"] = round(some(draw, 0.6 if kind not in NONBLOCKING else 0.9, lambda: draw.uniform(0.1, 1)), 3)
    if kind in ("waitany", "waitsome", "wildcard", "lock"):
        phase["overlap"] = round(some(draw, 0.7, lambda: draw.uniform(0.05, 0.6)), 3)
    if kind in ("test_loop", "iprobe_poll"):  # the work between two polls, at least a µs
        phase["overlap"] = round(max(draw.choice([0.01, 0.05, 0.2]), 1_000 / phase["compute_ns"]), 3)
    return phase


def messages_of(phase, ranks):
    """Roughly, of one rank in one iteration."""
    kind = blocking_form(phase["kind"])
    if kind in ("alltoall", "alltoallv", "allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block"):
        return ranks / max(1, phase.get("groups", 1)) + 2
    if kind in FARMS:
        return 4 * phase["count"]
    return {"burst": phase["count"], "butterfly": math.log2(ranks), "test_loop": 10, "iprobe_poll": 20, "barrier": math.log2(ranks)}.get(kind, 3)


def draw_repeat(draw, phases, ranks, wishes):
    if wishes.repeat == "once" or (wishes.repeat == "both" and draw.random() < 0.35) or all(p["kind"] in FARMS for p in phases):
        return 1
    most = MESSAGES_AT_MOST * wishes.size / ranks / sum(messages_of(phase, ranks) for phase in phases)
    return max(2, round(min(most, log_uniform(draw, 15, 100))))


def work_ns(case):
    return sum(
        block["repeat"] * sum(p["compute_ns"] * (p["count"] if p["kind"] in FARMS else 1) for p in block["phases"]) for block in case["blocks"]
    )


def draw_noise(draw, case):
    """One to three sources that take 1 to 15 % of a processor, each hitting several times in the run; on all ranks or on one."""
    run = work_ns(case)
    sources = []
    for name in draw.sample(["timer", "irq", "softirq", "preempt"], draw.randint(1, 3)):
        one_rank = draw.random() < 0.25
        load = log_uniform(draw, 0.05, 0.3) if one_rank else log_uniform(draw, 0.01, 0.08)
        duration = min(log_uniform(draw, 2_000, 1_000_000), run * load / 4)
        arrival = draw.choice(["periodic", "random", "heavy_tailed"])
        text = f"{name}:{arrival}:period={max(1000, round(duration / load))},duration={max(500, round(duration))}"
        sources.append(text + (f",rank={draw.randrange(case['ranks'])}" if one_rank else ""))
    return sources


def fresh_case(draw, seed, wishes):
    heavy = draw.random() < HEAVY if wishes.heavy is None else wishes.heavy
    case = {"seed": seed, "ranks": draw_ranks(draw, *wishes.ranks), "machine": draw_machine(draw, wishes, heavy), "heavy": heavy}
    case["overheads"] = {
        "call-overhead-ns": draw.choice([100, 200, 400]),
        "message-overhead-ns": draw.choice([200, 500, 1000]),
        "byte-overhead-ns": draw.choice([0.01, 0.02, 0.1]),
    }
    return case


def random_block(draw, first, kinds, case, wishes):
    phases = [draw_phase(draw, draw.choice(kinds), first + n, case) for n in range(draw.choice([1, 1, 2, 3, 4]))]
    return {"repeat": draw_repeat(draw, phases, case["ranks"], wishes), "phases": phases}


def random_case(seed, wishes):
    draw = random.Random(f"program {seed}")
    case = fresh_case(draw, seed, wishes) | {"blocks": []}
    kinds = wishes.kinds or (KINDS if draw.random() < 0.4 else VISIBLE)
    blocks = draw.randint(12, 40) if wishes.repeat == "once" else draw.randint(2, 9)
    while len(case["blocks"]) < blocks or work_ns(case) < WORK_NS:
        case["blocks"].append(random_block(draw, len(kinds_of(case)), kinds, case, wishes))
    case["noise"] = draw_noise(draw, case)
    return case


def kind_case(kind, seed, wishes):
    """A program of one kind of phase."""
    draw = random.Random(f"{kind} {seed} {wishes.ranks} {wishes.latency_us}")
    case = fresh_case(draw, seed, wishes)
    if wishes.repeat == "once":
        case["blocks"] = [{"repeat": 1, "phases": [draw_phase(draw, kind, n, case)]} for n in range(12)]
    else:
        phase = draw_phase(draw, kind, 0, case)
        loop = dataclasses.replace(wishes, repeat="loop")
        case["blocks"] = [{"repeat": draw_repeat(draw, [phase], case["ranks"], loop), "phases": [phase]}]
        # Noise has to hit often enough.
        phase["compute_ns"] = max(phase["compute_ns"], WORK_NS * phase["compute_ns"] // work_ns(case))
    case["noise"] = draw_noise(draw, case)
    return case


def kinds_of(case):
    return [phase["kind"] for block in case["blocks"] for phase in block["phases"]]


def dependencies(case):
    return "hidden" if any(kind in HIDDEN for kind in kinds_of(case)) else "visible"


def program_text(case):
    """What `truth_program --program` reads."""
    lines = []
    for block in case["blocks"]:
        lines.append(f"block {block['repeat']}")
        lines += [" ".join([p["kind"], *(f"{key}={value}" for key, value in p.items() if key != "kind")]) for p in block["phases"]]
    return "\n".join(lines) + "\n"
