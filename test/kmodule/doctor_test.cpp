// SPDX-License-Identifier: BSD-3-Clause
// What the doctor says about perf_event is what the kernel meant.
#include <doctest/doctest.h>

#include <cerrno>

#include "perf_probe.hpp"

using namespace polter::doctor;

TEST_CASE("each way in which perf_event is refused has its own reason and command") {
    struct Case {
        PerfStep failed;
        int error, paranoid;
        bool filtered;
        bool works;
        const char* why;
        const char* mend;
    };
    const Case cases[] = {
        {PerfStep::none, 0, 2, false, true, "perf_event_paranoid is 2", ""},
        {PerfStep::open, EACCES, 3, false, false, "perf_event_paranoid is 3", "sudo sysctl kernel.perf_event_paranoid=2"},
        {PerfStep::open, EACCES, 4, true, false, "perf_event_paranoid is 4", "sudo sysctl kernel.perf_event_paranoid=2"},
        {PerfStep::open, EPERM, 2, true, false, "filter", "docker run"},
        {PerfStep::open, ENOSYS, 2, true, false, "filter", "docker run"},
        {PerfStep::open, ENOSYS, -9, false, false, "CONFIG_PERF_EVENTS", ""},
        {PerfStep::open, EPERM, 2, false, false, "security module", "sysctl"},
        {PerfStep::open, EMFILE, 2, false, false, "Too many open files", ""},
        {PerfStep::map, EPERM, 2, false, false, "locked", "perf_event_mlock_kb"},
        {PerfStep::map, EINVAL, 2, false, false, "cannot be mapped", ""},
    };
    for (const auto& c : cases) {
        const auto said = explain_perf(c.failed, c.error, c.paranoid, c.filtered);
        CAPTURE(c.why);
        CAPTURE(said.why);
        CHECK(said.works == c.works);
        CHECK(said.why.find(c.why) != std::string::npos);
        CHECK(said.mend.find(c.mend) != std::string::npos);
        CHECK(said.mend.empty() == (c.mend[0] == 0));
    }
}
