/* SPDX-License-Identifier: BSD-3-Clause */
/* Probe, Iprobe, and matched probes with both receives; messages of unknown size; MPI_PROC_NULL. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size, flag, bytes;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    static char out[5000], in[5000];
    for (int i = 0; i < 40; i++) {
        MPI_Request request;
        MPI_Status status;
        MPI_Message message;
        MPI_Isend(out, 100 * i, MPI_BYTE, right, i, MPI_COMM_WORLD, &request);
        switch (i % 4) {
            case 0:
                MPI_Probe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, MPI_BYTE, &bytes);
                MPI_Recv(in, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                break;
            case 1:
                for (flag = 0; !flag;) MPI_Iprobe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, i % 8 == 1 ? &status : MPI_STATUS_IGNORE);
                MPI_Recv(in, sizeof in, MPI_BYTE, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                break;
            case 2:
                MPI_Mprobe(left, i, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
                MPI_Mrecv(in, sizeof in, MPI_BYTE, &message, i % 8 == 2 ? &status : MPI_STATUS_IGNORE);
                break;
            case 3: {
                MPI_Request received;
                for (flag = 0; !flag;) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
                MPI_Imrecv(in, sizeof in, MPI_BYTE, &message, &received);
                MPI_Wait(&received, MPI_STATUS_IGNORE);
                break;
            }
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Message none;
    MPI_Request nothing;
    MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, 8, MPI_BYTE, &none, MPI_STATUS_IGNORE);
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
    MPI_Imrecv(in, 8, MPI_BYTE, &none, &nothing);
    MPI_Wait(&nothing, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
