// SPDX-License-Identifier: BSD-3-Clause
#include "mpi.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <initializer_list>
#include <mpi_regions.hpp>
#include <string>

namespace polter::mpi {

Pmpi pmpi;
Constants constants;
void* next_functions[trace::region_count];

namespace {

// Where MPI was loaded with RTLD_LOCAL (by a plug-in or an interpreter) only its own handle leads to it.
void* in_library(std::initializer_list<const char*> sonames, const char* name) {
    for (const char* soname : sonames) {
        void* library = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
        if (!library) continue;
        void* symbol = dlsym(library, name);
        dlclose(library);  // only our count of it: the library stays
        if (symbol) return symbol;
    }
    return nullptr;
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
    return !missing;
}
#else
bool find_constants(const char*& missing) {
    if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world")) {
        missing = "MPICH's handles but Open MPI's";
        return false;
    }
    constants = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL, MPI_REQUEST_NULL, MPI_BYTE, MPI_MESSAGE_NO_PROC};
    return true;
}
#endif

}  // namespace

void* find_function(const char* name) {
    void* symbol = dlsym(RTLD_NEXT, name);
    return symbol ? symbol : in_library({POLTER_MPI_SONAMES}, name);
}

// RTLD_DEFAULT first: a program that is not position-independent has its own copy of these variables.
void* find_variable(const char* name) {
    void* symbol = dlsym(RTLD_DEFAULT, name);
    return symbol ? symbol : in_library({POLTER_MPI_SONAMES}, name);
}

void* find_foreign(const char* name) {
    return in_library({POLTER_OTHER_SONAMES}, name);
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

int missing(unsigned region) {
    std::fprintf(stderr, "polter: the program calls %s, but its MPI library has no such function\n", trace::regions[region].name);
    return MPI_ERR_OTHER;
}

}  // namespace polter::mpi
