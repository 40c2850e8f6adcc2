// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

namespace polter::exporter {

enum class Hypervisor { none, tells, silent };

// Whether a hypervisor reports stolen CPU time to this kernel.
Hypervisor hypervisor(const std::filesystem::path& proc = "/proc");

}  // namespace polter::exporter
