// SPDX-License-Identifier: BSD-3-Clause
// doctest's own code, compiled once for all tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
