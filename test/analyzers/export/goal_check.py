# SPDX-License-Identifier: BSD-3-Clause
"""GOAL programs and noise files as LogGOPSim reads them: the grammar of its txt2bin.re, the rules of its Noise.hpp, and whether a program ends."""
import collections
import re

# A statement's tokens, as txt2bin's scanner takes them: a label, an operation, or a dependency between labels that stand above.
OPERATION = re.compile(
    r"(?:(?P<label>[a-zA-Z][a-zA-Z0-9_]*)[ \t]*:[ \t]*)?"
    r"(?:(?P<calc>calc)[ \t]*(?P<ns>[0-9]+)(?:[ \t]*cpu[ \t]*[0-9]+)?"
    r"|(?P<kind>send|recv)[ \t]*(?P<size>[0-9]+)[ \t]*b[ \t]*(?P<way>to|from)[ \t]*(?P<peer>[0-9]+)(?:[ \t]*tag[ \t]*(?P<tag>[0-9]+))?)[ \t]*")
DEPENDENCY = re.compile(r"(?P<of>[a-zA-Z][a-zA-Z0-9_]*)[ \t]+(?P<how>requires|irequires)[ \t]+(?P<on>[a-zA-Z][a-zA-Z0-9_]*)[ \t]*")
ANY = 2**32 - 1

Operation = collections.namedtuple("Operation", "kind size peer tag requires irequires")


class GoalError(Exception):
    pass


def parse(text):
    """The operations of each rank; GoalError with the line where txt2bin would stop."""
    ranks, number_of_ranks, labels = [], None, None
    for number, line in enumerate(text.split("\n"), 1):
        def wrong(why, number=number, line=line):
            raise GoalError(f"line {number}: {why}: {line!r}")

        if line.startswith("//") or not line:
            continue
        if line[0] in " \t":
            wrong("begins with a blank")
        if found := re.fullmatch(r"num_ranks[ \t]+([0-9]+)", line):
            number_of_ranks = int(found[1])
        elif found := re.fullmatch(r"rank[ \t]+([0-9]+)[ \t]*\{", line):
            if number_of_ranks is None or labels is not None or int(found[1]) != len(ranks):
                wrong("ranks rise, one after the other, behind num_ranks")
            labels = {}
            ranks.append([])
        elif line == "}":
            if labels is None:
                wrong("no rank is open")
            labels = None
        elif labels is None:
            wrong("outside of a rank")
        elif found := DEPENDENCY.fullmatch(line):
            for label in (found["of"], found["on"]):
                if label not in labels:
                    wrong(f"{label} is not defined above")
            ranks[-1][labels[found["of"]]]._asdict()[found["how"]].append(labels[found["on"]])
        elif found := OPERATION.fullmatch(line):
            if found["calc"]:
                operation = Operation("calc", int(found["ns"]), None, None, [], [])
            else:
                if (found["kind"] == "send") != (found["way"] == "to"):
                    wrong("send … to, recv … from")
                operation = Operation(found["kind"], int(found["size"]), int(found["peer"]), int(found["tag"] or 0), [], [])
                if operation.peer >= number_of_ranks or operation.tag >= ANY or operation.size < 1:
                    wrong("no such rank, tag or size")
            if found["label"] in labels:
                wrong("a label twice")
            labels[found["label"]] = len(ranks[-1])
            ranks[-1].append(operation)
        else:
            wrong("no statement")
    if labels is not None:
        raise GoalError("the last rank is not closed")
    if number_of_ranks != len(ranks):
        raise GoalError(f"{number_of_ranks} ranks announced, {len(ranks)} written")
    return ranks


def run(ranks, eager=True):
    """Runs the program as LogGOPSim does, without times. The operations that never end; and the pairs of sizes of all messages."""
    waits = [[len(o.requires) + len(o.irequires) for o in program] for program in ranks]
    after_end, after_start = ([[[] for _ in program] for program in ranks] for _ in range(2))
    for rank, program in enumerate(ranks):
        for label, operation in enumerate(program):
            for on in operation.requires:
                after_end[rank][on].append(label)
            for on in operation.irequires:
                after_start[rank][on].append(label)
    ready = collections.deque((rank, label) for rank, program in enumerate(ranks) for label in range(len(program)) if waits[rank][label] == 0)
    open_sends, open_receives = collections.defaultdict(collections.deque), collections.defaultdict(collections.deque)
    left = {(rank, label) for rank, program in enumerate(ranks) for label in range(len(program))}
    sizes = []

    def release(rank, labels):
        for label in labels:
            waits[rank][label] -= 1
            if waits[rank][label] == 0:
                ready.append((rank, label))

    def end(rank, label):
        left.discard((rank, label))
        release(rank, after_end[rank][label])

    while ready:
        rank, label = ready.popleft()
        operation = ranks[rank][label]
        release(rank, after_start[rank][label])
        if operation.kind == "calc":
            end(rank, label)
            continue
        sends = operation.kind == "send"
        channel = (rank, operation.peer, operation.tag) if sends else (operation.peer, rank, operation.tag)
        other = (open_receives if sends else open_sends)[channel]
        if sends and eager:
            end(rank, label)
        if not other:
            (open_sends if sends else open_receives)[channel].append((rank, label))
            continue
        partner = other.popleft()
        sizes.append((operation.size, ranks[partner[0]][partner[1]].size))
        if not sends or not eager:
            end(rank, label)
        if sends or not eager:
            end(*partner)
    return left, sizes


def noise_file(text):
    """The events of a noise file, as LogGOPSim's getline and sscanf see them."""
    if text.endswith("\n"):
        raise GoalError("a newline at the end: LogGOPSim reads the last line twice")
    events = []
    for line in text.split("\n"):
        if line.startswith("#"):
            continue
        found = re.fullmatch(r"([0-9]+)\t([0-9]+)", line)
        if not found or len(line) > 1000:
            raise GoalError(f"no event: {line!r}")
        events.append((int(found[1]), int(found[2])))
    if len(events) < 2 or events != sorted(events):
        raise GoalError("no two events, or not by time")
    if events[0] != (0, 0):
        raise GoalError("the first event counts for no operation that begins before it")
    return events
