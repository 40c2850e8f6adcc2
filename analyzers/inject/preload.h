/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libraries share that are preloaded between a program and its MPI: one for each MPI, linked to none of them.
 *
 * Who includes this defines begin_measuring(), called when MPI has been initialised, and end_measuring(), before it ends; and one
 * PRELOAD() for each MPI function.
 *
 * Fortran: the bindings of Open MPI call the PMPI names of C, those of MPICH the MPI names, and PMPI_Init and PMPI_Waitall. So the PMPI
 * names are preloaded as well, and count where the Fortran libraries call them; other callers are tools, or MPI itself.
 */
#ifndef POLTER_ANALYZERS_PRELOAD_H
#define POLTER_ANALYZERS_PRELOAD_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first #include"
#endif
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* The next definition of a function, behind this library. */
#define NEXT(name)                 \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);

static void begin_measuring(void);
static void end_measuring(void);
static __thread int depth; /* of MPI calls in each other: only the outermost one is the program's */

static inline int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Where the code of the Fortran bindings lies. */
static struct { uintptr_t begin, end; } fortran[4];
static unsigned fortran_parts;

static inline int note_fortran(struct dl_phdr_info* library, size_t size, void* ignored) {
    (void)size;
    (void)ignored;
    const char* slash = strrchr(library->dlpi_name, '/');
    const char* name = slash ? slash + 1 : library->dlpi_name;
    static const char* const names[] = {"libmpi_mpifh", "libmpi_usempi", "libmpichfort", "libmpifort"};
    int of_fortran = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) of_fortran |= strncmp(name, names[i], strlen(names[i])) == 0;
    if (!of_fortran) return 0;
    for (int i = 0; i < library->dlpi_phnum && fortran_parts < sizeof fortran / sizeof *fortran; i++) {
        const ElfW(Phdr)* part = &library->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        fortran[fortran_parts].begin = library->dlpi_addr + part->p_vaddr;
        fortran[fortran_parts].end = fortran[fortran_parts].begin + part->p_memsz;
        fortran_parts++;
    }
    return 0;
}
__attribute__((constructor)) static void find_fortran(void) {
    dl_iterate_phdr(note_fortran, NULL);
}
static inline int is_fortran(const void* caller) {
    for (unsigned i = 0; i < fortran_parts; i++)
        if ((uintptr_t)caller >= fortran[i].begin && (uintptr_t)caller < fortran[i].end) return 1;
    return 0;
}
#define PRELOAD(name, parameters, arguments, before, after)          \
    PRELOAD_AS(name, #name, parameters, arguments, 1, before, after) \
    PRELOAD_AS(P##name, #name, parameters, arguments, is_fortran(__builtin_return_address(0)), before, after)

/* `before` and `after` are statements around a call of the program's own, and know its arguments, `called` and, behind it, `result`. */
#define PRELOAD_AS(name, text, parameters, arguments, mine, before, after) \
    EXPORT int name parameters {                                           \
        static const char called[] = text;                                 \
        NEXT(name)                                                         \
        const int outermost = depth == 0 && (mine);                        \
        (void)called;                                                      \
        if (outermost) {                                                   \
            before;                                                        \
        }                                                                  \
        depth++;                                                           \
        const int result = next arguments;                                 \
        depth--;                                                           \
        if (outermost) {                                                   \
            after;                                                         \
        }                                                                  \
        return result;                                                     \
    }

PRELOAD(MPI_Init, (int* argc, char*** argv), (argc, argv), (void)0, begin_measuring())
PRELOAD(MPI_Init_thread, (int* argc, char*** argv, int required, int* provided), (argc, argv, required, provided), (void)0,
        begin_measuring())
PRELOAD(MPI_Finalize, (void), (), end_measuring(), (void)0)

#endif
