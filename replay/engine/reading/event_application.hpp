// SPDX-License-Identifier: BSD-3-Clause
// What each decoded record does to the thread that wrote it, whether OTF2 has just read it or an earlier pass has kept it. Here, so that
// the compiler has it in one piece with either.
#pragma once

#include <otf2/otf2.h>

#include <algorithm>
#include <span>

#include "kept_events.hpp"
#include "replay/engine/steps.hpp"
#include "replay/trace/metric_value.hpp"

namespace polter::replay {

// Interrupts where the thread cannot be read further for now.
struct EventApplication {
    static const Definitions& definitions(const Thread& t) { return t.engine->archive_.definitions(); }

    // A record that only advances the thread's time needs no more than this.
    static OTF2_CallbackCode after(const Thread& t) {
        const bool stop = t.state != Thread::State::ready || t.now > t.engine->window_end_ || t.broken;
        return stop ? OTF2_CALLBACK_INTERRUPT : OTF2_CALLBACK_SUCCESS;
    }

    // The thread's latest operation, which has just been decoded there.
    static OTF2_CallbackCode apply(Thread& t, uint64_t ticks, uint64_t record) {
        Operation& added = t.operations.back();
        if (!t.engine->advance(t, ticks)) {
            t.operations.pop_back();
            return OTF2_CALLBACK_INTERRUPT;
        }
        t.record = record;
        added.time = t.now;
        if (!t.in_call || of_threads(t.kind) || t.rank < 0) {
            const Operation operation = added;
            t.operations.pop_back();
            t.engine->add_operation(t, operation);
        }
        return after(t);
    }

    static OTF2_CallbackCode apply_other(Thread& t, uint64_t ticks) {
        return t.engine->advance(t, ticks) ? after(t) : OTF2_CALLBACK_INTERRUPT;
    }

    static OTF2_CallbackCode apply_enter(Thread& t, uint64_t ticks, uint64_t record, uint32_t region, uint32_t named) {
        if (!t.engine->advance(t, ticks)) return OTF2_CALLBACK_INTERRUPT;
        t.record = record;
        uint32_t call_site = no_call_site;  // needed in the replay pass only
        if (definitions(t).call_site != UINT32_MAX && !t.engine->learning())
            call_site = t.call_sites.follow(named < definitions(t).call_sites.size() ? named : no_call_site);
        t.engine->on_enter(t, region, call_site);
        return after(t);
    }

    static PollRun poll_run(const Thread& t, const LeaveFacts& facts) {
        if (t.engine->faults().runs_are_polls || facts.polls == 0) return {};
        // What an edited trace has no room for.
        const auto within = [&](uint64_t ticks) {
            return std::min(ticks_in_ns(static_cast<int64_t>(std::min<uint64_t>(ticks, INT64_MAX)), definitions(t).ticks_per_second),
                            t.now - t.enter);
        };
        return {facts.polls, within(facts.last_poll), within(facts.poll_gap)};
    }

    static OTF2_CallbackCode apply_leave(Thread& t, uint64_t ticks, uint64_t record, uint32_t region, const LeaveFacts& facts) {
        if (!t.engine->advance(t, ticks)) return OTF2_CALLBACK_INTERRUPT;
        t.record = record;
        if (t.in_call && t.depth == 0) {
            t.poll_run = poll_run(t, facts);
            const bool file = t.kind == CallKind::file || t.kind == CallKind::file_begin || t.kind == CallKind::file_end;
            if (file && facts.names_comm)
                t.engine->add_operation(
                    t, {.kind = Operation::Kind::collective, .collective = operation_file, .comm = facts.comm, .time = t.now});
            else if (t.kind == CallKind::neighbourhood && facts.names_comm && t.engine->neighbours(facts.comm, t.rank))
                t.engine->add_operation(t, {.kind = Operation::Kind::neighbours, .comm = facts.comm, .time = t.now});
            else if (facts.names_message)
                t.engine->add_operation(t, {.kind = Operation::Kind::probe,
                                            .wildcard = facts.any != 0,
                                            .any_source = (facts.any & 1) != 0,
                                            .comm = facts.comm,
                                            .peer = facts.source,
                                            .tag = facts.tag,
                                            .partitioned = facts.partitioned,
                                            .time = t.now});
        }
        t.engine->on_leave(t, region);
        return after(t);
    }

