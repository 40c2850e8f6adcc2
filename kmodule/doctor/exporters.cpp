// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "../backend.hpp"
#include "../protocol.h"
#include "../daemon/start.hpp"
#include "../perf/tracepoints.hpp"
#include "files.hpp"
#include "finding.hpp"
#include "noise.h"
#include "perf_probe.hpp"

namespace polter::doctor {
namespace {

namespace fs = std::filesystem;
constexpr const char* group = "exporter";

std::string release() {
    utsname name{};
    uname(&name);
    return name.release;
}

bool has_capability(int capability) {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("CapEff:")) return (std::stoull(line.substr(7), nullptr, 16) >> capability & 1) != 0;
    return false;
}

bool may_load_programs() {
    return has_capability(CAP_SYS_ADMIN) || (has_capability(CAP_BPF) && has_capability(CAP_PERFMON));
}

std::string socket_path() {
    const char* socket = std::getenv("POLTER_SOCKET");
    return socket && *socket ? socket : POLTER_DEFAULT_SOCKET;
}

std::string installed_sources() {
    std::error_code error;
    for (auto entry = fs::directory_iterator("/usr/src", error); !error && entry != fs::directory_iterator(); entry.increment(error))
        if (entry->path().filename().string().starts_with("polter-") && fs::exists(entry->path() / "dkms.conf", error))
            return entry->path();
    return {};
}

Finding module() {
    Finding f{group, "module", State::fails, {}, {}};
    struct stat info {};
    if (stat("/dev/polter", &info) == 0) {
        if (access("/dev/polter", R_OK) == 0) {
            f.state = State::works;
            f.text = "/dev/polter may be opened";
        } else {
            f.text = fmt::format("/dev/polter is there, and this user may not open it: {}", std::strerror(errno));
            f.mend = "sudo chmod 0444 /dev/polter";
        }
        return f;
    }
    const std::string kernel = release();
    std::error_code error;
    if (!fs::exists("/proc/modules", error) || first_line("/proc/sys/kernel/modules_disabled") == "1") {
        f.text = "this kernel loads no modules";
    } else if (fs::exists(fmt::format("/lib/modules/{}/updates/dkms/polter.ko", kernel), error) ||
               fs::exists(fmt::format("/lib/modules/{}/updates/dkms/polter.ko.xz", kernel), error)) {
        f.text = "built and not loaded";
        f.mend = "sudo modprobe polter";
    } else if (!fs::exists(fmt::format("/lib/modules/{}/build", kernel), error)) {
        f.text = "not loaded, and cannot be built: the headers of this kernel are missing";
        f.mend = fmt::format("sudo apt-get install dkms linux-headers-{}", kernel);
    } else {
        // Installed, DKMS has its sources; a clone has them too.
        const std::string installed = installed_sources();
        f.text = "not loaded, and not built for this kernel by DKMS";
        f.mend = installed.empty() ? "make -C kmodule/module && sudo insmod kmodule/module/polter.ko"
                                   : fmt::format("sudo dkms install {} && sudo modprobe polter", installed);
    }
    return f;
}

// The kernel's lockdown, which at `confidentiality` lets nobody look into the kernel: security/lockdown/Kconfig.
std::string lockdown() {
    const std::string modes = first_line("/sys/kernel/security/lockdown");
    const auto open = modes.find('['), close = modes.find(']');
    return open == modes.npos || close < open ? "" : modes.substr(open + 1, close - open - 1);
}

Finding bpf(const std::string& polterd_path) {
    Finding f{group, "bpf", State::fails, {}, {}};
    std::unique_ptr<exporter::Backend> backend;
    for (auto& candidate : exporter::all_backends())
        if (std::string_view(candidate->name()) == "bpf") backend = std::move(candidate);
    std::error_code error;
    if (!backend) {
        f.text = "built without it: building needs clang, bpftool and a kernel with /sys/kernel/btf/vmlinux";
        f.mend = "./scripts/setup && ./scripts/build";
    } else if (!fs::exists("/sys/kernel/btf/vmlinux", error)) {
        f.text = "the kernel does not describe its types: no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)";
    } else if (lockdown() == "confidentiality") {
        f.text = "the kernel is locked down (confidentiality): nobody may look into it; boot it with lockdown=integrity at most";
    } else if (polterd_path.empty()) {
        f.text = "polterd is not installed beside polter; install Poltergeist whole";
        f.mend = "cmake --install build";
    } else if (!may_load_programs()) {
        f.text = "loading it needs root, or CAP_BPF and CAP_PERFMON; with a polterd that root runs, everybody may be measured";
        f.mend = fmt::format("sudo {}", polterd_path);
    } else if (const auto failure = backend->start()) {
        f.text = failure->starts_with("bpf: ") ? failure->substr(5) : *failure;
    } else {
        f.state = State::works;
        const std::string unseen = backend->cannot_see();
        f.text = "loads and attaches" + (unseen.empty() ? "" : "; not seen: " + unseen);
        backend->stop();
    }
    return f;
}

Finding daemon_of_node(const std::string& polterd_path) {
    const std::string socket = socket_path();
    const auto status = daemon::probe(socket);
    if (status.answers)
        return {group,
                "polterd",
                State::works,
                fmt::format("{} answers on {} by {}, {} processes registered{}", status.version, socket,
                            polter_backend_name(status.backend), status.processes, status.why.empty() ? "" : "; not seen: " + status.why),
                {}};
    return {group, "polterd", State::note, fmt::format("none on {}: a job starts its own where it may", socket),
            polterd_path.empty() ? "" : fmt::format("sudo {}", polterd_path)};
}

Finding perf() {
    const auto probe = probe_perf();
    if (!probe.works) return {group, "perf", State::fails, probe.why, probe.mend};
    const auto allowed = perf::allowed_tracepoints();
    return {group,
            "perf",
            State::works,
            probe.why + (allowed.why_not.empty() ? ", and interrupts" : "; interrupts are not seen: " + allowed.why_not),
            {}};
}

Finding proc() {
    std::istringstream fields(first_line("/proc/self/schedstat"));
    unsigned long long on = 0, delay = 0;
    if (fields >> on >> delay)
        return {group, "proc", State::works, "/proc/self/schedstat says how long a thread waited for its CPU, unsplit", {}};
    return {group, "proc", State::fails, "/proc/self/schedstat cannot be read (CONFIG_SCHED_INFO, or /proc is not mounted)", {}};
}

}  // namespace

const char* name_of(State state) {
    switch (state) {
        case State::works:
            return "works";
        case State::note:
            return "note";
        case State::fails:
            break;
    }
    return "fails";
}

Findings exporters(const std::string& polterd_path) {
    return {module(), bpf(polterd_path), daemon_of_node(polterd_path), perf(), proc()};
}

}  // namespace polter::doctor
