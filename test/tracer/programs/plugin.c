/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the `main` of a library that it loads for itself alone, as interpreters do with their modules: plugin LIBRARY [ARG…] */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(int, char**) = library ? (int (*)(int, char**))dlsym(library, "main") : NULL;
    if (!run) {
        fprintf(stderr, "plugin: %s\n", argc > 1 ? dlerror() : "which library?");
        return 2;
    }
    return run(argc - 1, argv + 1);
}
