// SPDX-License-Identifier: BSD-3-Clause
// PAPI, loaded only where events of it are asked for.
#pragma once

#include <dlfcn.h>
#include <papi.h>

#include <string>

namespace polter::trace {

inline std::string papi_library() {
    return "libpapi.so." + std::to_string(PAPI_VERSION_MAJOR(PAPI_VER_CURRENT)) + "." +
           std::to_string(PAPI_VERSION_MINOR(PAPI_VER_CURRENT));
}

class Papi {
  public:
    // False with the reason. It is never unloaded: its threads' data lives in it.
    bool load(std::string& error) {
        const std::string name = papi_library();
        void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            error = "PAPI (" + name + ") is not installed; on Debian: libpapi" + name.substr(11);
            return false;
        }
#define POLTER_PAPI(function) function = reinterpret_cast<decltype(&PAPI_##function)>(dlsym(library, "PAPI_" #function));
        POLTER_PAPI(library_init)
        POLTER_PAPI(thread_init)
        POLTER_PAPI(create_eventset)
        POLTER_PAPI(add_named_event)
        POLTER_PAPI(start)
        POLTER_PAPI(stop)
        POLTER_PAPI(read)
        POLTER_PAPI(strerror)
        POLTER_PAPI(num_components)
        POLTER_PAPI(get_component_info)
#undef POLTER_PAPI
        if (!library_init || !thread_init || !create_eventset || !add_named_event || !start || !stop || !read || !strerror ||
            !num_components || !get_component_info) {
            error = name + " lacks functions of PAPI";
            return false;
        }
        if (library_init(PAPI_VER_CURRENT) != PAPI_VER_CURRENT) {
            error = name + " cannot be initialised";
            return false;
        }
        return true;
    }

    decltype(&PAPI_library_init) library_init = nullptr;
    decltype(&PAPI_thread_init) thread_init = nullptr;
    decltype(&PAPI_create_eventset) create_eventset = nullptr;
    decltype(&PAPI_add_named_event) add_named_event = nullptr;
    decltype(&PAPI_start) start = nullptr;
    decltype(&PAPI_stop) stop = nullptr;
    decltype(&PAPI_read) read = nullptr;
    decltype(&PAPI_strerror) strerror = nullptr;
    decltype(&PAPI_num_components) num_components = nullptr;
    decltype(&PAPI_get_component_info) get_component_info = nullptr;
};

}  // namespace polter::trace
