// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace polter::exporter {

enum class Hypervisor { none, tells, silent };

// Whether there is one that takes time from this machine, and tells the kernel so.
Hypervisor hypervisor(const std::filesystem::path& proc = "/proc");

}  // namespace polter::exporter
