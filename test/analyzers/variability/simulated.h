/* SPDX-License-Identifier: BSD-3-Clause */
/* The benchmark on the simulator: how long a rank works is drawn from the law that POLTER_BSP_LAW names, with the seed POLTER_BSP_SEED. */
#include <simgrid/actor.h>
#include <stdint.h>

static long long now(void) {
    return (long long)(MPI_Wtime() * 1e9 + 0.5);
}

static double drawn(uint64_t a, uint64_t b, uint64_t c) { /* splitmix64 of a counter, within (0, 1) */
    uint64_t x = (a * 0x9e3779b97f4a7c15u) ^ (b * 0xc2b2ae3d27d4eb4fu) ^ (c * 0x165667b19e3779f9u);
    for (int i = 0; i < 3; i++) {
        x += 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return ((double)(x >> 11) + 0.5) / 9007199254740992.0;
}

static void spin(long long grain) {
    static uint64_t calls[1 << 14]; /* by rank: all ranks are in one process */
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *law = getenv("POLTER_BSP_LAW"), *seed_text = getenv("POLTER_BSP_SEED");
    const uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1, call = calls[rank % (1 << 14)]++;
    const char* part_text = getenv("POLTER_BSP_PART"); /* ranks of the measured machine, of which an eighth is noisy */
    const int part = part_text ? atoi(part_text) : 64;
    const double u = drawn(seed, (uint64_t)rank, 2 * call), v = drawn(seed, (uint64_t)rank, 2 * call + 1);
    const int noisy = law && strcmp(law, "noisy-node") == 0 && rank % part < part / 8;
    double factor = 1 + 0.05 * sqrt(-2 * log(u)) * cos(6.283185307179586 * v); /* normal */
    if (noisy || (law && strcmp(law, "exponential") == 0)) factor = 1 - (noisy ? 0.08 : 0.05) * log(u);
    if (law && strcmp(law, "pareto") == 0) factor = pow(u, -1.0 / 3);
    sg_actor_sleep_for((double)grain * 1e-9 * factor);
}
