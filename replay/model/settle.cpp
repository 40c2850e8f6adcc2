// SPDX-License-Identifier: BSD-3-Clause
// The end of learning, for messages: what only all samples together can tell. First how long messages are under way, then which sends wait
// for their receivers, then which messages were there already when a call began, and so what the calls themselves cost. And for
// collectives: what the leave times of one class leave open and those of others tell.
#include <otf2/otf2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "fit/collective_fit.hpp"
#include "message_costs.hpp"
#include "model.hpp"
#include "replay/trace/mpi_calls.hpp"
#include "set_ups.hpp"

namespace polter::replay {

void Model::add_settled(const CostClass& of, const CostLimits& limits) {
    if (limits.count() == 0) return;
    Samples& of_class = samples(of, limits.shortest());
    of_class.by_slack[std::bit_width(static_cast<uint64_t>(clean))].merge(limits);
    costs_[of_class.of.key()] = {of_class.of, summarise(of_class), of_class.count()};
}

// How short the ends of collectives may be: as short as they are if all noise delayed them.
void Model::settle_tails() {
    const CostKind counts = noise_placed_ ? CostKind::collective_shortest : CostKind::collective_shortest_apart;
    for (auto entry = costs_.begin(); entry != costs_.end();) {
        CostClass tail = entry->second.of;
        if (tail.kind < CostKind::collective_shortest) {
            ++entry;
            continue;
        }
        if (tail.kind == counts) {
            tail.kind = CostKind::collective_tail;
            Cost& cost = costs_.at(tail.key()).cost;
            cost.low = std::min(cost.low, entry->second.cost.mid);
        }
        entry = costs_.erase(entry);
    }
}

// Counters only: what calls with noise took longer than usual is not all noise, as calls without it vary, too. A class with few calls of
// either kind is judged with all others of its kind.
void Model::settle_excess() {
    constexpr int64_t enough = 8;
    std::map<uint64_t, CostLimits::Excess> by_kind, by_class;
    for (const auto& [key, cost] : costs_) {
        const auto found = samples_.find(key);
        if (found == samples_.end()) continue;
        CostLimits all;
        for (const auto& [slack, limits] : found->second.by_slack)
            if (slack != limits_only) all.merge(limits);
        const CostLimits::Excess excess = all.excess(cost.cost.mid);
        by_class[key] = excess;
        CostLimits::Excess& kind = by_kind[key >> CostClass::size_bits];
        if (excess.exact < enough) continue;
        kind.calls += excess.calls;
        kind.exact += excess.exact;
        kind.counted += excess.counted;
        kind.other += excess.other;
    }
    for (auto& [key, cost] : costs_) {
        const auto own = by_class.find(key);
        if (own == by_class.end() || own->second.calls == 0) continue;
        const bool few = own->second.exact < enough || own->second.calls < enough;
        const CostLimits::Excess& excess = few ? by_kind.at(key >> CostClass::size_bits) : own->second;
        if (excess.counted <= 0 || excess.calls < enough || excess.exact < enough) continue;
        cost.cost.noise_ppm =
            static_cast<int32_t>(std::lround(Cost::all_of_excess * std::clamp(1 - excess.other / excess.counted, 0.0, 1.0)));
    }
}

// The least that a call of its kind took, whatever messages it waited for. All of them may have waited, so for a Wait at most what as many
// calls take that only post receives.
int64_t Model::shortest_call(const Wait& of) const {
    if (faults_.each_message_alone) return of.samples.least_taken();
    const uint64_t own = of.own.key();
    int64_t least = INT64_MAX;
    if (of.own.kind == CostKind::wait_own && !faults_.shortest_did_not_wait) {
        const auto posting = costs_.find(CostClass{CostKind::wait_own, true, false, 0, 0}.key());
        if (posting != costs_.end()) least = static_cast<int64_t>(of.own.size) * posting->second.cost.mid;
    }
    for (auto wait = waits_.lower_bound({own, 0}); wait != waits_.end() && wait->first.first == own; ++wait)
        least = std::min(least, wait->second.samples.least_taken());
    return least;
}

// A class of messages, or of non-blocking collectives, that hardly any call awaited from the beginning: calls that waited for the rest of
// their way tell how long that is. What such a Wait costs by itself messages tell, too: those of collectives are not asked for it.
void Model::settle_transfers() {
    for (const auto& [key, wait] : waits_) {
        const CostClass& message = wait.message;
        if (message.synchronous) continue;
        const bool partitioned = message.operation == partitioned_messages;
        const auto others = costs_.find(message.key());
        const auto [eager, late] =
            wait.samples.evidence(others == costs_.end() ? 0 : others->second.cost.mid, shortest_call(wait), !faults_.few_tell_nothing);
        for (const auto& [count, ended_before_post] : {std::pair{eager, true}, std::pair{late, false}})
            if (count > 0) learn_protocol(message.same_host, partitioned, message.size, ended_before_post, count);
    }
    constexpr int64_t many = 8;                                  // times as many calls as those that awaited it from the beginning
    std::map<uint64_t, std::pair<CostClass, CostLimits>> found;  // by message: calls of several kinds may tell
    for (const auto& [key, wait] : waits_) {
        const CostLimits limits =
            wait.samples.transfers(wait.message.synchronous, shortest_call(wait));  // of collectives the same either way
        const auto known = costs_.find(wait.message.key());
        const bool for_many = noise_placed_ && !faults_.awaited_tell_alone;
        if (known != costs_.end() && (!for_many || known->second.samples * many >= limits.count())) continue;
        found.try_emplace(wait.message.key(), wait.message, CostLimits()).first->second.second.merge(limits);
    }
    for (const auto& [key, transfer] : found) add_settled(transfer.first, transfer.second);
    std::erase_if(waits_.changed(), [](const auto& wait) { return wait.second.message.kind == CostKind::collective_tail; });
    asked_.clear();
}

// Whether it was the posting that ended a call or the message: the message, where that was under way no longer than others of its class.
void Model::settle_protocols() {
    constexpr int64_t rounding_ns = 2000;
    for (const auto& [key, open] : late_or_arrival_) {
        const Cost& latency = cost(open.message);
        const int64_t usual = latency.known ? latency.mid : latency.high;
        LearnedProtocol& protocol = protocols_[key.first];
        if (protocol.eager + protocol.late == 0) protocol = open.protocol;
        protocol.size = std::min(protocol.size, open.protocol.size);
        for (const auto& [at, bin] : open.after.bins())
            if (bin.sum / bin.count > usual + usual / 4 + std::min(usual, rounding_ns)) protocol.late += bin.count;
        if (protocol.eager + protocol.late == 0) protocols_.changed().erase(key.first);
    }
    late_or_arrival_.clear();
    asked_.clear();
    rendezvous_asked_.clear();
}

// Which calls found their messages there: those that began later than messages of the class are under way.
void Model::settle_waits() {
    const auto is_rendezvous = [&](const CostClass& message) {
        return message.synchronous || rendezvous(message.same_host, message.operation == partitioned_messages, message.size);
    };
    for (const auto& [key, wait] : waits_) {
        if (!is_rendezvous(wait.message)) continue;
        if (wait.own.kind == CostKind::receive_after_post)  // posted by the call itself: it could not leave before
            add_settled(wait.own, wait.samples.since_both());
        else if (!costs_.contains(wait.message.key()))
            add_settled(wait.message, wait.samples.transfers(true, shortest_call(wait)));
    }
    asked_.clear();
    // Where nothing tells how long messages are under way, calls say something of their own cost only if no others do.
    for (const bool known : {true, false}) {
        std::map<uint64_t, std::pair<CostClass, CostLimits>> found;  // by call
        for (const auto& [key, wait] : waits_) {
            const bool waits = is_rendezvous(wait.message);
            if (waits && wait.own.kind == CostKind::receive_after_post) continue;
            const Cost transfer = waits ? receive_costs(*this, wait.message).after_send : cost(wait.message);
            if ((transfer.known || (waits && transfer.mid > 0)) != known) continue;
            if (!known && costs_.contains(wait.own.key())) continue;
            const int64_t under_way = faults_.messages_were_there ? 0 : transfer.usual_high();
            const CostLimits there = known ? wait.samples.own(under_way) : wait.samples.with_most_slack();
            if (there.count() > 0) {
                found.try_emplace(wait.own.key(), wait.own, CostLimits()).first->second.second.merge(there);
                continue;
            }
            const auto [limit, fresh] = limits_.try_emplace(wait.own.key(), wait.samples.least_taken());
            if (!fresh) limit->second = std::min(limit->second, wait.samples.least_taken());
        }
        for (const auto& [key, call] : found) add_settled(call.first, call.second);
    }
    waits_.clear();
    asked_.clear();
}

// Noise in all calls with a size leaves open what such messages take: the sizes beside it tell, within what these calls allow.
void Model::settle_open_sizes() {
    constexpr int64_t part = 64;  // of a cost: known well enough
    if (!noise_placed_ || faults_.sizes_tell_nothing) return;
    const auto agreed = [&](uint64_t key) {
        const Samples& samples = samples_.at(key);
        CostLimits limits = with_most_slack(samples);
        if (const auto mere = samples.by_slack.find(limits_only); mere != samples.by_slack.end()) limits.merge(mere->second);
        return limits.agreed();
    };
    const LearnedCost* below = nullptr;
    std::vector<std::pair<LearnedCost*, const LearnedCost*>> open;  // and what is known below
    const auto tell = [&](const LearnedCost* above) {
        for (const auto& [one, under] : open) {
            const Cost beside = between_or_beyond(one->of, under, above);
            if (!beside.known) continue;
            const auto [from, to] = agreed(one->of.key());
            one->cost.mid = std::clamp(beside.mid, from, to);
        }
        open.clear();
    };
    for (auto& [key, learned] : costs_) {
        if (learned.of.kind > CostKind::send_own || learned.of.kind == CostKind::wait_own || !samples_.contains(key)) continue;
        const bool follows = below && below->of.key() >> CostClass::size_bits == key >> CostClass::size_bits;
        if (!follows && !open.empty() && open.front().first->of.key() >> CostClass::size_bits != key >> CostClass::size_bits) tell(nullptr);
        if (!follows) below = nullptr;
        const auto [from, to] = agreed(key);
        if (to - from > from / part) {
            open.emplace_back(&learned, below);
        } else {
            tell(&learned);
            below = &learned;
        }
    }
    tell(nullptr);
    asked_.clear();
}

namespace {

// How far members leave from where the structure has it.
double distance(const Structure& structure, const std::vector<InstanceSample>& samples, bool noise_known) {
    Distances distances;
    std::vector<Prediction> predicted;
    for (const InstanceSample& sample : samples) {
        predict(structure, sample, &predicted, false);
        for (size_t i = 0; i < predicted.size(); ++i) distances.add(sample, i, std::abs(predicted[i].leave - sample.leave[i]));
    }
    return typical(distances, noise_known);
}

// The same where noise is not placed: it makes members later, but none earlier than the structure has them.
double contradiction(const Structure& structure, const std::vector<InstanceSample>& samples) {
    constexpr double counts = 100;
    double sum = 0;
    std::vector<Prediction> predicted;
    for (const InstanceSample& sample : samples) {
        predict(structure, sample, &predicted, false);
        for (size_t i = 0; i < predicted.size(); ++i) {
            const auto later = static_cast<double>(sample.leave[i] - predicted[i].leave);
            sum += later < 0 ? -counts * later : later;
        }
    }
    return sum;
}

}  // namespace

// Not where a message of the algorithm takes many times what messages of that size take.
bool Model::may_take(const Structure& structure, const CollectiveKind& kind) const {
    constexpr int64_t many = 8;
    if (faults_.set_ups_in_long_messages) return true;
    const uint64_t bytes = kind.scale() == CollectiveKind::unknown ? 0 : static_cast<uint64_t>(kind.scale());
    int64_t usual = 0;
    for (const bool same_host : {false, true})
        if (const LearnedCost* shortest = shortest_message(same_host))
            usual = std::max({usual, shortest->cost.mid, cost({CostKind::receive_after_send, same_host, false, 0, bytes}).mid});
    asked_.clear();
    return structure.work(1) + structure.flight(1) <= many * usual;
}

// Whether calls that may have set something up did what they do anyway, by an algorithm that is about as near to them.
bool Model::explained_without(const std::vector<InstanceSample>& samples, const CollectiveClass& one, const Search& search) const {
    constexpr double about_as_near = 1.5;
    const double with = about_as_near * static_cast<double>(one.set_up->error);
    const Nearest by_any = nearest(samples, one.kind, search.library, noise_placed_, 0, 1);
    if (by_any.error <= with && may_take(by_any.structure, one.kind)) return true;
    return borrow(samples, one.kind, search.library, noise_placed_, references({}, false), 0, 1).error <= with;
}

// Which of the instances set something up before they do what the others do.
void Model::look_for_set_ups(CollectiveClass& one, Instances& instances, const Search& search) const {
    std::vector<InstanceSample> firsts;
    for (auto& [of, first] : instances.firsts) firsts.push_back(std::move(first.sample));
    one.set_ups = take_set_ups(&one.samples, std::move(firsts));
    const LearnedCost* message = shortest_message(false) ? shortest_message(false) : shortest_message(true);
    std::vector<InstanceSample> few;
    if (message && one.set_ups.empty()) few = may_set_up(one.samples, message->cost.mid);
    if (!noise_placed_)
        for (auto* list : {&one.samples, &one.set_ups, &few})
            for (InstanceSample& sample : *list) sample.forget_places();
    one.set_up = explain_set_ups(few, one.kind, search.library, noise_placed_, references({}, false), std::nullopt);
    if (one.set_up && explained_without(few, one, search)) one.set_up.reset();
    if (!one.set_up) return;
    std::erase_if(one.samples, [&](const InstanceSample& sample) {
        return std::any_of(few.begin(), few.end(), [&](const InstanceSample& other) { return other.ordinal == sample.ordinal; });
    });
    one.set_ups = std::move(few);
    if (!one.samples.empty()) return;
    one.explanation.found = one.set_up;
    one.explanation.found->pattern.set_up = SetUp::none;
}

// A fence is a barrier twice. Where the noise inside is not known, what fences take says little: those of as many members are made as a
// barrier of theirs is, if its leave times say how.
void Model::fence_as_barriers(std::vector<CollectiveClass>* classes) const {
    if (noise_placed_ || faults_.fences_apart) return;
    const auto is_barrier = [](const CollectiveClass& one) {
        return !one.kind.nonblocking && (one.kind.operation == OTF2_COLLECTIVE_OP_BARRIER || one.kind.operation == operation_window_free ||
                                         one.kind.operation == operation_finalize);
    };
    for (CollectiveClass& fence : *classes) {
        std::optional<Structure>& found = fence.explanation.found;
        if (fence.kind.operation != operation_fence || fence.samples.empty() || (found && found->certain)) continue;
        double least = std::numeric_limits<double>::infinity();
        for (const CollectiveClass& one : *classes) {
            const std::optional<Structure>& barrier = one.explanation.found;
            if (!is_barrier(one) || !barrier || !barrier->certain || one.samples.empty()) continue;
            if (one.samples.front().enter.size() != fence.samples.front().enter.size()) continue;
            // Of several, as calls that were made once are explained by many algorithms, the one that the fences contradict least.
            Structure twice = *barrier;
            twice.pattern.twice = true;
            const double off = contradiction(twice, fence.samples);
            if (off >= least || (std::isfinite(least) && faults_.first_barrier)) continue;
            least = off;
            found = twice;
            fence.explanation.likeliest.reset();
        }
    }
}

// Where noise kept the messages of a collective apart, its leave times do not tell whether these share links: without noise they may. Then
// what most other collectives on this network say of that holds, or as much of it as the leave times allow.
void Model::share_links_as_others(std::vector<CollectiveClass>* classes) const {
    constexpr double little_ns = 1;
    std::vector<double> of_byte;
    for (const CollectiveClass& one : *classes) {
        const std::optional<Structure>& found = one.explanation.found;
        if (!found || !found->certain || !found->link || found->own_data == 0 || one.kind.scale() == CollectiveKind::unknown) continue;
        of_byte.push_back(static_cast<double>(found->own_data) / static_cast<double>(one.kind.scale()));
    }
    if (of_byte.empty() || faults_.links_only_shown) return;
    std::nth_element(of_byte.begin(), of_byte.begin() + static_cast<std::ptrdiff_t>(of_byte.size() / 2), of_byte.end());
    const double usual = of_byte[of_byte.size() / 2];
    for (CollectiveClass& one : *classes) {
        std::optional<Structure>& found = one.explanation.found;
        if (!found || !found->certain || found->link || found->any_rendezvous() || found->own_data > 0 || one.kind.links_apart) continue;
        if (one.kind.scale() == CollectiveKind::unknown || one.samples.empty()) continue;
        const auto members = static_cast<uint32_t>(one.samples.front().enter.size());
        if (!long_enough_to_share(found->pattern, one.kind, members, {})) continue;
        const double most = distance(*found, one.samples, noise_placed_) + little_ns;
        Structure shared = *found;
        shared.link = shared.link_elsewhere = true;
        for (const double part : {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2}) {
            shared.own_data = std::llround(part * usual * static_cast<double>(one.kind.scale()));
            if (distance(shared, one.samples, noise_placed_) > most) continue;
            found = shared;
            break;
        }
    }
}

}  // namespace polter::replay
