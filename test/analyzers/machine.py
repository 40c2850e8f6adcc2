# SPDX-License-Identifier: BSD-3-Clause
"""What the measurements on this machine share. They are made by hand and with the machine alone, no ctest, as other load would decide; in
pieces, as nobody has a machine alone for long: results stay in a folder, and the same command again goes on."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"
os.environ.setdefault("POLTER_BUILD", str(BUILD))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from polter_run import go_first  # noqa: E402

# LAMMPS: a Lennard-Jones melt of edge³ cells of 4 atoms.
MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {edge} 0 {edge} 0 {edge}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo {thermo}
run {steps}
"""


class Later(Exception):
    """The piece's time is over."""


class Pieces:
    def __init__(self, folder, seconds):
        self.folder, self.until = pathlib.Path(folder or tempfile.mkdtemp(prefix="polter-bars-")), time.monotonic() + seconds
        self.folder.mkdir(parents=True, exist_ok=True)
        self.made = 0

    def get(self, name, measure):
        """What measure() has given in this piece or in an earlier one, as JSON."""
        file = self.folder / f"{name}.json"
        if not file.exists():
            if self.made and time.monotonic() > self.until:
                raise Later(name)
            result = measure()
            self.made += 1
            file.write_text(json.dumps(result), encoding="utf-8")
        return json.loads(file.read_text(encoding="utf-8"))


def arguments(description, choices, runs):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=choices)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--folder", help="Where results of pieces are; default: a new one")
    parser.add_argument("--seconds", type=float, default=1e9, help="Begin nothing new after so long")
    return parser.parse_args()


def measured(arguments_, evaluate):
    """The exit code. evaluate(pieces) returns what holds and what does not: [(holds, text)]."""
    go_first()
    pieces = Pieces(arguments_.folder, arguments_.seconds)
    try:
        bars = evaluate(pieces)
    except Later as name:
        print(f"not yet: {name}; the same command with --folder {pieces.folder} goes on")
        return 3
    for holds, text in bars:
        print(f"{'held' if holds else 'MISSED'}: {text}")
    return int(not all(holds for holds, _ in bars))


def run(words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(str(w) for w in words)}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout + done.stderr


def run_json(words):
    text = run(words)
    return json.JSONDecoder().raw_decode(text[text.index("{"):])[0]
