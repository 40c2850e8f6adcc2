// SPDX-License-Identifier: BSD-3-Clause
// What is preloaded where a command may start programs of any MPI, or of none: a small library that has the names of MPI's functions and
// decides at the first call of one which tracer this process needs. A program without MPI pays for mapping it; it has no relocations, no
// C++ and no thread, and starts nothing.
//
// Why entries in assembly and not the tracers themselves: what a tracer exports must stand before MPI's own names when the program is
// linked, and by then nobody knows the MPI of a program that loads it later (mpi4py). Both tracers at once would be loaded into every
// shell and sed of a script.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../conventions.h"

extern const char polter_names[];            // one behind the other, in the order of the slots; generated
extern _Atomic(void*) polter_slots[];        // where each goes; NULL: not asked yet
void* polter_resolve(unsigned number);       // for the entries
void* polter_next(const char* name);         // for the tracer
static _Atomic(int (*)(void)) traced_yield;  // the tracer's
static _Atomic(void (*)(void*, int, const void*)) traced_region;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void* tracer;
static int decided;

// The definition behind us, of whatever has it: another tool, or MPI.
__attribute__((visibility("default"))) void* polter_next(const char* name) {
    void* volatile next = dlsym(RTLD_NEXT, name);  // no tail call: who asks is told from the return address
    return next;
}

// An MPI that only its loader sees (dlopen with RTLD_LOCAL).
struct found {
    void* library;
};
static int look(struct dl_phdr_info* info, size_t size, void* found) {
    (void)size;
    const char* path = info->dlpi_name ? info->dlpi_name : "";
    const char* slash = strrchr(path, '/');
    const char* file = slash ? slash + 1 : path;
    if (strncmp(file, "libmpi.so", 9) != 0 && strncmp(file, "libmpich.so", 11) != 0) return 0;
    void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library && dlsym(library, "MPI_Init")) ((struct found*)found)->library = library;
    return ((struct found*)found)->library != NULL;
}

static void* mpi_library(void) {
    struct found found = {NULL};
    dl_iterate_phdr(look, &found);
    return found.library;
}

// Its library for this process's MPI, beside this one; NULL: there is none, or nothing is to be traced.
static void* load_tracer(void) {
    if (!getenv(POLTER_ENV_EXPERIMENT)) return NULL;
    void* library = polter_next("MPI_Init") ? RTLD_NEXT : mpi_library();
    if (!library) return NULL;
    const char* flavour = dlsym(library, "ompi_mpi_comm_world") ? "openmpi" : "mpich";
    Dl_info self;
    char path[4096];
    if (!dladdr((void*)polter_resolve, &self) || !strrchr(self.dli_fname, '/')) return NULL;
    const int folder = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
    const int length = snprintf(path, sizeof path, "%.*s/libpolter-mpi-%s.so", folder, self.dli_fname, flavour);
    if (length < 0 || (size_t)length >= sizeof path) return NULL;
    void* loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!loaded) fprintf(stderr, "polter: not traced, the program goes on: %s\n", dlerror());
    return loaded;
}

static int missing(void) {
    fprintf(stderr, "polter: the program calls a function of MPI that its MPI library does not have\n");
    return 16;  // MPI_ERR_OTHER of Open MPI; an error to MPICH too
}

void* polter_resolve(unsigned number) {
    const int error = errno;
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_mutex_lock(&mutex);
    if (!decided) {
        decided = 1;
        tracer = load_tracer();
        if (tracer) {
            traced_yield = (int (*)(void))dlsym(tracer, "sched_yield");
            traced_region = (void (*)(void*, int, const void*))dlsym(tracer, "polter_region_event_from");
        }
    }
    pthread_mutex_unlock(&mutex);
    const char* name = polter_names;
    for (unsigned i = 0; i < number; i++) name += strlen(name) + 1;
    void* function = tracer ? dlsym(tracer, name) : NULL;
    if (!function) function = polter_next(name);
    if (!function) {
        void* library = mpi_library();
        if (library) function = dlsym(library, name);
    }
    if (!function) function = (void*)missing;
    polter_slots[number] = function;
    pthread_setcancelstate(cancel, NULL);
    errno = error;
    return function;
}

// A thread that measures itself cannot tell yields from preemptions (tracer/mpi/yield.cpp).
__attribute__((visibility("default"))) int sched_yield(void) {
    int (*yield)(void) = traced_yield;
    return yield ? yield() : (int)syscall(SYS_sched_yield);
}

static int begins(const char* text, const char* with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static int is_one_of(const char* text, const char* const* list) {
    for (; *list; list++)
        if (strcmp(text, *list) == 0) return 1;
    return 0;
}

// Regions of the program; before its first call of MPI nothing is traced.
__attribute__((visibility("default"))) void polter_region_event_1(void* region, int begins) {
    void (*event)(void*, int, const void*) = traced_region;
    if (event) event(region, begins, __builtin_return_address(0));
}

// Open MPI's launcher gives other nodes only the variables that it is told to, either by -x or by this one: it refuses both.
static void forward(char** words) {
    static const char* const batch[] = {POLTER_BATCH_VARIABLES, NULL};
    static const char* const hosts[] = {POLTER_HOST_OPTIONS, NULL};
    static const char* const given[] = {"-x", "mca_base_env_list", NULL};
    const char* names = getenv(POLTER_ENV_FORWARD);
    int leaves = 0;
    for (const char* const* variable = batch; *variable; variable++) leaves |= getenv(*variable) != NULL;
    for (; *words; words++) {
        if (is_one_of(*words, given)) return;
        leaves |= is_one_of(*words, hosts);
    }
    if (!names || !leaves) return;
    const char* list = "OMPI_MCA_mca_base_env_list";
    const char* before = getenv(list);
    char all[8192];
    const int length = snprintf(all, sizeof all, "%s%s%s", before ? before : "", before && *before ? ";" : "", names);
    if (length > 0 && (size_t)length < sizeof all) setenv(list, all, 1);
}

// In a launcher: what it starts is one MPI job, and Hydra has no name for it.
__attribute__((constructor)) static void begin(int count, char** words) {
    if (count < 1 || !words || !words[0] || !getenv(POLTER_ENV_EXPERIMENT)) return;
    const char* slash = strrchr(words[0], '/');
    const char* name = slash ? slash + 1 : words[0];
    if (!begins(name, "mpirun") && !begins(name, "mpiexec") && !begins(name, "orterun") && !begins(name, "prterun")) return;
    char host[256] = "", job[384];
    gethostname(host, sizeof host - 1);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(job, sizeof job, "%s.%ld.%lld%09ld", host, (long)getpid(), (long long)now.tv_sec, now.tv_nsec);
    setenv(POLTER_ENV_LAUNCHER, job, 1);
    forward(words + 1);
}
