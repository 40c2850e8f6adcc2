// SPDX-License-Identifier: BSD-3-Clause
// What the program itself tells of its phases: its regions (../regions/polter.h) and MPI_Pcontrol.
#include <mpi_regions.hpp>

#include "../regions/polter.h"
#include "core/call.hpp"

namespace polter::mpi {
namespace {

void tell(polter_region* region, bool begins, const void* from) {
    if (!recording() || thread.depth > 0) return;  // within MPI: in a callback
    if (!thread.location && !adopt_thread_now()) return;
    if (const Use use(thread.location); use) {
        write::Location* const location = &use.at();
        uint32_t id = __atomic_load_n(&region->id, __ATOMIC_RELAXED);
        if (id == 0) [[unlikely]] {
            id = process.archive->region_id(region->name, region->file, region->line) + 1;
            __atomic_store_n(&region->id, id, __ATOMIC_RELAXED);
        }
        const bool sampled = begins && location->sampled();  // for both: an end costs as much as its begin
        uint64_t before = 0;
        if (sampled) [[unlikely]] {
            location->begin_sample();
            if (location->counts()) before = location->read_clock();  // the counters are read before the stamp
        }
        uint64_t time;
        if (begins)
            time = location->begin_region(id - 1, process.detail.on(), from);
        else
            time = location->end_region(id - 1, region->name, process.detail.on());
        if (sampled) [[unlikely]]
            location->sample(time ? location->read_clock() - (before ? before : time) : 0);
    }
}

constexpr unsigned region_of(std::string_view name) {
    for (unsigned region = 0; region < trace::region_count; region++)
        if (name == trace::regions[region].name) return region;
    return trace::region_count;
}
constexpr unsigned pcontrol = region_of("MPI_Pcontrol");
static_assert(pcontrol < trace::region_count);

// Levels as MPI has them (MPI-3.1, section 14.2.4): 0 off, 1 on, 2 flush; what others mean is the tool's affair: nothing.
template <typename Next>
void control(int level, const void* from, Next next) {
    Call call(pcontrol, from);
    call.begun();
    next();
    if (call) {
        call.come_back();
        call.at().level(call.returned(), level);
        process.detail.set_level(level, call.returned());
        constexpr int flush = 2;
        if (level == flush) call.at().sync();
    }
    call.leave();
}

void fortran_control(const char* name, const char* other, int* level, const void* from) {
    control(*level, from, [&] {
        void* next = find_function(name);
        if (!next) next = find_function(other);
        if (next) reinterpret_cast<void (*)(int*)>(next)(level);
    });
}

}  // namespace
}  // namespace polter::mpi

using namespace polter::mpi;

// `from`: the address to which the program's call returns.
POLTER_WRAPPER void polter_region_event_from(polter_region* region, int begins, const void* from) {
    tell(region, begins != 0, from);
}
POLTER_WRAPPER void polter_region_event_1(polter_region* region, int begins) {
    tell(region, begins != 0, __builtin_return_address(0));
}

// Further arguments would be a tool's; the next definition gets the level alone, since nobody knows their number.
POLTER_WRAPPER int wrapped_MPI_Pcontrol(const int level, ...) __asm__("MPI_Pcontrol");
int wrapped_MPI_Pcontrol(const int level, ...) {
    const auto next = next_of<int (*)(int, ...)>(pcontrol);
    if (!next) return missing(pcontrol);
    int result = 0;
    control(level, __builtin_return_address(0), [&] { result = next(level); });
    return result;
}

POLTER_WRAPPER void mpi_pcontrol_(int* level) {
    fortran_control("mpi_pcontrol_", "mpi_pcontrol__", level, __builtin_return_address(0));
}
POLTER_WRAPPER void mpi_pcontrol__(int* level) {
    fortran_control("mpi_pcontrol__", "mpi_pcontrol_", level, __builtin_return_address(0));
}
POLTER_WRAPPER void mpi_pcontrol_f08_(int* level) {
    fortran_control("mpi_pcontrol_f08_", "mpi_pcontrol_", level, __builtin_return_address(0));
}
