// SPDX-License-Identifier: BSD-3-Clause
#include "cli/progress.hpp"

#include <doctest/doctest.h>

using polter::cli::progress_line;

TEST_CASE("what is left is told once there is a pace to tell it from") {
    CHECK(progress_line(0, 0) == "replaying   0 %");
    CHECK(progress_line(0.5, 1.9) == "replaying  50 %");
    CHECK(progress_line(0.005, 60) == "replaying   0 %");
    CHECK(progress_line(0.25, 2) == "replaying  25 %, about 6 s left");
    CHECK(progress_line(0.999, 1000) == "replaying  99 %, about 2 s left");
    CHECK(progress_line(1, 10) == "replaying 100 %");
}
