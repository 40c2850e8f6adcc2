// SPDX-License-Identifier: BSD-3-Clause
#include "callers.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string_view>
#include <tuple>

namespace polter::mpi {
namespace {

struct Code {
    uintptr_t begin, end;
    bool openmp = false;
    bool has(const void* address) const {
        return reinterpret_cast<uintptr_t>(address) >= begin && reinterpret_cast<uintptr_t>(address) < end;
    }
};
std::array<Code, 64> others;  // code whose mutexes are not the program's
std::atomic<size_t> others_known{0};
std::mutex others_mutex;

// What recording calls.
struct Called {
    std::array<const void*, 12> functions{};
    Called() {
        constexpr const char* names[] = {"malloc", "calloc", "realloc",   "free",  "write",  "pwrite64",
                                         "open",   "open64", "ftruncate", "close", "unlink", "mmap"};
        static_assert(std::size(names) == std::tuple_size_v<decltype(functions)>);
        std::transform(std::begin(names), std::end(names), functions.begin(), [](const char* name) { return dlsym(RTLD_DEFAULT, name); });
    }
};

template <size_t size>
bool begins_with_any(std::string_view file, const char* const (&names)[size]) {
    return std::any_of(std::begin(names), std::end(names), [&](const char* name) { return file.starts_with(name); });
}

std::string_view file_of(const char* path) {
    const char* slash = path ? std::strrchr(path, '/') : nullptr;
    return slash ? slash + 1 : path ? path : "";
}

bool is_openmp(std::string_view file) {
    constexpr const char* names[] = {"libgomp", "libomp", "libiomp"};
    return begins_with_any(file, names);
}

bool is_other(std::string_view file, const Code& code, const Called& called) {
    constexpr const char* runtimes[] = {"libpolter-mpi", "libmpi", "libopen-pal", "libopen-rte"};
    constexpr const char* system[] = {"libc.", "libc-", "libpthread", "ld-linux", "ld."};
    if (code.openmp || begins_with_any(file, runtimes)) return true;
    if (begins_with_any(file, system)) return false;
    return std::any_of(called.functions.begin(), called.functions.end(), [&](const void* function) { return code.has(function); });
}

int add_other(dl_phdr_info* object, size_t, void* called) {
    const std::string_view file = file_of(object->dlpi_name);
    Code code{UINTPTR_MAX, 0, is_openmp(file)};
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = object->dlpi_phdr[i];
        if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
        code.begin = std::min<uintptr_t>(code.begin, object->dlpi_addr + part.p_vaddr);
        code.end = std::max<uintptr_t>(code.end, object->dlpi_addr + part.p_vaddr + part.p_memsz);
    }
    if (!is_other(file, code, *static_cast<const Called*>(called))) return 0;
    const size_t known = others_known.load(std::memory_order_relaxed);
    for (size_t i = 0; i < known; ++i)
        if (others[i].begin == code.begin) return 0;
    if (known == others.size()) return 1;
    others[known] = code;
    others_known.store(known + 1, std::memory_order_release);
    return 0;
}

// NULL: none of the others.
const Code* other_at(const void* address) {
    const auto* end = others.begin() + static_cast<ptrdiff_t>(others_known.load(std::memory_order_acquire));
    const auto* code = std::find_if(others.cbegin(), end, [&](const Code& other) { return other.has(address); });
    return code == end ? nullptr : code;
}

}  // namespace

void know_callers() {
    const Called called;
    const std::lock_guard lock(others_mutex);
    dl_iterate_phdr(add_other, const_cast<Called*>(&called));
}

bool by_others(const void* from) {
    return other_at(from) != nullptr;
}

bool by_openmp(const void* from) {
    if (const Code* other = other_at(from)) return other->openmp;
    Dl_info object;
    if (!dladdr(from, &object) || !is_openmp(file_of(object.dli_fname))) return false;
    know_callers();
    return true;
}

}  // namespace polter::mpi
