// SPDX-License-Identifier: BSD-3-Clause
#include "together.hpp"

#include <cstdio>

#include "../tracer/launch/layout.hpp"
#include "verb.hpp"

namespace polter::cli {

void together_or_apart(const std::function<void(replay::Group*)>& work) {
    auto transport = replay::launched_together([](const std::string& file) { return launch::find_part(file).string(); });
    if (!transport) {
        go_apart();
        return work(nullptr);
    }
    replay::Group group(std::move(transport));
    bool failed = true;
    try {
        work(&group);
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
