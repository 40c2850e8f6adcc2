/* SPDX-License-Identifier: BSD-3-Clause */
/* A program into which nothing can be preloaded. */
#include <stdio.h>

int main(void) {
    puts("on its own");
    return 0;
}
