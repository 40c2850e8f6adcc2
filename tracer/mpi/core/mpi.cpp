// SPDX-License-Identifier: BSD-3-Clause
#include "mpi.hpp"

#include <dlfcn.h>
#include <link.h>

#include <climits>
#include <cstdio>
#include <initializer_list>
#include <mpi_regions.hpp>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace polter::mpi {

Pmpi pmpi;
Constants constants;
void* next_functions[trace::region_count];
constinit thread_local KnownType known_type[known_types];
std::atomic<int> status_trust = 0;

uint64_t ask_size(MPI_Datatype type, KnownType& known) {
    MPI_Count size = 0;
    if (pmpi.Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return 0;
    if (known.handle != bits(type)) {
        int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_DUP;
        pmpi.Type_get_envelope(type, &integers, &addresses, &types, &combiner);
        known = {bits(type), static_cast<uint64_t>(size), combiner == MPI_COMBINER_NAMED};
    }
    return static_cast<uint64_t>(size);
}

uint64_t ask_bytes(const MPI_Status& status) {
    uint64_t bytes = 0;
    int count = 0;
    MPI_Count large = 0;  // more than an int holds
    if (pmpi.Get_count(&status, constants.byte, &count) == MPI_SUCCESS && count != MPI_UNDEFINED)
        bytes = static_cast<uint64_t>(count);
    else if (pmpi.Get_elements_x(&status, constants.byte, &large) == MPI_SUCCESS && large != MPI_UNDEFINED)
        bytes = static_cast<uint64_t>(large);
    if (bytes != bytes_in(status))
        status_trust = INT_MIN / 2;
    else if (bytes != 0)
        status_trust.fetch_add(1, std::memory_order_relaxed);
    return bytes;
}

namespace {

// Where MPI was loaded with RTLD_LOCAL (by a plug-in or an interpreter) only its own handle leads to it. One handle a library, looked for
// among what is loaded and only when that has changed: dlopen would search the disk for each name that is not there.
class Libraries {
  public:
    Libraries(std::initializer_list<const char*> sonames) {
        for (const char* soname : sonames) libraries_.push_back({soname});
    }

    void* symbol(const char* name) {
        const std::lock_guard lock(mutex_);
        looking_ = false;
        dl_iterate_phdr(see, this);
        for (Library& library : libraries_) {
            if (!library.handle && !library.path.empty()) library.handle = dlopen(library.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
            if (void* symbol = library.handle ? dlsym(library.handle, name) : nullptr) return symbol;
        }
        return nullptr;
    }

  private:
    struct Library {
        std::string soname, path = {};
        void* handle = nullptr;  // held, as the functions found in it are
    };

    // Not 0: enough has been seen.
    static int see(dl_phdr_info* info, size_t, void* self) {
        auto& of = *static_cast<Libraries*>(self);
        if (!of.looking_ && info->dlpi_adds == of.adds_) return 1;
        of.looking_ = true;
        of.adds_ = info->dlpi_adds;
        const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
        const std::string_view file = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
        for (Library& library : of.libraries_)                           // "libmpi.so.40", or by its full version
            if (file.starts_with(library.soname) && (file.size() == library.soname.size() || file[library.soname.size()] == '.'))
                library.path = path;
        return 0;
    }

    std::mutex mutex_;
    std::vector<Library> libraries_;
    unsigned long long adds_ = 0;  // loaded since the process began, when we looked last
    bool looking_ = false;
};

void* in_own(const char* name) {
    static Libraries libraries{POLTER_MPI_SONAMES};
    return libraries.symbol(name);
}

#ifdef OPEN_MPI
bool find_constants(const char*& missing) {
    const auto find = [&missing](const char* name, auto& handle) {
        handle = reinterpret_cast<std::remove_reference_t<decltype(handle)>>(find_variable(name));
        if (!handle && !missing) missing = name;
    };
    find("ompi_mpi_comm_world", constants.comm_world);
    find("ompi_mpi_comm_self", constants.comm_self);
    find("ompi_mpi_comm_null", constants.comm_null);
    find("ompi_request_null", constants.request_null);
    find("ompi_mpi_byte", constants.byte);
    find("ompi_message_no_proc", constants.message_no_proc);
    find("ompi_mpi_errors_return", constants.errors_return);
    return !missing;
}
#else
bool find_constants(const char*& missing) {
    if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world")) {
        missing = "MPICH's handles but Open MPI's";
        return false;
    }
    constants = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL, MPI_REQUEST_NULL, MPI_BYTE, MPI_MESSAGE_NO_PROC, MPI_ERRORS_RETURN};
    return true;
}
#endif

}  // namespace

// Of tracer/dispatch, which loads this library where it was not preloaded itself: the next definition is then the one behind it.
extern "C" __attribute__((weak)) void* polter_next(const char* name);

namespace {

void* next_definition(const char* name) {
    void* volatile next =
        polter_next ? polter_next(name) : dlsym(RTLD_NEXT, name);  // no tail call: who asks is told from the return address
    return next;
}

}  // namespace

void* find_function(const char* name) {
    void* symbol = next_definition(name);
    return symbol ? symbol : in_own(name);
}

// RTLD_DEFAULT first: a program that is not position-independent has its own copy of these variables.
void* find_variable(const char* name) {
    void* symbol = dlsym(RTLD_DEFAULT, name);
    return symbol ? symbol : in_own(name);
}

void* find_foreign(const char* name) {
    static Libraries libraries{POLTER_OTHER_SONAMES};
    return libraries.symbol(name);
}

bool find_mpi(const char*& missing) {
    missing = nullptr;
#define POLTER_FIND(name)                                                            \
    pmpi.name = reinterpret_cast<decltype(pmpi.name)>(find_function("PMPI_" #name)); \
    if (!pmpi.name && !missing) missing = "PMPI_" #name;
    POLTER_PMPI(POLTER_FIND)
#undef POLTER_FIND
    return !missing && find_constants(missing);
}

void* find_next(unsigned region) {
    const std::string name = trace::regions[region].name;
    void* f = find_function(name.c_str());
    if (!f) f = find_function(("P" + name).c_str());
    if (!f) f = find_foreign(name.c_str());
    return next_functions[region] = f;
}

// A third of the names are of a newer MPI than the program's. Where MPI is in front of everybody, the other ways to a name lead nowhere
// and would take most of the time of all this: who calls such a function all the same goes them then.
void find_most() {
    const bool all = !next_definition("MPI_Init");
    for (unsigned region = 0; region < trace::region_count; region++) {
        if (all)
            find_next(region);
        else
            next_functions[region] = next_definition(trace::regions[region].name);
    }
}

int missing(unsigned region) {
    std::fprintf(stderr, "polter: the program calls %s, but its MPI library has no such function\n", trace::regions[region].name);
    return MPI_ERR_OTHER;
}

}  // namespace polter::mpi
