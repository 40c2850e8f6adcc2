/* SPDX-License-Identifier: BSD-3-Clause */
/* Isend and Irecv of every mode, completed by every form of Wait and Test; null and shared handles; freed and cancelled requests. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 24, BYTES = 3000 };
static char out[N][BYTES], in[N][BYTES];
static MPI_Request requests[2 * N];
static MPI_Status statuses[2 * N];
static int indices[2 * N];
static int rank, size, right, left;

/* N receives from the left, N sends to the right, some of them with nobody; in odd rounds the sends come first, so that small ones
 * are complete at once, and several have the same handle. */
static int post(int round) {
    int n = 0;
    for (int half = 0; half < 2; half++) {
        const int receives = half == round % 2;
        for (int i = 0; i < N; i++) {
            if (receives) {
                MPI_Irecv(in[i], BYTES, MPI_BYTE, i % 6 == 5 ? MPI_PROC_NULL : left, i, MPI_COMM_WORLD, &requests[n++]);
                continue;
            }
            const int to = i % 6 == 5 ? MPI_PROC_NULL : right, bytes = i % 3 ? i : BYTES - i;
            switch (i % 4) {
                case 0:
                    MPI_Isend(out[i], bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[n++]);
                    break;
                case 1:
                    MPI_Issend(out[i], bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[n++]);
                    break;
                case 2:
                    MPI_Ibsend(out[i], bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[n++]);
                    break;
                case 3:
                    MPI_Isend(out[i], bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[n++]);
                    break;
            }
        }
    }
    return n;
}

static void complete(int form, int n) {
    int flag = 0, index = 0, count = 0;
    switch (form) {
        case 0:
            for (int i = 0; i < n; i++) MPI_Wait(&requests[i], i % 2 ? &statuses[i] : MPI_STATUS_IGNORE);
            break;
        case 1:
            MPI_Waitall(n, requests, statuses);
            break;
        case 2:
            MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
            break;
        case 3:
            do MPI_Waitany(n, requests, &index, index % 2 ? statuses : MPI_STATUS_IGNORE);
            while (index != MPI_UNDEFINED);
            break;
        case 4:
            do MPI_Waitsome(n, requests, &count, indices, statuses);
            while (count != MPI_UNDEFINED);
            break;
        case 5:
            do MPI_Waitsome(n, requests, &count, indices, MPI_STATUSES_IGNORE);
            while (count != MPI_UNDEFINED);
            break;
        case 6:
            for (int i = n; i-- > 0;)
                for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            break;
        case 7:
            while (!flag) MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE);
            break;
        case 8:
            do MPI_Testany(n, requests, &index, &flag, statuses);
            while (!flag || index != MPI_UNDEFINED);
            break;
        case 9:
            do MPI_Testsome(n, requests, &count, indices, MPI_STATUSES_IGNORE);
            while (count != MPI_UNDEFINED);
            break;
        case 10:
            for (int i = 0; i < n; i++) {
                for (flag = 0; !flag;) MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            }
            break;
    }
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    static char attached[4 * N * BYTES];
    MPI_Buffer_attach(attached, sizeof attached);
    for (int round = 0; round < 44; round++) complete(round % 11, post(round));

    /* Many outstanding at once. */
    enum { MANY = 2000 };
    static MPI_Request many[2 * MANY];
    for (int i = 0; i < MANY; i++) {
        MPI_Isend(out[0], 8, MPI_BYTE, right, 100, MPI_COMM_WORLD, &many[i]);
        MPI_Irecv(in[0], 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &many[MANY + i]);
    }
    MPI_Waitall(2 * MANY, many, MPI_STATUSES_IGNORE);
    MPI_Waitall(2 * MANY, many, MPI_STATUSES_IGNORE); /* all null by now */
    MPI_Barrier(MPI_COMM_WORLD);

    /* One variable for several requests, copied elsewhere: the address says nothing. */
    MPI_Request moved[8], one;
    for (int i = 0; i < 8; i++) {
        if (i % 2)
            MPI_Irecv(in[i], BYTES, MPI_BYTE, left, 200 + i / 2, MPI_COMM_WORLD, &one);
        else
            MPI_Isend(out[i], i, MPI_BYTE, right, 200 + i / 2, MPI_COMM_WORLD, &one);
        moved[7 - i] = one;
    }
    MPI_Waitall(8, moved, statuses);

    /* Given away. */
    MPI_Isend(out[0], 16, MPI_BYTE, right, 300, MPI_COMM_WORLD, &one);
    MPI_Request_free(&one);
    MPI_Recv(in[0], 16, MPI_BYTE, left, 300, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    /* Taken back: a receive that nobody sends to, and one that has its message. */
    MPI_Status status;
    int cancelled = 0;
    MPI_Irecv(in[0], 16, MPI_BYTE, left, 400, MPI_COMM_WORLD, &one);
    MPI_Cancel(&one);
    MPI_Wait(&one, &status);
    MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled) fprintf(stderr, "rank %d: a receive without a message was not cancelled\n", rank);
    MPI_Irecv(in[0], 16, MPI_BYTE, rank, 401, MPI_COMM_WORLD, &one);
    MPI_Send(out[0], 16, MPI_BYTE, rank, 401, MPI_COMM_WORLD);
    MPI_Cancel(&one);
    MPI_Wait(&one, MPI_STATUS_IGNORE);

    void* detached;
    int detached_size;
    MPI_Buffer_detach(&detached, &detached_size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
