// SPDX-License-Identifier: BSD-3-Clause
#include "fortran.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <vector>

namespace polter::mpi::fortran {

Conversions conversions;

namespace {

// Addresses that stand for something else than what lies there.
template <size_t most>
class Sentinels {
  public:
    void add(const void* address) {
        if (address && count_ < most) addresses_[count_++] = address;
    }
    bool has(const void* address) const {
        for (size_t i = 0; i < count_; i++)
            if (addresses_[i] == address) return true;
        return false;
    }

  private:
    std::array<const void*, most> addresses_{};
    size_t count_ = 0;
};
Sentinels<8> status_ignore, in_place;
std::once_flag prepared;

// A pointer variable of the MPI's; it need not have it.
const void* value_of(const char* name) {
    auto* variable = static_cast<void* const*>(find_variable(name));
    return variable ? *variable : nullptr;
}

// Fortran's constants are variables, of which each object that was loaded for itself alone may have its own: where one object of a plug-in
// has it, that is the one that its MPI was linked to. Any of them is the constant.
void find_in_place(std::initializer_list<const char*> variables) {
    std::vector<std::string> objects;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* names) {
            static_cast<std::vector<std::string>*>(names)->emplace_back(info->dlpi_name);
            return 0;
        },
        &objects);
    for (const std::string& object : objects) {
        void* library = dlopen(object.empty() ? nullptr : object.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        if (!library) continue;
        for (const char* name : variables)
            if (const void* address = dlsym(library, name); address && !in_place.has(address)) in_place.add(address);
        dlclose(library);
    }
}

#ifdef OPEN_MPI
void find_in_place() {
    find_in_place({"mpi_fortran_in_place_", "mpi_fortran_in_place__", "mpi_fortran_in_place", "MPI_FORTRAN_IN_PLACE"});
}
#else
void find_in_place() {
    in_place.add(value_of("MPIR_F_MPI_IN_PLACE"));  // mpif.h, mpi
    find_in_place({"MPIR_F08_MPI_IN_PLACE"});       // mpi_f08
}

// MPICH 4.0's mpi_f08 counts requests from zero (mpi_waitany_f08_ and its like give C's index back as it is); later ones do not. It is
// asked which it is: a receive from nobody, alone in a list, is complete at once and is its first.
void find_first_index(unsigned slot) {
    const std::string_view name = slot_names[slot];
    const bool any = name == "mpi_waitany_f08_" || name == "mpi_testany_f08_";
    if (!any && name != "mpi_waitsome_f08_" && name != "mpi_testsome_f08_") return;
    void* routine = find_function(slot_names[slot]);
    auto* receive = reinterpret_cast<decltype(&PMPI_Irecv)>(find_function("PMPI_Irecv"));
    MPI_Request request = MPI_REQUEST_NULL;
    if (!routine || !receive || receive(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request) != MPI_SUCCESS) return;
    const auto call = [routine](auto*... arguments) { reinterpret_cast<void (*)(decltype(arguments)...)>(routine)(arguments...); };
    MPI_Fint one = 1, index = 1, other = 0, error = 0;
    MPI_Status status;
    if (name == "mpi_waitany_f08_")
        call(&one, &request, &index, &status, &error);
    else if (any)
        call(&one, &request, &index, &other, &status, &error);
    else
        call(&one, &request, &other, &index, &status, &error);
    if (error == MPI_SUCCESS && index == 0) first_index[slot] = 0;
}
#endif

void find_all() {
#ifndef OPEN_MPI
    // MPICH learns where Fortran's constants are in the first Fortran call; this one does nothing else.
    MPI_Fint flag = 0, error = 0;
    if (void* initialized = find_function("pmpi_initialized_"))
        reinterpret_cast<void (*)(MPI_Fint*, MPI_Fint*)>(initialized)(&flag, &error);
#endif
    for (const char* name : {"MPI_F_STATUS_IGNORE", "MPI_F_STATUSES_IGNORE", "MPI_F08_STATUS_IGNORE", "MPI_F08_STATUSES_IGNORE"})
        status_ignore.add(value_of(name));
    find_in_place();
    for (unsigned slot = 0; slot < slot_count; slot++) first_index[slot] = 1;
#ifndef OPEN_MPI
    for (unsigned slot = 0; slot < slot_count; slot++) find_first_index(slot);
#endif
    conversions.ready = true;
#define POLTER_FIND(name, Handle)                                                                         \
    conversions.name = reinterpret_cast<decltype(conversions.name)>(find_function("PMPI_" #name "_f2c")); \
    if (!conversions.name) conversions.ready = false;
    POLTER_CONVERTED(POLTER_FIND)
#undef POLTER_FIND
}

// gfortran's and ifort's name of a routine, then what other compilers make of it.
void* find_named(const std::string& name, void* (*find)(const char*)) {
    if (void* f = find(name.c_str())) return f;
    if (name.ends_with("f08_") || name.ends_with("f08ts_") || name.ends_with("large_")) return nullptr;
    std::string capitals = name.substr(0, name.size() - 1);
    for (char& c : capitals)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (void* f = find((name + "_").c_str())) return f;
    return find(capitals.c_str());
}

}  // namespace

void prepare() {
    if (!find_named("mpi_init_", find_function)) return;
    for (unsigned slot = 0; slot < slot_count; slot++) next_functions[slot] = find_named(slot_names[slot], find_function);
    std::call_once(prepared, find_all);
}

void* find_next(unsigned slot) {
    if (process.on.load(std::memory_order_relaxed)) std::call_once(prepared, find_all);
    void* f = find_named(slot_names[slot], find_function);
    if (!f) f = find_named(slot_names[slot], find_foreign);
    return next_functions[slot] = f;
}

void missing(unsigned slot, MPI_Fint* ierror) {
    std::fprintf(stderr, "polter: the program calls %s, but its MPI library has no such routine\n", slot_names[slot]);
    if (ierror) *ierror = MPI_ERR_OTHER;
}

bool is_in_place(const void* buffer) {
    return in_place.has(buffer);
}

bool is_status_ignore(const void* status) {
    return status_ignore.has(status);
}

const MPI_Datatype* c_types(const MPI_Fint* types, MPI_Comm comm, bool significant, int side) {
    int count = 0;
    if (significant) {
        const TableLock lock;
        if (const Comm* known = process.comms->find(comm)) count = known->peers;
    }
    MPI_Datatype* c = room(scratch().types[side], count);
    for (int i = 0; i < count; i++) c[i] = f2c<MPI_Datatype>(types[i]);
    return c;
}

}  // namespace polter::mpi::fortran
