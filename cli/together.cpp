// SPDX-License-Identifier: BSD-3-Clause
#include "together.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "../tracer/launch/layout.hpp"
#include "replay/parallel/forked.hpp"
#include "verb.hpp"

namespace polter::cli {

namespace {

// One of several processes that this one started. The others end here.
bool done_together(int processes, const SharedWork& work) {
    if (processes < 2) return false;
    auto transport = replay::forked_together(processes);
    if (!transport) return false;
    const bool first = transport->rank() == 0;
    bool done = false;
    try {
        replay::Group group(std::move(transport));
        try {
            work.run(&group);
            done = true;
        } catch (const std::exception& error) {
            if (first) throw;
            group.fail(error.what());
        }
        group.close(false);
    } catch (const replay::ProcessLost& lost) {
        if (!done) tell(fmt::format("{}; one alone replays it", lost.what()));
    } catch (const std::exception&) {  // one alone says what is wrong
    }
    if (!first) _exit(0);
    return done;
}

}  // namespace

void together_or_apart(const SharedWork& work) {
    auto transport = replay::launched_together([](const std::string& file) { return launch::find_part(file).string(); });
    if (!transport) {
        go_apart();
        work.prepare();
        if (!done_together(work.processes(), work)) work.run(nullptr);
        return;
    }
    replay::Group group(std::move(transport));
    bool failed = true;
    try {
        if (group.rank() == 0) work.prepare();
        group.gather({});  // the others wait for that
        work.run(&group);
        flush_output();
        failed = false;
    } catch (const replay::PeerError& peer) {
        if (group.rank() == 0) tell(peer);
    } catch (const std::exception& own) {
        if (group.rank() == 0) tell(own);
        group.fail(own.what());
    }
    std::fflush(nullptr);
    group.close(failed);
    if (failed) throw Exit{1};
}

}  // namespace polter::cli
