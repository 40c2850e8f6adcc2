// SPDX-License-Identifier: BSD-3-Clause
// The main of tests that have none of their own.
#include <doctest/doctest.h>

int main(int argc, char** argv) {
    return doctest::Context(argc, argv).run();
}