    static OTF2_CallbackCode apply_of_threads(Thread& t, uint64_t ticks, uint64_t record, ThreadRecord kind, uint32_t a, uint64_t b) {
        Engine& engine = *t.engine;
        if (!engine.advance(t, ticks)) return OTF2_CALLBACK_INTERRUPT;
        t.record = record;
        switch (kind) {
            case ThreadRecord::fork:
                engine.on_fork(t);
                break;
            case ThreadRecord::join:
                engine.on_join(t);
                break;
            case ThreadRecord::team_begin:
                engine.on_team_begin(t, a);
                break;
            case ThreadRecord::team_end:
                engine.on_team_end(t, a);
                break;
            case ThreadRecord::create:
                engine.on_create(t, a, b);
                break;
            case ThreadRecord::begin:
                engine.on_thread_begin(t, a, b);
                break;
            case ThreadRecord::end:
                engine.on_thread_end(t, a, b);
                break;
            case ThreadRecord::wait:
                engine.on_thread_wait(t, a, b);
                break;
            case ThreadRecord::acquire:
                engine.on_acquire(t, a, static_cast<uint32_t>(b));
                break;
            case ThreadRecord::release:
                engine.on_release(t, a, static_cast<uint32_t>(b));
                break;
        }
        return after(t);
    }
    static OTF2_CallbackCode apply_metric(Thread& t, uint64_t ticks, uint32_t metric, std::span<const OTF2_Type> types,
                                          const OTF2_MetricValue* values, uint32_t culprit, uint64_t ago) {
        if (!t.engine->advance(t, ticks)) return OTF2_CALLBACK_INTERRUPT;
        t.engine->on_metric(t, metric, static_cast<uint8_t>(types.size()), types.data(), values, culprit, ago);
        return after(t);
    }

    static OTF2_CallbackCode apply_kept(Thread& t, KeptLocation& kept, const KeptLocation::Head& head) {
        switch (head.kind) {
            case KeptLocation::enter_kind: {
                const auto region = static_cast<uint32_t>(kept.number());
                return apply_enter(t, head.ticks, head.record, region, kept.number_or_none());
            }
            case KeptLocation::leave_kind:
                return apply_leave(t, head.ticks, head.record, static_cast<uint32_t>(kept.number()), {});
            case KeptLocation::told_leave_kind: {
                const auto region = static_cast<uint32_t>(kept.number());
                return apply_leave(t, head.ticks, head.record, region, kept.leave_facts());
            }
            case KeptLocation::metric_kind:
            case KeptLocation::same_metric_kind: {
                const MetricFacts& facts = kept.metric(head.kind);
                return apply_metric(t, head.ticks, facts.metric, facts.types, facts.values.data(), facts.culprit, facts.ago);
            }
            case KeptLocation::other_kind:
                return apply_other(t, head.ticks);
            default:
                break;
        }
        if (head.kind < KeptLocation::threads) {
            kept.operation(head.kind, t.operations.emplace_back());
            return apply(t, head.ticks, head.record);
        }
        const auto a = static_cast<uint32_t>(kept.number());
        return apply_of_threads(t, head.ticks, head.record, static_cast<ThreadRecord>(head.kind - KeptLocation::threads), a, kept.number());
    }

    // As Archive::read().
    static Archive::Progress read_kept(Thread& t, KeptLocation& kept) {
        constexpr int batch = 1 << 16;
        for (int i = 0; i < batch; ++i) {
            if (!kept.more()) {
                t.events = kept.records();
                return kept.complete() ? Archive::Progress::ended : Archive::Progress::more;
            }
            const KeptLocation::Head head = kept.next();
            t.events = head.record;
            if (apply_kept(t, kept, head) == OTF2_CALLBACK_INTERRUPT) return Archive::Progress::interrupted;
        }
        return Archive::Progress::more;
    }
};

}  // namespace polter::replay
