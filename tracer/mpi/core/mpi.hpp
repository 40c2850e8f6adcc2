// SPDX-License-Identifier: BSD-3-Clause
// The MPI below us, found at run time: this library is linked to none, so that it can be preloaded into anything.
//
// A wrapper calls the next definition of its own name, so that other tools loaded behind this one still see the call; what the
// handlers ask MPI on their own goes by PMPI_ names and is seen by nobody.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define POLTER_WRAPPER extern "C" __attribute__((visibility("default")))

namespace polter::mpi {

// A handle as a wrapper takes it and passes it on. Where handles are integers this library may still be in a program whose handles are
// pointers: of those, too, every bit must get through.
template <typename Handle>
using Wide = std::conditional_t<sizeof(Handle) < sizeof(intptr_t), intptr_t, Handle>;

// The functions that handlers call themselves.
#define POLTER_PMPI(X)                                                                                                            \
    X(Comm_rank)                                                                                                                  \
    X(Comm_size)                                                                                                                  \
    X(Comm_remote_size)                                                                                                           \
    X(Comm_test_inter)                                                                                                            \
    X(Comm_group)                                                                                                                 \
    X(Comm_remote_group)                                                                                                          \
    X(Group_size) X(Group_translate_ranks) X(Group_free) X(Type_size_x) X(Get_count) X(Get_elements_x) X(Test_cancelled)          \
        X(Get_library_version) X(Query_thread) X(Error_class) X(Topo_test) X(Dist_graph_neighbors_count) X(Dist_graph_neighbors)  \
            X(Graph_neighbors_count) X(Graph_neighbors) X(Cartdim_get) X(Cart_shift) X(Group_incl) X(Comm_create_group)           \
                X(Comm_set_errhandler) X(Comm_get_errhandler) X(Errhandler_free) X(Comm_free) X(Isend) X(Irecv) X(Test) X(Cancel) \
                    X(Request_free) X(Type_get_envelope)

struct Pmpi {
#define POLTER_POINTER(name) decltype(&PMPI_##name) name = nullptr;
    POLTER_PMPI(POLTER_POINTER)
#undef POLTER_POINTER
};
extern Pmpi pmpi;

// MPI's predefined handles; in Open MPI they are addresses of its variables.
struct Constants {
    MPI_Comm comm_world, comm_self, comm_null;
    MPI_Request request_null;
    MPI_Datatype byte;
    MPI_Message message_no_proc;
    MPI_Errhandler errors_return;
};
extern Constants constants;

// A symbol of the program's MPI, however that was loaded; NULL if it has none. find_foreign: of another MPI, whose programs are not to be
// traced and not to be hurt either.
void* find_function(const char* name);
void* find_variable(const char* name);
void* find_foreign(const char* name);

// Finds all of the above, and the wrapped functions. False if there is no such MPI in this process; `missing` is then a name.
bool find_mpi(const char*& missing);

extern void* next_functions[];
void* find_next(unsigned region);
void find_most();  // what the program's MPI has of them

// The next definition of a wrapped function; NULL if there is none.
template <typename F>
F next_of(unsigned region) {
    void* f = next_functions[region];
    if (!f) [[unlikely]]
        f = find_next(region);
    return reinterpret_cast<F>(f);
}
// Says that the MPI library lacks the function; returns an MPI error.
int missing(unsigned region);

inline MPI_Comm no_comm() {
    return constants.comm_null;
}

// Handles are integers in one MPI and pointers in the other.
template <typename Handle>
uint64_t bits(Handle handle) {
    uint64_t value = 0;
    static_assert(sizeof handle <= sizeof value);
    std::memcpy(&value, &handle, sizeof handle);
    return value;
}

// The sizes of predefined types that this thread has met: they are never freed, so a handle is known for good. Others are asked for.
struct KnownType {
    uint64_t handle = 0, size = 0;
    bool predefined = false;
};
inline constexpr size_t known_types = 8;  // a power of two
extern constinit thread_local KnownType known_type[known_types];
uint64_t ask_size(MPI_Datatype type, KnownType& known);

inline uint64_t size_of(MPI_Datatype type) {
    const uint64_t handle = bits(type);
    KnownType& known = known_type[handle * 0x9e3779b97f4a7c15u >> 61];
    if (known.predefined && known.handle == handle) [[likely]]
        return known.size;
    return ask_size(type, known);
}

inline uint64_t bytes_of(MPI_Count count, MPI_Datatype type) {
    return count > 0 ? static_cast<uint64_t>(count) * size_of(type) : 0;
}

// The bytes of a received message, where the MPI keeps them in its status: found out by comparing some with what it says itself. The fields
// are those of its public header, which its ABI fixes.
inline uint64_t bytes_in(const MPI_Status& status) {
#ifdef OPEN_MPI
    return status._ucount;
#else
    return static_cast<uint64_t>(static_cast<uint32_t>(status.count_lo)) |
           static_cast<uint64_t>(static_cast<uint32_t>(status.count_hi_and_cancelled) >> 1) << 32;
#endif
}
inline constexpr int compared_statuses = 16;
extern std::atomic<int> status_trust;  // so many have been as expected; below 0: one was not

// The bytes of a received message, exactly.
uint64_t ask_bytes(const MPI_Status& status);
inline uint64_t bytes_of(const MPI_Status& status) {
    if (status_trust.load(std::memory_order_relaxed) >= compared_statuses) [[likely]]
        return bytes_in(status);
    return ask_bytes(status);
}

}  // namespace polter::mpi
