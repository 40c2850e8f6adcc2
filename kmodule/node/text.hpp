// SPDX-License-Identifier: BSD-3-Clause
// What the texts of `polter noise` share.
#pragma once

#include <cstdint>
#include <string>

#include "../observation/observation.hpp"

namespace polter::node {

// Three digits and a unit: "1.23 us".
std::string duration(std::uint64_t ns);
// "12.3 %"; "-" of nothing.
std::string percent(std::uint64_t part_ns, std::uint64_t whole_ns);
// To the left in so many bytes, at least one of them a blank; what is longer ends in "...".
std::string padded(const std::string& name, std::size_t width);
// One line of at most `columns` (at least 60) for each four bins, a factor of two, between the first and the last that are not empty.
std::string histogram(const Stats&, std::size_t columns);
// The host's name, kernel, and CPUs where that is what is meant.
std::string machine(std::size_t cpus = 0);

}  // namespace polter::node
