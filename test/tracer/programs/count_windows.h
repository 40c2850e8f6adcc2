/* SPDX-License-Identifier: BSD-3-Clause */
/* Part of count.c: one-sided communication, whose notices are counted by the sizes of the groups; collectives of files and neighbourhoods.
 */
/* A window's epochs, and the communicators whose windows can be shared with others. */
static struct epoch {
    MPI_Win win;
    int started, posted;
} epochs[64];

static struct epoch* epoch_of(MPI_Win win) {
    for (int i = 0; i < 64; i++) {
        if (epochs[i].win == win || !epochs[i].win) {
            epochs[i].win = win;
            return &epochs[i];
        }
    }
    abort();
}
static int members_of(MPI_Group group) {
    int n;
    NEXT(Group_size)(group, &n);
    return n;
}
static void count_times(const char* name, int times) {
    for (int i = 0; i < times; i++) count_collective(name, 0, 0);
}

/* What the tracer makes of a call: its name in the trace's count. Calls of an MPI of its own are none. */
#define COUNTED(Name, parameters, arguments, ...)  \
    int MPI_##Name(UNPACK parameters) {            \
        depth++;                                   \
        int result = NEXT(Name)(UNPACK arguments); \
        depth--;                                   \
        if (depth == 0 && result == MPI_SUCCESS) { \
            __VA_ARGS__                            \
        }                                          \
        return result;                             \
    }
#define MAKES_WINDOW(name)                           \
    memset(epoch_of(*win), 0, sizeof(struct epoch)); \
    count_collective(name, 0, 0);                    \
    count_collective("WINDOW_CREATE", 0, 0);
COUNTED(Win_create, (void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* win), (base, size, unit, info, comm, win),
        MAKES_WINDOW("RMA_CREATE_HANDLE"))
COUNTED(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* win), (info, comm, win), MAKES_WINDOW("RMA_CREATE_HANDLE"))
COUNTED(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win),
        (size, unit, info, comm, base, win), MAKES_WINDOW("RMA_CREATE_HANDLE_AND_ALLOCATE"))
COUNTED(Win_allocate_shared, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* win),
        (size, unit, info, comm, base, win), MAKES_WINDOW("RMA_CREATE_HANDLE_AND_ALLOCATE"))
COUNTED(Win_free, (MPI_Win * win), (win), count_collective("RMA_DESTROY_HANDLE", 0, 0); count_collective("WINDOW_DESTROY", 0, 0);)
COUNTED(Win_fence, (int assert, MPI_Win win), (assert, win),
        count_collective(assert& MPI_MODE_NOPRECEDE ? "RMA_BARRIER_APART" : "RMA_BARRIER", 0, 0);)
COUNTED(Win_post, (MPI_Group group, int assert, MPI_Win win), (group, assert, win), epoch_of(win)->posted = members_of(group);
        count_times("NOTIFY_OUT", members_of(group));)
COUNTED(Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win), epoch_of(win)->started = members_of(group);
        count_times("NOTIFY_IN", members_of(group));)
COUNTED(Win_complete, (MPI_Win win), (win), count_times("NOTIFY_IN", epoch_of(win)->started);
        count_times("NOTIFY_OUT", epoch_of(win)->started);)
COUNTED(Win_wait, (MPI_Win win), (win), count_times("NOTIFY_IN", epoch_of(win)->posted);)
COUNTED(Win_test, (MPI_Win win, int* flag), (win, flag), if (*flag) count_times("NOTIFY_IN", epoch_of(win)->posted);)
COUNTED(Win_lock, (int type, int target, int assert, MPI_Win win), (type, target, assert, win),
        count_collective(type == MPI_LOCK_EXCLUSIVE ? "LOCK_EXCLUSIVE" : "LOCK_SHARED", 0, 0);)
COUNTED(Win_lock_all, (int assert, MPI_Win win), (assert, win), count_collective("LOCK_SHARED", 0, 0);)
COUNTED(Win_unlock, (int target, MPI_Win win), (target, win), count_collective("UNLOCK", 0, 0);)
COUNTED(Win_unlock_all, (MPI_Win win), (win), count_collective("UNLOCK", 0, 0);)
#define OPERATION(Name, name, parameters, arguments) \
    COUNTED(Name, parameters, arguments, if (target != MPI_PROC_NULL) count_collective(name, n* size_of(type), 0);)
