// SPDX-License-Identifier: BSD-3-Clause
#include "tracepoints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfmon/pfmlib.h>
#include <perfmon/pfmlib_perf_event.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "../bpf/net_irqs.hpp"
#include "perf.h"

namespace polter::perf {
namespace {

// Where libpfm4 looks, and so do we.
const std::filesystem::path events = "/sys/kernel/debug/tracing/events";

// The fields that perf.c reads of a tracepoint's record, at the offsets it expects.
struct Field {
    const char* name;
    unsigned offset, size;
};
const std::map<std::string, std::vector<Field>> fields = {
    {"sched:sched_switch", {{"next_comm[16]", 40, 16}, {"next_pid", 56, 4}}},
    {"irq:irq_handler_entry", {{"irq", 8, 4}, {"name", 12, 4}}},
    {"irq:irq_handler_exit", {{"irq", 8, 4}}},
    {"irq:softirq_entry", {{"vec", 8, 4}}},
    {"irq:softirq_exit", {{"vec", 8, 4}}},
    {"nmi:nmi_handler", {{"delta_ns", 16, 8}}},
};

bool as_expected(const std::string& tracepoint) {
    const auto expected = fields.find(tracepoint);
    if (expected == fields.end()) return true;
    std::string path = tracepoint;
    path[path.find(':')] = '/';
    std::ifstream file(events / path / "format");
    const std::string format{std::istreambuf_iterator<char>(file), {}};
    for (const auto& field : expected->second) {
        // "\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;"
        const auto at = format.find(fmt::format(" {};\toffset:{};\tsize:{};", field.name, field.offset, field.size));
        if (at == std::string::npos) return false;
    }
    return true;
}

}  // namespace

Tracepoints allowed_tracepoints() {
    Tracepoints out;
    std::error_code error;
    if (!std::filesystem::exists(events, error)) {
        out.why_not = fmt::format("{}: {}; as root: mount -t debugfs nodev /sys/kernel/debug, and let users read it", events.string(),
                                  error ? error.message() : "not there");
        return out;
    }
    if (const int result = pfm_initialize(); result != PFM_SUCCESS) {
        out.why_not = fmt::format("libpfm4: {}", pfm_strerror(result));
        return out;
    }
    std::vector<std::string> items, missing;
    std::map<std::string, std::uint64_t> numbers;
    std::string refusal;
    for (unsigned n = 0; const char* name = polter_perf_tracepoint(n); ++n) {
        perf_event_attr attr{};
        pfm_perf_encode_arg_t argument{};
        argument.attr = &attr;
        argument.size = sizeof argument;
        attr.size = sizeof attr;
        char reason[256];
        if (pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &argument) != PFM_SUCCESS || !as_expected(name)) {
            missing.push_back(name);
        } else if (polter_perf_tracepoint_allowed(attr.config, reason, sizeof reason) != 0) {
            refusal = fmt::format("{}: {}", name, reason);
            missing.push_back(name);
        } else {
            numbers[name] = attr.config;
        }
    }
    pfm_terminate();
    if (numbers.empty()) {
        out.why_not = refusal.empty() ? "this kernel has none of the tracepoints" : refusal;
        return out;
    }
    for (const auto& [name, config] : numbers) {
        // An end without its beginning, or the reverse, is of no use (the end of irq_work cannot be sampled).
        std::string partner = name;
        if (const auto at = partner.rfind("_entry"); at != std::string::npos)
            partner.replace(at, 6, "_exit");
        else if (const auto end = partner.rfind("_exit"); end != std::string::npos)
            partner.replace(end, 5, "_entry");
        if (numbers.contains(partner)) items.push_back(fmt::format("{}={}", name, config));
    }
    for (const unsigned line : exporter::net_irqs()) items.push_back(fmt::format("net={}", line));
    out.list = fmt::format("{}", fmt::join(items, ","));
    if (!missing.empty())
        out.why_not = fmt::format("this kernel has no {}, or does not let it be sampled, or in another form", fmt::join(missing, ", "));
    return out;
}

}  // namespace polter::perf
