/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication on a ring: two requests of one tag, which are started and made ready in different orders; parts made ready one
 * by one, by ranges, by lists and by threads; with one part; with another number of parts on each side; asked for part by part; waited for
 * while inactive.
 * Each message is checked, so a wrapper that changes anything is seen. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

#if MPI_VERSION >= 4
enum { PARTS = 6, EACH = 50, ROUNDS = 12 };
static int out[2][PARTS * EACH], in[2][PARTS * EACH], rank, size, left;
static MPI_Request sends[4], receives[4]; /* 0, 1: one tag; 2: one part; 3: other parts on each side */

static void fill(int which, int round) {
    for (int i = 0; i < PARTS * EACH; i++) out[which][i] = rank * 1000000 + round * 10000 + which * 1000 + i;
}
static void check(int which, int round) {
    for (int i = 0; i < PARTS * EACH; i++)
        if (in[which][i] != left * 1000000 + round * 10000 + which * 1000 + i) {
            fprintf(stderr, "rank %d, round %d: wrong data in request %d\n", rank, round, which);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}
static void* half(void* low) {
    for (int i = 0; i < PARTS / 2; i++) MPI_Pready((int)(size_t)low + i, sends[0]);
    return NULL;
}

int main(int argc, char** argv) {
    int provided, flag, list[PARTS] = {3, 0, 5, 1, 4, 2};
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    for (int i = 0; i < 2; i++) {
        MPI_Psend_init(out[i], PARTS, EACH, MPI_INT, right, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
        MPI_Precv_init(in[i], PARTS, EACH, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]);
    }
    static int one_out[EACH], one_in[EACH], few_out[PARTS], few_in[PARTS];
    MPI_Psend_init(one_out, 1, EACH, MPI_INT, right, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[2]);
    MPI_Precv_init(one_in, 1, EACH, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[2]);
    MPI_Psend_init(few_out, PARTS, 1, MPI_INT, right, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[3]);
    MPI_Precv_init(few_in, 1, PARTS, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[3]);
    MPI_Wait(&receives[0], MPI_STATUS_IGNORE); /* inactive */
    for (int round = 0; round < ROUNDS; round++) {
        fill(0, round);
        fill(1, round);
        if (round % 2) {
            MPI_Startall(2, receives);
            MPI_Startall(2, sends);
        } else {
            for (int i = 2; i-- > 0;) MPI_Start(&receives[i]);
            for (int i = 2; i-- > 0;) MPI_Start(&sends[i]);
        }
        /* an ordinary message of that tag goes between them */
        int word = round, got = -1;
        MPI_Sendrecv(&word, 1, MPI_INT, right, 7, &got, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (got != round) MPI_Abort(MPI_COMM_WORLD, 1);
        if (provided == MPI_THREAD_MULTIPLE) {
            pthread_t other;
            pthread_create(&other, NULL, half, (void*)(size_t)(PARTS / 2));
            half((void*)0);
            pthread_join(other, NULL);
        } else {
            for (int part = 0; part < PARTS; part++) MPI_Pready(part, sends[0]);
        }
        if (round % 3) {
            MPI_Pready_range(0, PARTS - 2, sends[1]);
            MPI_Pready(PARTS - 1, sends[1]);
        } else {
            MPI_Pready_list(PARTS, list, sends[1]);
        }
        if (round % 4 == 1)
            for (int part = PARTS; part-- > 0;)
                for (flag = 0; !flag;) MPI_Parrived(receives[1], part, &flag);
        if (round % 4 == 2)
            for (int i = 0; i < 2; i++)
                for (flag = 0; !flag;) MPI_Test(&receives[i], &flag, MPI_STATUS_IGNORE);
        MPI_Waitall(2, receives, MPI_STATUSES_IGNORE); /* some are inactive by now */
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
        check(0, round);
        check(1, round);
        for (int which = 2; which <= 3; which++) {
            for (int i = 0; i < PARTS; i++) one_out[i] = few_out[i] = rank + round + i;
            MPI_Start(&receives[which]);
            MPI_Start(&sends[which]);
            MPI_Pready_range(0, which == 2 ? 0 : PARTS - 1, sends[which]);
            MPI_Wait(&sends[which], MPI_STATUS_IGNORE);
            MPI_Wait(&receives[which], MPI_STATUS_IGNORE);
            for (int i = 0; i < PARTS; i++)
                if ((which == 2 ? one_in : few_in)[i] != left + round + i) MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (int i = 0; i <= 3; i++) {
        MPI_Request_free(&sends[i]);
        MPI_Request_free(&receives[i]);
    }
    MPI_Finalize();
    return 0;
}
#else
int main(void) {
    puts("SKIP: this MPI has no partitioned communication");
    return 77;
}
#endif