OPERATION(Put, "PUT", (const void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win),
          (b, n, type, target, at, m, there, win))
OPERATION(Get, "GET", (void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win),
          (b, n, type, target, at, m, there, win))
OPERATION(Accumulate, "ACCUMULATE",
          (const void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Op op, MPI_Win win),
          (b, n, type, target, at, m, there, op, win))
/* What brings something back: sized in that. */
#define FETCH(Name, name, bytes, parameters, arguments) \
    COUNTED(Name, parameters, arguments, if (target != MPI_PROC_NULL) count_collective(name, bytes, 0);)
FETCH(Get_accumulate, "FETCH", rn* size_of(rt),
      (const void* b, int n, MPI_Datatype type, void* r, int rn, MPI_Datatype rt, int target, MPI_Aint at, int m, MPI_Datatype there,
       MPI_Op op, MPI_Win win),
      (b, n, type, r, rn, rt, target, at, m, there, op, win))
FETCH(Fetch_and_op, "FETCH", size_of(type), (const void* b, void* r, MPI_Datatype type, int target, MPI_Aint at, MPI_Op op, MPI_Win win),
      (b, r, type, target, at, op, win))
FETCH(Compare_and_swap, "SWAP", size_of(type),
      (const void* b, const void* c, void* r, MPI_Datatype type, int target, MPI_Aint at, MPI_Win win), (b, c, r, type, target, at, win))

#define WITH_REQUEST(Name, record, bytes, parameters, arguments)                                           \
    COUNTED(Name, parameters, arguments, pthread_mutex_lock(&lock);                                        \
            open_request(request, target == MPI_PROC_NULL ? NOTHING : TRANSFER)->name = "REQUEST_COMPLETE"; \
            pthread_mutex_unlock(&lock); if (target != MPI_PROC_NULL) count_collective(record, bytes, 0);)
WITH_REQUEST(Rput, "PUT", n* size_of(type),
             (const void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win,
              MPI_Request* request),
             (b, n, type, target, at, m, there, win, request))
WITH_REQUEST(Rget, "GET", n* size_of(type),
             (void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Win win, MPI_Request* request),
             (b, n, type, target, at, m, there, win, request))
WITH_REQUEST(Raccumulate, "ACCUMULATE", n* size_of(type),
             (const void* b, int n, MPI_Datatype type, int target, MPI_Aint at, int m, MPI_Datatype there, MPI_Op op, MPI_Win win,
              MPI_Request* request),
             (b, n, type, target, at, m, there, op, win, request))
WITH_REQUEST(Rget_accumulate, "FETCH", rn* size_of(rt),
             (const void* b, int n, MPI_Datatype type, void* r, int rn, MPI_Datatype rt, int target, MPI_Aint at, int m, MPI_Datatype there,
              MPI_Op op, MPI_Win win, MPI_Request* request),
             (b, n, type, r, rn, rt, target, at, m, there, op, win, request))
#define OF_FILE(Name, parameters, arguments)            \
    int MPI_##Name(UNPACK parameters) {                 \
        depth++;                                        \
        int result = NEXT(Name)(UNPACK arguments);      \
        depth--;                                        \
        if (depth == 0) count_collective("FILE", 0, 0); \
        return result;                                  \
    }
OF_FILE(File_open, (MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file), (comm, name, mode, info, file))
OF_FILE(File_close, (MPI_File * file), (file))
OF_FILE(File_set_size, (MPI_File file, MPI_Offset size), (file, size))
OF_FILE(File_sync, (MPI_File file), (file))
OF_FILE(File_write_at_all, (MPI_File file, MPI_Offset at, const void* b, int n, MPI_Datatype type, MPI_Status* status),
        (file, at, b, n, type, status))

COUNTED(Neighbor_allgather, (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm),
        (sb, sc, st, rb, rc, rt, comm), count_collective("NEIGHBOURHOOD", 0, 0);)
COUNTED(Neighbor_alltoall, (const void* sb, int sc, MPI_Datatype st, void* rb, int rc, MPI_Datatype rt, MPI_Comm comm),
        (sb, sc, st, rb, rc, rt, comm), count_collective("NEIGHBOURHOOD", 0, 0);)
