// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

constexpr int64_t us = 1'000, ms = 1'000'000;  // in ns
