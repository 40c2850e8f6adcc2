// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../backend.hpp"

namespace polter::exporter {

std::unique_ptr<Backend> bpf_backend();

}  // namespace polter::exporter
