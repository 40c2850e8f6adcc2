// SPDX-License-Identifier: BSD-3-Clause
// write_random SEED DIR [RANKS]: a random program's trace, for tests that need one as a file.
#include <cstdlib>

#include "random_program.hpp"

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    polter::test::ProgramOptions options;
    options.seed = std::strtoull(argv[1], nullptr, 10);
    options.ranks = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 6;
    options.steps = 200;
    options.structured = options.seed % 3 == 1;
    options.windows = options.seed % 3 == 2;
    polter::test::write_trace(polter::test::random_program(options).trace, argv[2]);
    return 0;
}
