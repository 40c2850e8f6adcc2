// SPDX-License-Identifier: BSD-3-Clause
#include "model.hpp"

#include <otf2/otf2.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "fit/collective_fit.hpp"
#include "replay/base/flat_map.hpp"
#include "replay/trace/mpi_calls.hpp"
#include "set_ups.hpp"

namespace polter::replay {

namespace {

// Whether its calls wait, mostly longer than for what this is the cost of.
bool waits(const CostClass& of) {
    if (of.kind == CostKind::collective_tail) return of.synchronous;  // not blocking
    return of.kind <= CostKind::receive_after_post || of.kind == CostKind::send_after_post || of.kind == CostKind::notice_after;
}

constexpr int clean_slack = std::bit_width(static_cast<uint64_t>(Model::clean)), size_bits = CostClass::size_bits;
constexpr int64_t enough_clean = 32;

}  // namespace

Model::Samples& Model::samples(const CostClass& of, int64_t first) {
    Samples& samples = samples_[of.key()];
    if (samples.first < 0) {
        samples.first = first;
        samples.of = of;
    }
    samples.of.size = std::min(samples.of.size, of.size);
    return samples;
}

void Model::learn(const CostClass& of, int64_t ns, int64_t slack) {
    learn_between(of, ns, ns, slack);
}

void Model::learn_between(const CostClass& of, int64_t least, int64_t most, int64_t slack) {
    samples(of, most).by_slack[std::bit_width(static_cast<uint64_t>(std::max<int64_t>(slack, 0)))].add(std::max<int64_t>(least, 0), most);
}

void Model::learn_tail(const CostClass& of, int64_t tail, int64_t likely, int64_t most, int64_t apart) {
    const int64_t slack = most > 0 ? 0 : clean;
    CostClass shortest = of;
    shortest.kind = CostKind::collective_shortest;
    learn_between(of, tail - likely, tail, slack);
    learn_between(shortest, tail - most, tail, slack);
    shortest.kind = CostKind::collective_shortest_apart;
    learn_between(shortest, tail - apart, tail, apart > 0 ? 0 : clean);
}

void Model::learn_at_most(const CostClass& of, int64_t most) {
    samples(of, most).by_slack[limits_only].add(0, most);
}

void Model::learn_wait(const CostClass& own, const CostClass& message, const WaitSamples::Sample& sample, bool single) {
    Wait& wait = waits_[{own.key(), message.key()}];
    if (wait.samples.empty()) {
        wait.own = own;
        wait.message = message;
    }
    wait.own.size = std::min(wait.own.size, own.size);
    wait.message.size = std::min(wait.message.size, message.size);
    wait.samples.add(sample, single);
}

void Model::learn_late_or_arrival(bool same_host, bool partitioned, uint64_t size, const CostClass& message, int64_t after) {
    LateOrArrival& open = late_or_arrival_[{protocol_key(same_host, partitioned, size), message.key()}];
    if (open.after.count() == 0) open = {{same_host, size, 0, 0, partitioned}, message, {}};
    open.protocol.size = std::min(open.protocol.size, size);
    open.message.size = std::min(open.message.size, message.size);
    open.after.add(after);
}

void Model::learn_protocol(bool same_host, bool partitioned, uint64_t size, bool ended_before_post, int64_t times) {
    LearnedProtocol& protocol = protocols_[protocol_key(same_host, partitioned, size)];
    if (protocol.eager + protocol.late == 0) protocol = {same_host, size, 0, 0, partitioned};
    protocol.size = std::min(protocol.size, size);
    (ended_before_post ? protocol.eager : protocol.late) += times;
}

namespace {

size_t most_instances(uint32_t members) {
    return std::clamp<size_t>(1024 / members, 8, 48);
}

constexpr size_t most_firsts = 8;

}  // namespace

// Those of the lowest communicators: so which are kept does not depend on the order.
bool Model::Instances::wants_first(CallNumber number) const {
    const auto found = firsts.find(number.of);
    if (found != firsts.end()) return number.number < found->second.number;
    return firsts.size() < most_firsts || number.of < firsts.rbegin()->first;
}

void Model::Instances::keep_first(CallNumber number, const InstanceSample& sample) {
    if (!wants_first(number)) return;
    firsts[number.of] = {number.number, sample};
    if (firsts.size() > most_firsts) firsts.erase(std::prev(firsts.end()));
}

bool Model::wants_instance(const CostClass& of, uint32_t members, CallNumber number) const {
    const auto found = instances_.find({of.key(), members});
    if (found == instances_.end() || found->second.kept.size() < most_instances(members)) return true;
    return found->second.wants_first(number) || mix(number.ordinal()) < found->second.kept.rbegin()->first;
}

void Model::learn_instance(const CostClass& of, const CostClass& by_root, uint32_t members, Waits waits, CallNumber number,
                           InstanceSample sample, bool any_size) {
    const auto [place, fresh] = instances_.try_emplace({of.key(), members});
    Instances& instances = place->second;
    if (fresh) instances = {of, by_root, waits, false, false, {}, {}};
    instances.any_size = instances.any_size || any_size;
    instances.of.size = std::min(instances.of.size, of.size);
    instances.by_root = std::min(instances.by_root, by_root);
    sample.ordinal = number.ordinal();
    instances.keep_first(number, sample);
    instances.kept[mix(sample.ordinal)] = std::move(sample);
    if (instances.kept.size() > most_instances(members)) instances.kept.erase(std::prev(instances.kept.end()));
}

void Model::learn_apart(const CostClass& of, uint32_t members) {
    const auto [place, fresh] = instances_.try_emplace({of.key(), members});
    if (fresh) place->second = {of, of, Waits::n_to_n, true, false, {}, {}};
    place->second.apart = true;
}

CollectiveKind kind_of(const CostClass& of, Waits waits, uint32_t members) {
    const auto operation = static_cast<uint8_t>(of.operation);
    return {operation, waits, of.operation > UINT8_MAX, data_of(operation, of.size, members)};
}

const LearnedStructure* Model::structure(const CostClass& of, uint32_t members) const {
    InstanceKey key{of.key(), members};
    if (const auto view = by_root_.find(key); view != by_root_.end()) key = view->second;
    const auto found = structures_.find(key);
    return found == structures_.end() ? nullptr : &found->second;
}

void Model::merge(const Model& other) {
    for (const auto& [key, instances] : other.instances_) {
        const auto [place, fresh] = instances_.try_emplace(key);
        Instances& mine = place->second;
        if (fresh) mine = {instances.of, instances.by_root, instances.waits, false, false, {}, {}};
        mine.apart = mine.apart || instances.apart;
        mine.any_size = mine.any_size || instances.any_size;
        mine.of.size = std::min(mine.of.size, instances.of.size);
        mine.by_root = std::min(mine.by_root, instances.by_root);
        for (const auto& [of, first] : instances.firsts) mine.keep_first({of, first.number}, first.sample);
        mine.kept.insert(instances.kept.begin(), instances.kept.end());
        while (mine.kept.size() > most_instances(key.second)) mine.kept.erase(std::prev(mine.kept.end()));
    }
    for (const auto& [key, samples] : other.samples_) {
        Samples& mine = samples_[key];
        if (mine.first < 0) {
            mine.of = samples.of;
            mine.first = samples.first;
        }
        mine.of.size = std::min(mine.of.size, samples.of.size);
        for (const auto& [slack, limits] : samples.by_slack) mine.by_slack[slack].merge(limits);
    }
    for (const auto& [key, wait] : other.waits_) {
        Wait& mine = waits_[key];
        if (mine.samples.count() == 0) {
            mine = wait;
            continue;
        }
        mine.own.size = std::min(mine.own.size, wait.own.size);
        mine.message.size = std::min(mine.message.size, wait.message.size);
        mine.samples.merge(wait.samples);
    }
    for (const auto& [key, protocol] : other.protocols_) {
        LearnedProtocol& mine = protocols_[key];
        mine = {protocol.same_host, mine.eager + mine.late > 0 ? std::min(mine.size, protocol.size) : protocol.size,
                mine.eager + protocol.eager, mine.late + protocol.late, protocol.partitioned};
    }
    for (const auto& [key, open] : other.late_or_arrival_) {
        LateOrArrival& mine = late_or_arrival_[key];
        if (mine.after.count() == 0) {
            mine = open;
            continue;
        }
        mine.protocol.size = std::min(mine.protocol.size, open.protocol.size);
        mine.message.size = std::min(mine.message.size, open.message.size);
        mine.after.merge(open.after);
    }
    clock_disorder_ns = std::max(clock_disorder_ns, other.clock_disorder_ns);
}

// Of the classes with slack, the samples with most of it, a quarter of all at least: little slack can still hide waiting. Some clean ones
// are enough: what is not clean says least of what is possible without noise.
CostLimits Model::with_most_slack(const Samples& samples) {
    const int64_t all = samples.count();
    CostLimits chosen;
    for (auto row = samples.by_slack.rbegin(); row != samples.by_slack.rend() && chosen.count() * 4 < all; ++row) {
        chosen.merge(row->second);
        if (row->first == clean_slack && chosen.count() >= enough_clean) break;
    }
    return chosen;
}

// Upper limits always count.
Cost Model::summarise(const Samples& samples) const {
    const int64_t all = samples.count();
    CostLimits chosen = with_most_slack(samples);
    // How far the intervals disagree; of exact ones, what they vary by. Mere upper limits lie above the cost anyway.
    const int64_t spread = std::max<int64_t>(0, chosen.least().quantile(95) - chosen.most().quantile(5));
    if (const auto limits = samples.by_slack.find(limits_only); limits != samples.by_slack.end()) chosen.merge(limits->second);
    const CostLimits::Agreed agreed = chosen.agreed();
    Cost cost{.known = true};
    // Counters do not tell where in a call noise hit: mostly in its wait, which is longer than a message's way. So the greatest value that
    // calls agree on, as if all of it hit there. One call alone does not tell; in a collective the noise of all members counts.
    const bool open = !noise_placed_ && all > 1 && chosen.least().quantile(50) != chosen.most().quantile(50);
    cost.mid = open && waits(samples.of) && !faults_.counters_in_tails ? agreed.to : agreed.from;
    // Where noise hit in all calls the agreed values are a range: its end, where more calls took that than took its beginning without their
    // noise. Then the noise hit while messages were under way, and was absorbed.
    if (noise_placed_ && waits(samples.of) && chosen.exact_values().count() == 0 && !faults_.absorbed_noise_counts)
        if (chosen.open_most().count_beside(agreed.to) > chosen.open_least().count_beside(agreed.from)) cost.mid = agreed.to;
    // A coarse clock shows a cost as the whole steps below and above it, in turn: over many calls their mean is the cost.
    constexpr int64_t coarse = 100, enough_steps = 8;
    if (clock_step_ns >= coarse && chosen.exact_values().count() >= enough_steps && !faults_.usual_step_is_cost)
        cost.mid = chosen.exact_values().mean_within(clock_step_ns, cost.mid);
    cost.low = std::min(agreed.from, chosen.shortest());
    cost.high = std::max(agreed.to, chosen.least().quantile(100));
    cost.spread = spread;
    if (faults_.first_sample) cost.low = cost.mid = cost.high = samples.first;
    return cost;
}

// The shortest message whose time under way is known, of whatever protocol.
const LearnedCost* Model::shortest_message(bool same_host) const {
    const LearnedCost* shortest = nullptr;
    for (const CostKind kind : {CostKind::receive_after_send, CostKind::receive_after_post, CostKind::send_after_post})
        for (const bool synchronous : {false, true}) {
            const uint64_t first = CostClass{kind, same_host, synchronous}.key();
            const auto found = costs_.lower_bound(first);
            if (found == costs_.end() || found->first >> size_bits != first >> size_bits || found->second.cost.mid <= 0) continue;
            if (!shortest || found->second.of.size < shortest->of.size) shortest = &found->second;
        }
    return shortest;
}

// What algorithms cost where that is certain, of the classes with most leave times; and what messages cost, if any were seen. Of what was
// called once only where nothing else tells, and `once`.
std::vector<Reference> Model::references(const std::vector<CollectiveClass>& classes, bool once) const {
    constexpr size_t most = 3;
    std::vector<const CollectiveClass*> certain;
    for (const CollectiveClass& one : classes)
        if (one.explanation.found && one.explanation.found->certain) certain.push_back(&one);
    const auto single = [](const CollectiveClass* one) { return one->samples.size() == 1; };
    const bool messages = shortest_message(false) || shortest_message(true);
    if (!once || messages || !std::all_of(certain.begin(), certain.end(), single)) std::erase_if(certain, single);
    const auto leave_times = [](const CollectiveClass* one) { return one->samples.size() * one->samples.front().leave.size(); };
    std::stable_sort(certain.begin(), certain.end(), [&](const auto* a, const auto* b) { return leave_times(a) > leave_times(b); });
    if (certain.size() > most) certain.resize(most);
    std::vector<Reference> list;
    for (const CollectiveClass* one : certain) list.push_back({*one->explanation.found, one->kind.scale()});
    for (const bool same_host : {false, true}) {
        const LearnedCost* shortest = shortest_message(same_host);
        if (!shortest) continue;
        const int64_t way = shortest->cost.mid;
        const Cost& taking = cost({CostKind::receive_after_post, same_host});
        const int64_t own = taking.known ? std::min(taking.mid, way / 4) : way / 100;
        list.push_back({{.hop = way - 2 * own, .own = own}, 0});
        break;
    }
    asked_.clear();
    return list;
}

// Where members send or take several messages the leave times tell what one costs: elsewhere that is what most such classes say.
void Model::tell_calls_apart(std::vector<CollectiveClass>* classes) const {
    std::vector<int64_t> own;
    for (const CollectiveClass& one : *classes) {
        const std::optional<Structure>& found = one.explanation.found;
        if (found && found->certain && !found->any_rendezvous() && found->own > 0 && one.kind.waits != Waits::n_to_one)
            own.push_back(found->own);
    }
    if (own.empty() || faults_.calls_cost_nothing) return;
    std::nth_element(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2), own.end());
    for (CollectiveClass& one : *classes) {
        std::optional<Structure>& found = one.explanation.found ? one.explanation.found : one.explanation.likeliest;
        if (one.kind.waits != Waits::n_to_one || one.kind.nonblocking || !found) continue;
        if (const auto apart = apart_from_call(*found, one.samples, own[own.size() / 2])) found = apart;
    }
}

