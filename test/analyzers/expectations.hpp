// SPDX-License-Identifier: BSD-3-Clause
// Expectations of a method that each of its broken variants has to miss.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

namespace polter::test {

// The first that does not hold, or empty.
struct Expectations {
    std::string failed;
    void expect(bool holds, const std::string& what) {
        if (!holds && failed.empty()) failed = what;
    }
    // `relative`: of what is wanted, at least of 1.
    void near(double value, double wanted, double relative, const std::string& what) {
        expect(std::abs(value - wanted) <= relative * std::max(1.0, std::abs(wanted)),
               what + ": " + std::to_string(value) + " for " + std::to_string(wanted));
    }
};

}  // namespace polter::test
