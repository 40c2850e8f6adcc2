// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>

#include <algorithm>

#include "watch.hpp"

namespace polter::loops {

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::fwq:
            return "fwq";
        case Kind::ftq:
            return "ftq";
        case Kind::selfish:
            break;
    }
    return "selfish";
}

Result run(const Options& options, Recorder& recorder) {
    Result result;
    result.kind = options.kind;
    result.measured_by = recorder.name();
    result.cpu = sched_getcpu();
    result.quantum_ns = options.kind == Kind::selfish ? 0 : options.quantum_ns;
    switch (options.kind) {
        case Kind::fwq:
            fixed_work(options, result, recorder);
            break;
        case Kind::ftq:
            fixed_time(options, result, recorder);
            break;
        case Kind::selfish:
            selfish(options, result, recorder);
            break;
    }
    result.lost_events = recorder.lost();
    for (auto& sample : result.samples) {
        std::uint64_t recorded = 0;
        for (std::size_t i = 0; i < sample.events; i++) recorded += result.events[sample.first_event + i].duration_ns;
        sample.explained_ns = std::min(recorded, sample.lost_ns);
        result.beyond_ns += recorded - sample.explained_ns;
    }
    return result;
}

Totals totals_of(const Result& result) {
    Totals totals;
    for (const auto& sample : result.samples) {
        totals.samples++;
        totals.lost_ns += sample.lost_ns;
        totals.explained_ns += sample.explained_ns;
        totals.unattributed_ns += sample.unattributed_ns();
        if (sample.end_ns - sample.begin_ns < result.threshold_ns && result.kind == Kind::selfish) continue;
        if (result.kind != Kind::selfish && sample.lost_ns < result.threshold_ns) continue;
        totals.disturbed++;
        totals.without_event += sample.events == 0;
        totals.lost.add(sample.lost_ns);
    }
    for (const auto& event : result.events) totals.events[{event.account, event.culprit}].add(event.duration_ns);
    return totals;
}

}  // namespace polter::loops