// Of all sizes, the least and the greatest among them: what data costs few sizes alike do not tell.
static void keep_some(std::vector<InstanceSample>* samples, size_t most) {
    if (samples->size() <= most) return;
    const auto smaller = [](const InstanceSample& a, const InstanceSample& b) { return a.sizes.total() < b.sizes.total(); };
    std::stable_sort(samples->begin(), samples->end(), smaller);
    for (size_t i = 0; i < most; ++i) std::swap((*samples)[i], (*samples)[i * (samples->size() - 1) / (most - 1)]);
    samples->resize(most);
}

void Model::freeze(bool noise_placed, const Search& search) {
    noise_placed_ = noise_placed;
    for (const auto& [key, samples] : samples_) {
        if (samples.count() > 0) costs_[key] = {samples.of, summarise(samples), samples.count()};
        if (const auto limits = samples.by_slack.find(limits_only); limits != samples.by_slack.end())
            limits_[key] = limits->second.shortest();
    }
    settle_tails();
    settle_transfers();
    settle_protocols();
    settle_waits();
    settle_open_sizes();
    if (!noise_placed_ && !faults_.all_excess_is_noise) settle_excess();
    for (const auto& [key, instances] : instances_)
        if (instances.apart && static_cast<uint8_t>(instances.of.operation) == OTF2_COLLECTIVE_OP_DESTROY_HANDLE)
            never_wait_.insert(OTF2_COLLECTIVE_OP_DESTROY_HANDLE);
    std::erase_if(instances_, [](const auto& entry) { return entry.second.apart; });
    merge_sizes();
    std::vector<CollectiveClass> classes;  // as `instances_`
    std::vector<Nearest> best;
    for (auto& [key, instances] : instances_) {
        by_root_[{instances.by_root.key(), key.second}] = key;
        CollectiveClass& one = classes.emplace_back();
        one.kind = kind_of(instances.of, instances.waits, key.second);
        for (auto& [hash, sample] : instances.kept) one.samples.push_back(std::move(sample));
        if (!one.samples.empty() && one.samples.front().sizes.known()) {
            one.kind.by_member = true;
            one.kind.data = one.samples.front().sizes.total();
            if (has_sizes_by_pair(one.kind.operation))  // what looking at one takes grows with the square of the members
                keep_some(&one.samples, std::clamp<size_t>(1000 / (key.second * key.second), 4, 12));
        }
        one.kind.links_apart = faults_.links_apart;
        one.kind.usual_calls_tell = faults_.usual_calls_tell;
        if (!faults_.set_ups_count && !faults_.no_structure) look_for_set_ups(one, instances, search);
        if (!noise_placed)
            for (InstanceSample& sample : one.samples) sample.forget_places();
        best.push_back(faults_.no_structure ? Nearest()
                                            : nearest(one.samples, one.kind, search.library, noise_placed, search.part, search.parts));
    }
    if (search.join) search.join(best);
    if (!faults_.no_structure) {
        for (size_t i = 0; i < classes.size(); ++i)
            if (!classes[i].samples.empty())
                classes[i].explanation = explain(classes[i].samples, classes[i].kind.waits, noise_placed, best[i]);
        const std::vector<Reference> lenders = references(classes, true), known = references(classes, false);
        std::vector<Nearest> borrowed(classes.size());
        for (size_t i = 0; i < classes.size(); ++i) {
            const CollectiveClass& one = classes[i];
            const bool weak = evidence(one.samples) != Evidence::enough || one.samples.size() == 1;
            if (weak || one.explanation.leaves_more_than(1 / enough_said) || !one.explanation.found)
                borrowed[i] = borrow(one.samples, one.kind, search.library, noise_placed, lenders, search.part, search.parts);
        }
        if (search.join) search.join(borrowed);
        for (size_t i = 0; i < classes.size(); ++i) {
            Explanation& explanation = classes[i].explanation;
            if (classes[i].samples.empty()) continue;
            explanation = explain(classes[i].samples, classes[i].kind.waits, noise_placed, best[i], borrowed[i]);
            // A fence also waits for transfers, which its messages do not show: one that leaves more than 15 % may be the wrong one.
            // (Where the noise is not placed every one leaves more.)
            if (noise_placed && classes[i].kind.operation == operation_fence && explanation.leaves_more_than(0.15))
                explanation.found.reset();
            const std::optional<Structure>& fitted = explanation.found;
            const bool open = !fitted || (!fitted->certain && explanation.leaves_more_than(0.3)) || 8 * fitted->error > fitted->hop;
            if (!noise_placed && open && !faults_.hit_calls_as_fitted)
                if (const auto hidden = hidden_by_noise(classes[i].samples, classes[i].kind, search.library, known, fitted))
                    explanation.found = hidden;
            if (!classes[i].set_up)
                classes[i].set_up = explain_set_ups(classes[i].set_ups, classes[i].kind, search.library, noise_placed, known,
                                                    explanation.found ? explanation.found : explanation.likeliest);
        }
    }
    fence_as_barriers(&classes);
    tell_calls_apart(&classes);
    share_links_as_others(&classes);
    size_t number = 0;
    for (const auto& [key, instances] : instances_) {
        const CollectiveClass& one = classes[number++];
        LearnedStructure& learned = structures_[key] = {instances.of,
                                                        instances.by_root,
                                                        key.second,
                                                        static_cast<int64_t>(one.samples.size() + one.set_ups.size()),
                                                        one.explanation.found,
                                                        one.explanation.likeliest,
                                                        {},
                                                        one.set_up,
                                                        one.explanation.constant_error,
                                                        one.explanation.constant_root_error};
        if (one.set_up)
            for (const InstanceSample& sample : one.set_ups) learned.set_ups.insert(sample.ordinal);
    }
    instances_.clear();
}

