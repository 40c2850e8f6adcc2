// SPDX-License-Identifier: BSD-3-Clause
// An allocator that takes a mutex of the C library, as some do: to be preloaded.
#include <pthread.h>
#include <stddef.h>

void* __libc_malloc(size_t size);
void __libc_free(void* memory);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void* malloc(size_t size) {
    pthread_mutex_lock(&mutex);
    void* memory = __libc_malloc(size);
    for (volatile int i = 0; i < 100; i++) {
    }
    pthread_mutex_unlock(&mutex);
    return memory;
}

void free(void* memory) {
    pthread_mutex_lock(&mutex);
    __libc_free(memory);
    pthread_mutex_unlock(&mutex);
}
