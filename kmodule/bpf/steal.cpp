// SPDX-License-Identifier: BSD-3-Clause
#include "steal.hpp"

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace polter::exporter {
namespace {

// The kernel has accounted stolen time since it booted: the eighth figure of the first line, in ticks (proc(5)).
bool ever_booked(const std::filesystem::path& proc) {
    std::ifstream file(proc / "stat");
    std::string line;
    std::getline(file, line);
    std::istringstream words(line.substr(line.find(' ') == std::string::npos ? line.size() : line.find(' ')));
    unsigned long long value = 0;
    for (int i = 0; i < 8; i++)
        if (!(words >> value)) return false;
    return value > 0;
}

}  // namespace

Hypervisor hypervisor(const std::filesystem::path& proc) {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned hypervisor_bit = 1u << 31, kvm_leaf = 0x40000000u, kvm_feature_steal_time = 1u << 5;
    if (__get_cpuid(1, &a, &b, &c, &d) && !(c & hypervisor_bit)) return Hypervisor::none;
    __cpuid(kvm_leaf, a, b, c, d);
    char vendor[13] = "";
    std::memcpy(vendor, &b, 4);
    std::memcpy(vendor + 4, &c, 4);
    std::memcpy(vendor + 8, &d, 4);
    if (std::strcmp(vendor, "KVMKVMKVM") == 0) {
        __cpuid(kvm_leaf + 1, a, b, c, d);
        if (a & kvm_feature_steal_time) return Hypervisor::tells;
    }
#endif
    return ever_booked(proc) ? Hypervisor::tells : Hypervisor::silent;
}

}  // namespace polter::exporter
