# SPDX-License-Identifier: BSD-3-Clause
"""MPI through mpi4py, whose MPI library only the interpreter's own loader sees. Each rank writes what it did to FOLDER/RANK.json:

    ring.py FOLDER
"""
import json
import os
import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % ranks, (rank - 1) % ranks
out, into, total = array("i", [rank] * 100), array("i", [0] * 100), array("i", [1])
sends = sent = received = 0
for step in range(50):
    requests = [comm.Irecv(into, source=left), comm.Isend(out, dest=right)]
    MPI.Request.Waitall(requests)
    sends, sent = sends + 1, sent + 400
    status = MPI.Status()
    comm.Sendrecv([out, step, MPI.INT], dest=left, recvbuf=into, source=MPI.ANY_SOURCE, status=status)
    sends, sent, received = sends + 1, sent + 4 * step, received + status.Get_count(MPI.INT)
    comm.Allreduce(MPI.IN_PLACE, total, op=MPI.MAX)
half = comm.Split(rank % 2)
half.Barrier()
half.Free()
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w", encoding="utf-8") as file:
    json.dump({"rank": rank, "sends": sends, "sent_bytes": sent, "receives": sends, "received_bytes": 50 * 400 + 4 * received,
               "sum": sum(into), "allreduces": 50}, file)
