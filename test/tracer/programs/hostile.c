/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that do not behave: what the tracer must live through. hostile CASE */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;

static volatile sig_atomic_t signals;
static void count(int signal) {
    (void)signal;
    signals++;
}

/* The program's own view of SIGXFSZ: 0 where nothing came and nothing changed. */
static int disturbed(const struct sigaction* set) {
    struct sigaction now;
    sigset_t mask, pending;
    sigaction(SIGXFSZ, NULL, &now);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    sigpending(&pending);
    return signals || now.sa_handler != set->sa_handler || sigismember(&mask, SIGXFSZ) || sigismember(&pending, SIGXFSZ);
}

/* Files may be no larger from now on. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void talk(int times) {
    int sum;
    for (int i = 0; i < times; i++) MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Returns once both ranks have left all earlier calls. Without it, one rank's end could hit the other inside its last Allreduce. */
static void end_talk(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    const char* what = argc > 1 ? argv[1] : "";
    const int times = argc > 2 ? atoi(argv[2]) : 1000;
    int flag, major, minor;
    MPI_Initialized(&flag); /* allowed before MPI_Init */
    MPI_Get_version(&major, &minor);
    if (!strcmp(what, "no-mpi")) return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    talk(times);
    if (!strcmp(what, "fork")) {
        /* The child talks to nobody, but its calls must not get into the parent's trace. */
        const pid_t child = fork();
        if (child == 0) {
            int n;
            MPI_Comm_size(MPI_COMM_SELF, &n);
            exit(n == 1 ? 0 : 1); /* stdio writes what it holds, the parent's too */
        }
        int status = 1;
        waitpid(child, &status, 0);
        if (status || system("true")) return 3;
    } else if (!strcmp(what, "limited") || !strcmp(what, "limited-exit")) {
        /* Files may be no larger than 64 KiB, in the midst of the run. */
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_handler = count;
        sigaction(SIGXFSZ, &action, NULL);
        limit_files(65536);
        talk(times);
        if (disturbed(&action)) return 5;
        if (!strcmp(what, "limited-exit")) {
            signal(SIGXFSZ, SIG_DFL);
            exit(0);
        }
        MPI_Finalize();
        return disturbed(&action) ? 6 : 0;
    } else if (!strcmp(what, "exit")) {
        end_talk();
        if (rank == 1) _exit(0);
        pause();
    } else if (!strcmp(what, "abort")) {
        end_talk();
        if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
        pause();
    } else if (!strcmp(what, "kill")) {
        end_talk();
        if (rank == 1) raise(SIGKILL);
        pause();
    } else if (!strcmp(what, "window")) {
        /* One rank is killed while all have a window. */
        MPI_Win win;
        int memory[16] = {0};
        MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        for (int i = 1; i < times; i++) {
            MPI_Put(&rank, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, win);
            MPI_Win_fence(0, win);
        }
        end_talk();
        if (rank == 1) raise(SIGKILL);
        pause();
    } else if (!strcmp(what, "errors")) {
        /* Errors that the program asked to be told of. */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int data[4] = {0};
        MPI_Request requests[2];
        MPI_Status statuses[2];
        if (MPI_Send(data, 1, MPI_INT, size + 5, 1, MPI_COMM_WORLD) == MPI_SUCCESS) return 4;
        MPI_Irecv(data, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(data + 2, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Send(data, 2, MPI_INT, rank, 1, MPI_COMM_WORLD); /* truncated there */
        MPI_Send(data, 1, MPI_INT, rank, 2, MPI_COMM_WORLD);
        MPI_Waitall(2, requests, statuses);
        for (int i = 0; i < 2; i++)
            if (requests[i] != MPI_REQUEST_NULL) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    } else if (!strcmp(what, "after")) {
        MPI_Finalize();
        MPI_Finalized(&flag); /* allowed after MPI_Finalize */
        return !flag;
    }
    MPI_Finalize();
    return 0;
}
