// SPDX-License-Identifier: BSD-3-Clause
#include "cli/wording.hpp"

#include <doctest/doctest.h>

using namespace polter::cli;

TEST_CASE("lines are broken at blanks, and continue where they began to say something") {
    CHECK(wrap("one two three", 0) == "one two three");
    CHECK(wrap("one two three\n\nfour\n", 9) == "one two\n  three\n\nfour\n");
    CHECK(wrap("  - one two three", 12) == "  - one two\n    three");
    CHECK(wrap("  --name      what it is and more", 36) == "  --name      what it is and more");
    CHECK(wrap("  --name      what it is and what more", 36) == "  --name      what it is and what\n              more");
    CHECK(wrap("/a/long/path/without/blanks is whole", 10) == "/a/long/path/without/blanks\n  is whole");
    CHECK(wrap("ä ö ü ß", 7) == "ä ö ü ß");
    CHECK(wrap("", 5).empty());
}

TEST_CASE("the nearest name") {
    const std::vector<std::string> verbs{"run", "exec", "replay", "noise", "doctor", "completion"};
    CHECK(nearest("rnu", verbs) == "run");
    CHECK(nearest("reply", verbs) == "replay");
    CHECK(nearest("nose", verbs) == "noise");
    CHECK(nearest("doktor", verbs) == "doctor");
    CHECK(nearest("gremlins", verbs).empty());
    CHECK(nearest("", verbs).empty());
    CHECK(nearest("--remov", {"--remove", "--model"}) == "--remove");
}
