/* SPDX-License-Identifier: BSD-3-Clause */
/* Polls that fail for certain, as each rank sends to itself only afterwards: requests one by one, all at once and by turns, and probes. */
#include <mpi.h>
#include <stdio.h>

enum { REQUESTS = 3, POLLS = 200 };

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, found = 0, wrong = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 5; round++) {
        const int out[REQUESTS] = {0, 1, 2};
        int in[REQUESTS], flag = 0, index = 0, count = 0, indices[REQUESTS];
        MPI_Request requests[REQUESTS];
        MPI_Message message;
        for (int i = 0; i < REQUESTS; i++) MPI_Irecv(&in[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < POLLS; i++, wrong += flag) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        for (int i = 0; i < POLLS; i++, wrong += flag) MPI_Test(&requests[i % REQUESTS], &flag, MPI_STATUS_IGNORE);
        for (int i = 0; i < POLLS; i++, wrong += flag) MPI_Testall(REQUESTS, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < POLLS; i++, wrong += flag) MPI_Testany(REQUESTS, requests, &index, &flag, MPI_STATUS_IGNORE);
        for (int i = 0; i < POLLS; i++, wrong += count) MPI_Testsome(REQUESTS, requests, &count, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; i < POLLS; i++, wrong += flag) MPI_Request_get_status(requests[1], &flag, MPI_STATUS_IGNORE);
        for (int i = 0; i < POLLS; i++, wrong += flag) MPI_Iprobe(rank, REQUESTS, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        for (int i = 0; i < POLLS; i++, wrong += flag) MPI_Improbe(rank, REQUESTS, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
        for (int i = 0; i < REQUESTS; i++) MPI_Send(&out[i], 1, MPI_INT, rank, i, MPI_COMM_WORLD);
        for (int i = 0; i < REQUESTS; i++) {
            for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            found += in[i] == i;
        }
    }
    MPI_Finalize();
    if (found != 5 * REQUESTS || wrong) return fprintf(stderr, "%d messages, %d polls that found what was not sent\n", found, wrong), 1;
    return 0;
}