// Where some members do not agree on sizes, all sizes of the operation become one class.
void Model::merge_sizes() {
    for (auto& [key, all] : instances_) {
        if (!all.any_size) continue;
        for (auto other = instances_.begin(); other != instances_.end();) {
            const bool same = other->first.second == key.second && other->first.first >> size_bits == key.first >> size_bits;
            if (!same || other->first == key) {
                ++other;
                continue;
            }
            all.kept.merge(other->second.kept);
            for (const auto& [of, first] : other->second.firsts) all.keep_first({of, first.number}, first.sample);
            other = instances_.erase(other);
        }
        while (all.kept.size() > most_instances(key.second)) all.kept.erase(std::prev(all.kept.end()));
    }
}

Learned Model::learned() const {
    Learned learned;
    for (const auto& [key, cost] : costs_) learned.costs.push_back(cost);
    for (const auto& [key, protocol] : protocols_) learned.protocols.push_back(protocol);
    for (const auto& [key, structure] : structures_) learned.structures.push_back(structure);
    learned.never_wait = never_wait_;
    learned.clock_disorder_ns = clock_disorder_ns;
    return learned;
}

Model Model::given(const Learned& learned, Faults faults) {
    Model model(faults);
    for (const LearnedCost& cost : learned.costs) model.costs_[cost.of.key()] = cost;
    for (const LearnedProtocol& protocol : learned.protocols)
        model.protocols_[protocol_key(protocol.same_host, protocol.partitioned, protocol.size)] = protocol;
    for (const LearnedStructure& structure : learned.structures) model.add(structure);
    model.clock_disorder_ns = learned.clock_disorder_ns;
    return model;
}

