// SPDX-License-Identifier: BSD-3-Clause
#include "counters.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "../papi.hpp"
#include "../perf_event_json.hpp"
#include "launch.hpp"

namespace polter::launch {
namespace {

using nlohmann::json;
using trace::PerfEvent;

constexpr const char* common[] = {"CYCLES",        "INSTRUCTIONS",   "CACHE-REFERENCES", "CACHE-MISSES",     "BRANCH-INSTRUCTIONS",
                                  "BRANCH-MISSES", "TASK-CLOCK",     "CPU-CLOCK",        "PAGE-FAULTS",      "MINOR-FAULTS",
                                  "MAJOR-FAULTS",  "CPU-MIGRATIONS", "CONTEXT-SWITCHES", "ALIGNMENT-FAULTS", "EMULATION-FAULTS"};

// libpfm4, loaded only where a name is to be looked up.
class Names {
  public:
    Names() {
        void* library = dlopen("libpfm.so.4", RTLD_NOW | RTLD_LOCAL);
        if (!library) throw Error("--perf needs libpfm4, which is not installed; on Debian: libpfm4");
        const auto initialize = reinterpret_cast<decltype(&pfm_initialize)>(dlsym(library, "pfm_initialize"));
        encode_ = reinterpret_cast<decltype(&pfm_get_os_event_encoding)>(dlsym(library, "pfm_get_os_event_encoding"));
        text_ = reinterpret_cast<decltype(&pfm_strerror)>(dlsym(library, "pfm_strerror"));
        if (!initialize || !encode_ || !text_ || initialize() != PFM_SUCCESS) throw Error("libpfm4 cannot be initialised");
    }
    // False with the reason.
    bool find(const std::string& name, PerfEvent& event, std::string& error) const {
        perf_event_attr attributes{};
        attributes.size = sizeof attributes;
        pfm_perf_encode_arg_t request{};
        request.attr = &attributes;
        request.size = sizeof request;
        const int code = encode_(name.c_str(), PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &request);
        if (code != PFM_SUCCESS) {
            error = text_(code);
            return false;
        }
        event = {name, attributes.type, attributes.config, attributes.config1, attributes.config2, attributes.exclude_kernel != 0};
        return true;
    }

