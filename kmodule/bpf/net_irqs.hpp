// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <set>

namespace polter::exporter {

// The interrupt lines of network devices: those that sysfs lists at the device of an interface or at one it sits on (a virtio device's are
// its PCI parent's), and those whose name in /proc/interrupts contains an interface's. The roots are arguments for the tests.
std::set<unsigned> net_irqs(const std::filesystem::path& sys = "/sys", const std::filesystem::path& proc = "/proc");

}  // namespace polter::exporter