void Model::complete(const Learned& learned) {
    const Model known = *this;
    for (const LearnedCost& cost : learned.costs)
        if (!known.cost(cost.of).known) costs_[cost.of.key()] = cost;
    for (const LearnedProtocol& protocol : learned.protocols)
        if (!known.knows_protocol(protocol.same_host, protocol.partitioned))
            protocols_[protocol_key(protocol.same_host, protocol.partitioned, protocol.size)] = protocol;
    for (const LearnedStructure& structure : learned.structures)
        if (!known.knows_structure(structure.of, structure.members)) add(structure);
    never_wait_.insert(learned.never_wait.begin(), learned.never_wait.end());
    asked_.clear();
    rendezvous_asked_.clear();
}

void Model::add(const LearnedStructure& structure) {
    const InstanceKey key{structure.of.key(), structure.members};
    structures_[key] = structure;
    by_root_[{structure.by_root.key(), structure.members}] = key;
}

Learned Model::shown() const {
    Learned shown;
    for (const auto& [key, samples] : samples_)
        if (samples.count() > 0 && samples.of.kind < CostKind::collective_shortest)
            shown.costs.push_back({samples.of, {}, samples.count()});
    std::map<uint64_t, LearnedCost> waited;
    for (const auto& [key, wait] : waits_) {
        LearnedCost& cost = waited.try_emplace(key.first, LearnedCost{wait.own, {}, 0}).first->second;
        cost.samples += wait.samples.count();
    }
    for (const auto& [key, cost] : waited)
        if (!samples_.contains(key) || samples_.at(key).count() == 0) shown.costs.push_back(cost);
    for (const auto& [key, protocol] : protocols_) shown.protocols.push_back(protocol);
    for (const auto& [key, instances] : instances_)
        if (!instances.apart)
            shown.structures.push_back({instances.of, instances.by_root, key.second, static_cast<int64_t>(instances.kept.size())});
    return shown;
}

bool Model::knows_protocol(bool same_host, bool partitioned) const {
    return std::any_of(protocols_.begin(), protocols_.end(),
                       [&](const auto& entry) { return entry.second.same_host == same_host && entry.second.partitioned == partitioned; });
}

bool Model::knows_structure(const CostClass& of, uint32_t members) const {
    const InstanceKey key{of.key(), members};
    return structures_.contains(key) || by_root_.contains(key);
}

}  // namespace polter::replay
