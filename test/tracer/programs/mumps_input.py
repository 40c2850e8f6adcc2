#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""mumps_input.py SIDE FILE: the Laplace equation on a square of SIDE cells a side, as MUMPS's examples read it."""
import sys

side = int(sys.argv[1])
entries = []
for y in range(side):
    for x in range(side):
        cell = y * side + x + 1
        entries.append((cell, cell, 4.0))
        entries += [(cell, cell + step, -1.0) for step, inside in ((1, x + 1 < side), (-1, x > 0), (side, y + 1 < side), (-side, y > 0)) if inside]
with open(sys.argv[2], "w", encoding="utf-8") as out:
    print(side * side, len(entries), sep="\n", file=out)
    for row, column, value in entries:
        print(row, column, value, file=out)
    for cell in range(side * side):
        print(1.0 + cell % 7, file=out)
