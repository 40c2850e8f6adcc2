// SPDX-License-Identifier: BSD-3-Clause
// What the program unloads: at the same addresses something else may be loaded next, so that return addresses mean something else.
#include <dlfcn.h>

#include "../write/call_sites.hpp"

extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
    static const auto next = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "dlclose"));
    const int result = next ? next(handle) : -1;
    polter::write::unloaded.fetch_add(1, std::memory_order_relaxed);
    return result;
}
