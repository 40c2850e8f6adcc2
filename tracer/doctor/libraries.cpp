// SPDX-License-Identifier: BSD-3-Clause
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <otf2/OTF2_GeneralDefinitions.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>

#include "doctor.hpp"

namespace polter::doctor {
namespace {

constexpr int patience_ms = 10000;

// What `body` says, run in a child; empty if it dies or takes too long.
std::string said_by_child(std::string (*body)()) {
    int channel[2];
    if (pipe2(channel, O_CLOEXEC) != 0) return {};
    const pid_t child = fork();
    if (child == 0) {
        const std::string text = body();
        (void)!write(channel[1], text.data(), text.size());
        _exit(0);
    }
    close(channel[1]);
    std::string text;
    char buffer[512];
    pollfd p{channel[0], POLLIN, 0};
    while (child > 0 && poll(&p, 1, patience_ms) > 0) {
        const ssize_t n = read(channel[0], buffer, sizeof buffer);
        if (n <= 0) break;
        text.append(buffer, static_cast<std::size_t>(n));
    }
    close(channel[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
    return text;
}

template <class F>
F* symbol(void* library, const char* name) {
    return reinterpret_cast<F*>(dlsym(library, name));
}

// papi.h: PAPI_VERSION_NUMBER, PAPI_PRESET_MASK, PAPI_OK. PAPI_library_init gives back the version that it was asked for if that is its
// own.
std::string look_at_papi() {
    void* library = nullptr;
    for (const char* name :
         {"libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.7", "libpapi.so.6.0", "libpapi.so.6", "libpapi.so.5", "libpapi.so"})
        if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return "-";
    auto* init = symbol<int(int)>(library, "PAPI_library_init");
    auto* query = symbol<int(int)>(library, "PAPI_query_event");
    auto* code_of = symbol<int(const char*, int*)>(library, "PAPI_event_name_to_code");
    if (!init || !query || !code_of) return "?";
    for (const auto& [major, minor] : std::initializer_list<std::pair<int, int>>{{7, 2}, {7, 1}, {7, 0}, {6, 0}, {5, 7}}) {
        const int version = major << 24 | minor << 16;
        if (init(version) != version) continue;
        int presets = 0;
        for (int i = 0; i < 256; i++) presets += query(static_cast<int>(0x80000000u | static_cast<unsigned>(i))) == 0;
        std::string events;
        for (const char* name : {"perf::TASK-CLOCK", "perf::PAGE-FAULTS", "perf::CYCLES", "perf::INSTRUCTIONS"}) {
            int code = 0;
            if (code_of(name, &code) == 0) events += fmt::format("{}{}", events.empty() ? "" : " ", name);
        }
        return fmt::format("{}.{}: {} of its preset events can be counted here; by name: {}", major, minor, presets,
                           events.empty() ? "none" : events);
    }
    return "?";
}

Finding papi() {
    Finding f{"library", "PAPI", State::note, {}, {}};
    const std::string said = said_by_child(look_at_papi);
    if (said == "-") {
        f.text = "not installed: no hardware counters";
        f.mend = "sudo apt-get install libpapi7.0";
    } else if (said.empty() || said == "?") {
        f.text = said.empty() ? "cannot be initialised: it died or took too long" : "cannot be initialised: a version that is not known";
    } else {
        f.text = said;
        if (said.find(": 0 of") == said.npos) f.state = State::works;
    }
    return f;
}

Finding pfm() {
    Finding f{"library", "libpfm4", State::note, "not installed: events go without names", "sudo apt-get install libpfm4"};
    void* library = dlopen("libpfm.so.4", RTLD_NOW | RTLD_LOCAL);
    auto* version = library ? symbol<int()>(library, "pfm_get_version") : nullptr;
    // Its own number is that of the interface, 4.0 for ever; the file's name has the release.
    Dl_info info{};
    std::error_code error;
    if (version && dladdr(reinterpret_cast<void*>(version), &info) != 0)
        f = {"library", "libpfm4", State::works, std::filesystem::canonical(info.dli_fname, error).filename().string(), {}};
    if (library) dlclose(library);
    return f;
}

}  // namespace

Findings libraries() {
    return {{"library", "OTF2", State::works, OTF2_VERSION, {}}, papi(), pfm()};
}

}  // namespace polter::doctor
