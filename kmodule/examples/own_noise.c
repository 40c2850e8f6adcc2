/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread reads its own noise: cc own_noise.c $(pkg-config --cflags --libs polter-noise) */
#include <noise.h>
#include <stdio.h>

int main(void) {
    char why[600];
    struct polter_counters before, after;
    polter_session* session = polter_session_open(NULL, why, sizeof why);
    polter_noise* noise = session ? polter_noise_open(session, why, sizeof why) : NULL;
    if (!noise) return fprintf(stderr, "%s\n", why), 1;
    polter_noise_snapshot(noise, &before);
    for (volatile double x = 1; x < 1e8; x += 1) continue; /* the work */
    polter_noise_snapshot(noise, &after);
    printf("measured by %s\n", polter_backend_name(polter_noise_header(noise)->backend));
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
        if (polter_noise_header(noise)->accounts_seen >> a & 1)
            printf("%-12s %12llu ns %8llu\n", polter_account_name(a), (unsigned long long)(after.ns[a] - before.ns[a]),
                   (unsigned long long)(after.count[a] - before.count[a]));
    polter_noise_close(noise);
    polter_session_close(session);
    return 0;
}