  private:
    decltype(&pfm_get_os_event_encoding) encode_ = nullptr;
    decltype(&pfm_strerror) text_ = nullptr;
};

// Counted without the kernel's part these are always zero, which would be taken for a measurement.
bool of_the_kernel(const PerfEvent& event) {
    return event.type == PERF_TYPE_SOFTWARE &&
           (event.config == PERF_COUNT_SW_CONTEXT_SWITCHES || event.config == PERF_COUNT_SW_CPU_MIGRATIONS);
}

// The descriptor in the group of `leader`; the kernel's part is left out where this user may not count it. -1 with the reason.
int open_allowed(PerfEvent& event, int leader, std::string& error) {
    int file = trace::open_perf_event(event, leader);
    if (file < 0 && (errno == EACCES || errno == EPERM) && !event.user_only) {
        if (of_the_kernel(event)) {
            error = "it is counted in the kernel, which kernel.perf_event_paranoid does not allow this user (see polter doctor)";
            return -1;
        }
        event.user_only = true;
        file = trace::open_perf_event(event, leader);
    }
    if (file >= 0 && event.user_only && of_the_kernel(event)) {
        close(file);
        error = "it is counted in the kernel, and was asked for in user mode only";
        return -1;
    }
    if (file < 0)
        error =
            errno == ENOENT || errno == EOPNOTSUPP || errno == ENODEV ? "this machine does not have it" : std::string(std::strerror(errno));
    return file;
}

std::string countable_perf(const Names& names) {
    std::string list;
    for (const char* name : common) {
        PerfEvent event;
        std::string error;
        if (!names.find(name, event, error)) continue;
        const int file = open_allowed(event, -1, error);
        if (file < 0) continue;
        close(file);
        list += (list.empty() ? "" : " ") + event.name;
    }
    return list.empty() ? "nothing" : list;
}

json perf_events(const std::vector<std::string>& wanted) {
    auto out = json::array();
    if (wanted.empty()) return out;
    const Names names;
    std::vector<int> files;
    for (const auto& name : wanted) {
        PerfEvent event;
        std::string error;
        if (!names.find(name, event, error))
            throw Error(fmt::format("--perf {}: libpfm4 does not know this event ({}); here can be counted: {}", name, error,
                                    countable_perf(names)));
        const int file = open_allowed(event, files.empty() ? -1 : files.front(), error);
        if (file < 0)
            throw Error(fmt::format("--perf {}: cannot be counted here{}: {}; here can be counted: {}", name,
                                    files.empty() ? "" : " together with the others", error, countable_perf(names)));
        files.push_back(file);
        out.push_back(trace::to_json(event));
    }
    // Hardware counters are few: a group that is too large is opened, and never runs.
    volatile uint64_t work = 0;
    for (int i = 0; i < 1'000'000; i++) work = work + 1;
    trace::PerfGroup group;
    const bool read_ok = read(files.front(), &group, sizeof group) > 0;
    for (const int file : files) close(file);
    if (!read_ok || group.running_ns == 0)
        throw Error(fmt::format("--perf: these {} events cannot be counted at the same time: ask for fewer", wanted.size()));
    return out;
}

// Of one event or all together; PAPI_OK or its error.
int try_papi(const trace::Papi& papi, const std::vector<std::string>& names, std::string& failed) {
    int set = PAPI_NULL;
    int code = papi.create_eventset(&set);
    for (const auto& name : names) {
        if (code != PAPI_OK) break;
        failed = name;
        code = papi.add_named_event(set, name.c_str());
    }
    if (code != PAPI_OK) return code;
    failed.clear();
    code = papi.start(set);
    long long values[trace::PerfGroup::most];
    return code == PAPI_OK ? papi.stop(set, values) : code;
}

// Why PAPI cannot count the processor's events; empty: it says nothing.
std::string why_no_processor_events(const trace::Papi& papi) {
    for (int i = 0; i < papi.num_components(); i++) {
        const PAPI_component_info_t* component = papi.get_component_info(i);
        if (component && std::string(component->name) == "perf_event" && component->disabled != 0)
            return fmt::format(" (PAPI's component perf_event is disabled: {}); --perf may count without PAPI", component->disabled_reason);
    }
    return {};
}

std::string countable_papi(const trace::Papi& papi) {
    std::string list, failed;
    for (const char* preset : {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L1_DCM", "PAPI_L2_DCM", "PAPI_L3_TCM", "PAPI_BR_MSP", "PAPI_FP_OPS"})
        if (try_papi(papi, {preset}, failed) == PAPI_OK) list += std::string(list.empty() ? "" : " ") + preset;
    for (const char* name : common)
        if (const auto full = std::string("perf::") + name; try_papi(papi, {full}, failed) == PAPI_OK)
            list += (list.empty() ? "" : " ") + full;
    return list.empty() ? "nothing" + why_no_processor_events(papi) : list;
}

// What is wrong with these events; empty: nothing.
std::string papi_refusal(const std::vector<std::string>& wanted) {
    trace::Papi papi;
    std::string error, failed;
    if (!papi.load(error)) return "--papi: " + error;
    const int code = try_papi(papi, wanted, failed);
    if (code == PAPI_OK) return "";
    return fmt::format("--papi {}: {}: {}; here can be counted: {}", failed.empty() ? fmt::format("{}", fmt::join(wanted, ",")) : failed,
                       failed.empty() ? "PAPI cannot count these together" : "PAPI does not know this event, or cannot count it here",
                       papi.strerror(code), countable_papi(papi));
}

// PAPI asks the machine in many ways, and stays in the process that it was loaded into: a child.
std::string said_by_child(const std::function<std::string()>& body) {
    int channel[2];
    if (pipe(channel) != 0) throw Error(fmt::format("--papi: no pipe: {}", std::strerror(errno)));
    const pid_t child = fork();
    if (child == 0) {
        close(channel[0]);
        const std::string text = body() + "\n";
        _exit(write(channel[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
    }
    close(channel[1]);
    std::string text;
    char buffer[512];
    for (ssize_t n; child > 0 && (n = read(channel[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
    close(channel[0]);
    int status = 1;
    if (child > 0) waitpid(child, &status, 0);
    if (status != 0 || text.empty()) return "--papi: PAPI failed in looking for the events";
    text.pop_back();
    return text;
}

}  // namespace

std::string counters_for_ranks(const std::vector<std::string>& perf, const std::vector<std::string>& papi) {
    if (perf.empty() && papi.empty()) return "";
    if (perf.size() + papi.size() > trace::PerfGroup::most)
        throw Error(
            fmt::format("--perf, --papi: {} events, and at most {} can be recorded", perf.size() + papi.size(), trace::PerfGroup::most));
    const json list{{"perf", perf_events(perf)}, {"papi", papi}};
    if (!papi.empty())
        if (const auto refusal = said_by_child([&] { return papi_refusal(papi); }); !refusal.empty()) throw Error(refusal);
    return list.dump();
}

std::string counter_for_profile(const std::vector<std::string>& perf, const std::vector<std::string>& papi) {
    if (perf.size() > 1 || !papi.empty())
        throw Error("--profile counts one event, to tell how much a segment computes: give one with --perf, and none with --papi");
    json events;
    try {
        events = perf_events(perf.empty() ? std::vector<std::string>{"PERF_COUNT_HW_INSTRUCTIONS:u"} : perf);
    } catch (const Error&) {
        if (!perf.empty()) throw;
        return "";  // the profile says that there is none
    }
    const PerfEvent event = trace::perf_event_of(events.front());
    return fmt::format("{} {} {} {} {} {}", event.type, event.config, event.config1, event.config2, event.user_only ? 1 : 0, event.name);
}

}  // namespace polter::launch
