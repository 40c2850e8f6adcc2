/* SPDX-License-Identifier: BSD-3-Clause */
/* What polter asks of an MPI: one table, found as `polter_group_mpi` in libpolter-group-<mpi>.so. All but start() return 0, or an MPI error
   after which nothing is certain. */
#ifndef POLTER_REPLAY_PARALLEL_MPI_PLUGIN_H
#define POLTER_REPLAY_PARALLEL_MPI_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct polter_group_mpi {
    int (*start)(int* rank, int* size); /* 0: done */
    /* Begins to send; `bytes` must stay until sent() has said so. */
    int (*send)(int to, const void* bytes, int count, uint64_t* request);
    int (*sent)(uint64_t* request, int* done);
    /* *count < 0: nothing is there. Else receive() takes it. */
    int (*probe)(int* from, int* count);
    int (*receive)(int from, void* bytes, int count);
    int (*finish)(void);
    void (*abort)(int code);
};

#ifdef __cplusplus
}
#endif
#endif
