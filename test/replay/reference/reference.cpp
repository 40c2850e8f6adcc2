// SPDX-License-Identifier: BSD-3-Clause
#include "reference.hpp"

#include <otf2/otf2.h>

#include <algorithm>
#include <bit>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#include <functional>

#include "reference_calls.hpp"
#include "replay/model/message_costs.hpp"

namespace polter::test {

namespace {

using Kind = Record::Kind;
using replay::Cost;
using replay::CostKind;

// "Not before `weight` (by lane) after the vertex from which it comes."
struct NotBefore {
    std::vector<int64_t> weight;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, NotBefore>;

// Something that a call waits for: it happened at `time`, measured, and the call takes `cost` from there.
struct Dependency {
    std::vector<size_t> vertices;  // the events that made it happen, the last of them if there are several
    int64_t time = 0;
    Cost cost;
    std::vector<Noise> on_the_way;  // between the vertex and `time`
};

using Approximated = std::vector<std::vector<int64_t>>;  // by vertex, in lanes

class Reference {
  public:
    // `estimate`: what it is without the bounds, which depend on where that moves.
    Reference(const TraceSpec& trace, const replay::Scenarios& scenarios, const replay::Model& model, const ReferenceFaults& faults,
              const Approximated& estimate)
        : trace_(trace),
          model_(model),
          faults_(faults),
          calls_(trace, faults.last_message),
          removed_(scenarios.lane_sets()),
          all_(scenarios.all()),
          estimate_(estimate) {
        for (size_t lane = 0; lane < removed_.size(); ++lane)
            costs_.push_back(lane == scenarios.lanes().low ? &Cost::low : lane == scenarios.lanes().high ? &Cost::high : &Cost::mid);
    }

    Approximated evaluate() {
        for (const Call& call : calls_.calls) constrain(call);
        return longest_paths();
    }

    Timelines timelines() {
        const Approximated approximated = evaluate();
        Timelines result(trace_.ranks());
        for (size_t rank = 0; rank < trace_.ranks(); ++rank)
            for (const size_t vertex : calls_.vertices[rank]) result[rank].emplace_back(calls_.times[vertex], approximated[vertex]);
        return result;
    }

    // The same graph, read backward.
    std::vector<std::vector<int64_t>> slacks() {
        const Approximated at = evaluate();
        int64_t last = INT64_MIN;
        for (const auto& vertices : calls_.vertices)
            if (!vertices.empty()) last = std::max(last, at[vertices.back()][all_]);
        std::vector<int64_t> slack(at.size(), INT64_MAX);
        for (const auto& vertices : calls_.vertices)
            if (!vertices.empty()) slack[vertices.back()] = last - at[vertices.back()][all_];
        std::vector<size_t> last_first;
        boost::topological_sort(graph_, std::back_inserter(last_first));
        for (const size_t vertex : last_first)
            for (const auto& out : boost::make_iterator_range(boost::out_edges(vertex, graph_))) {
                const size_t to = boost::target(out, graph_);
                slack[vertex] = std::min(slack[vertex], slack[to] + at[to][all_] - at[vertex][all_] - graph_[out].weight[all_]);
            }
        std::vector<std::vector<int64_t>> result(trace_.ranks());
        for (size_t rank = 0; rank < trace_.ranks(); ++rank)
            for (const size_t vertex : calls_.vertices[rank]) result[rank].push_back(slack[vertex]);
        return result;
    }

  private:
    size_t lanes() const { return removed_.size(); }

    // ---- noise -------------------------------------------------------------------------------------------------------------------

    bool removes(size_t lane, const Noise& noise) const { return removed_[lane] >> noise.account & 1; }
    int64_t noise_after(const std::vector<Noise>& noise, int64_t time) const {
        int64_t sum = 0;
        for (const Noise& one : noise) sum += std::max<int64_t>(0, one.end - std::max(one.begin, time));
        return sum;
    }
    int64_t removed_after(const std::vector<Noise>& noise, int64_t time, size_t lane) const {
        int64_t sum = 0;
        for (const Noise& one : noise)
            if (removes(lane, one)) sum += std::max<int64_t>(0, one.end - std::max(one.begin, time));
        return sum;
    }

    // ---- the event graph -----------------------------------------------------------------------------------------------------------

    // `weight(lane)`
    template <class Weight>
    void edge(size_t from, size_t to, Weight weight) {
        NotBefore property;
        for (size_t lane = 0; lane < lanes(); ++lane) property.weight.push_back(weight(lane));
        boost::add_edge(from, to, property, graph_);
    }

    std::vector<std::vector<int64_t>> longest_paths() const {
        std::vector<std::vector<int64_t>> at(calls_.times.size(), std::vector<int64_t>(lanes(), INT64_MIN));
        for (const auto& vertices : calls_.vertices)
            if (!vertices.empty()) std::fill(at[vertices[0]].begin(), at[vertices[0]].end(), calls_.times[vertices[0]]);
        std::vector<size_t> last_first;
        try {
            boost::topological_sort(graph_, std::back_inserter(last_first));
        } catch (const boost::not_a_dag&) {
            throw NotCovered("calls wait for each other in a circle");
        }
        for (auto vertex = last_first.rbegin(); vertex != last_first.rend(); ++vertex) {
            for (size_t lane = 0; lane < lanes(); ++lane)
                if (costs_[lane] == &Cost::high) at[*vertex][lane] = std::min(at[*vertex][lane], calls_.times[*vertex]);  // never later
            for (const auto& out : boost::make_iterator_range(boost::out_edges(*vertex, graph_)))
                for (size_t lane = 0; lane < lanes(); ++lane) {
                    int64_t& later = at[boost::target(out, graph_)][lane];
                    later = std::max(later, at[*vertex][lane] + graph_[out].weight[lane]);
                }
        }
        return at;
    }

    // ---- what each call waits for --------------------------------------------------------------------------------------------------

    void constrain(const Call& call) {
        std::vector<Dependency> dependencies;
        Cost own;  // of a call for which everything was there
        const auto own_at_least = [&](const Cost& cost) {
            own = {std::max(own.low, cost.low), std::max(own.mid, cost.mid), std::max(own.high, cost.high)};
        };
        const auto completions = static_cast<uint64_t>(std::count_if(call.records.begin(), call.records.end(), [](const Record* record) {
            return record->kind == Kind::irecv || record->kind == Kind::isend_complete || record->kind == Kind::collective_complete;
        }));
        const auto wait_own = [&] { return model_.cost({CostKind::wait_own, true, false, 0, completions}); };
        for (const Record* record : call.records) {
            const auto found = calls_.messages.find(record);
            const Message* message = found == calls_.messages.end() ? nullptr : found->second;
            switch (record->kind) {
                case Kind::recv:
                case Kind::irecv: {
                    if (faults_.no_messages) break;
                    const bool blocking = record->kind == Kind::recv;
                    const replay::MessageCosts costs = receive_costs(*message);
                    const Cost alone = blocking ? costs.own : wait_own();
                    const int64_t not_before = costs.rendezvous ? message->post->enter + costs.after_post.mid : call.enter + alone.mid;
                    dependencies.push_back(arrival(*message, costs.after_send, not_before, call));
                    own_at_least(alone);
                    if (costs.rendezvous)
                        dependencies.push_back(posting(*message, costs.after_post, message->send->enter + costs.after_send.mid, call));
                    else if (!blocking)
                        dependencies.push_back({{message->post->from}, message->post->enter, costs.after_post, {}});
                    break;
                }
                case Kind::leave: {  // a probe: what it costs to find a message is not known, at most what taking it does
                    const Cost cost = model_.cost(message_class(CostKind::receive_after_send, *message));
                    dependencies.push_back(arrival(*message, {0, cost.low, cost.mid}, call.enter, call));
                    break;
                }
                case Kind::send:
                case Kind::isend_complete: {
                    if (!waits_for_receiver(*message) || faults_.no_posting) break;
                    if (!message->post) throw NotCovered("a synchronous send without its receive");
                    const replay::SendCosts costs = replay::send_costs(model_, message_class(CostKind::send_after_post, *message));
                    dependencies.push_back(arrival(*message, costs.after_send, message->post->enter + costs.after_post.mid, call));
                    own_at_least(record->kind == Kind::send ? costs.own : wait_own());
                    dependencies.push_back(posting(*message, costs.after_post, message->send->enter + costs.after_send.mid, call));
                    break;
                }
                case Kind::collective_complete: {
                    const CollectiveCall& collective = *calls_.collectives.at(record);
                    if (waits_for_receiver(collective, *record, call)) {
                        own_at_least(of_sender(collective, *record));
                        dependencies.push_back(last_receiver(collective, *record, call));
                        break;
                    }
                    const Dependency last = last_of(collective, *record, call);
                    if (last.vertices.empty()) break;
                    dependencies.push_back(last);
                    dependencies.back().cost = model_.cost(collective_class(CostKind::collective_tail, collective, *record));
                    own_at_least(wait_own());
                    break;
                }
                case Kind::collective_end: {
                    const CollectiveCall& collective = *calls_.collectives.at(record);
                    if (waits_for_receiver(collective, *record, call)) {
                        own = of_sender(collective, *record);
                        dependencies.push_back(last_receiver(collective, *record, call));
                        break;
                    }
                    Dependency last = last_of(collective, *record, call);
                    if (last.vertices.empty()) {
                        if (only_sends(collective, *record, call)) own = sending_cost(collective, *record);
                        break;
                    }
                    if (whom(record->operation) != Whom::root) {
                        leave_after_all(call, collective, *record, last);
                        return;
                    }
                    own = model_.cost(collective_class(CostKind::collective_own, collective, *record));
                    last.cost = model_.cost(collective_class(CostKind::collective_tail, collective, *record));
                    stand_in(last.cost, own);
                    dependencies.push_back(last);
                    break;
                }
                default:
                    break;
            }
        }
        leave_after(call, dependencies, own);
    }

    // The rule of replay/README.md: the call ends when the last has happened and its own work from there is done. What bound in the
    // measured run, by the model, has the measured cost; the others the model's, or less if they cannot have had so much.
    void leave_after(const Call& call, const std::vector<Dependency>& others, const Cost& own) {
        if (others
                .empty()) {  // own work, or transfers, which noise does not prolong: it counts by how much longer than usual the call took
            edge(call.from, call.to, [&](size_t lane) {
                int64_t begin = call.enter;
                const int64_t longer = std::max<int64_t>(0, call.leave - call.enter - own.*costs_[lane]);
                while (own.known && costs_[lane] != &Cost::low && begin < call.leave && noise_after(call.noise, begin) > longer) ++begin;
                return call.leave - call.enter - removed_after(call.noise, begin, lane);
            });
            return;
        }
        std::vector<Dependency> all{{{call.from}, call.enter, own, {}}};
        all.insert(all.end(), others.begin(), others.end());
        const auto bound = std::max_element(
            all.begin(), all.end(), [](const Dependency& a, const Dependency& b) { return a.time + a.cost.mid < b.time + b.cost.mid; });
        const bool may_cost_other = bound != all.begin() && moved(call, all, *bound);
        for (auto one = all.begin(); one != all.end(); ++one)
            for (const size_t vertex : one->vertices)
                edge(vertex, call.to, [&](size_t lane) {
                    const int64_t tail = waiting_ends(call, all, lane);
                    int64_t cost = one->cost.*costs_[lane];
                    if (one == bound) cost = costs_[lane] == &Cost::low ? one->cost.usual_low() : one->cost.usual_high();
                    int64_t earlier = call.leave - noise_after(call.noise, tail) - one->time - cost;
                    const bool measured = one == bound && (!may_cost_other || costs_[lane] == &Cost::mid);
                    if (measured)
                        earlier = 0;
                    else if (one == bound && costs_[lane] == &Cost::high)
                        earlier = std::min<int64_t>(0, earlier);
                    else
                        earlier = std::max<int64_t>(0, earlier);
                    return call.leave - one->time - earlier - removed_after(call.noise, tail, lane) + noise_after(one->on_the_way, 0) -
                           removed_after(one->on_the_way, 0, lane);
                });
    }

    // A message's cost is the measured one for sure only where all that the call depends on moves together.
    bool moved(const Call& call, const std::vector<Dependency>& all, const Dependency& bound) const {
        if (estimate_.empty()) return false;
        const auto delay = [&](const Dependency& one) {
            int64_t last = INT64_MIN;
            for (const size_t vertex : one.vertices) last = std::max(last, estimate_[vertex][all_]);
            return one.time - last - noise_after(one.on_the_way, 0) + removed_after(one.on_the_way, 0, all_);
        };
        return std::any_of(all.begin(), all.end(), [&](const Dependency& one) { return delay(one) != delay(bound); }) ||
               std::any_of(call.noise.begin(), call.noise.end(), [&](const Noise& noise) { return removes(all_, noise); });
    }

    // Where waiting ends and work begins: a message is there its latency after its sending, less what the call itself has to do with it.
    // In the lower bound as early as it can have been, in the upper one as late.
    int64_t waiting_ends(const Call& call, const std::vector<Dependency>& all, size_t lane) const {
        const Cost& own = all.front().cost;
        int64_t end = call.enter;
        for (size_t i = 1; i < all.size(); ++i) {
            int64_t on_its_way = 0;
            if (costs_[lane] == &Cost::mid) on_its_way = all[i].cost.mid - own.mid;
            if (costs_[lane] == &Cost::low) on_its_way = (all[i].cost.known ? all[i].cost.usual_low() : all[i].cost.low) - own.high;
            if (costs_[lane] == &Cost::high) on_its_way = all[i].cost.high;  // own work may lie before the waiting
            end = std::max(end, all[i].time + std::max<int64_t>(0, on_its_way));
        }
        if (faults_.noise_anywhere) return call.enter;
        return costs_[lane] == &Cost::mid ? own_work_begins(call, all) : std::min(end, call.leave);
    }

    // How long the call's own work was is known within limits; how much longer than expected the call was tells how much noise hit it.
    int64_t own_work_begins(const Call& call, const std::vector<Dependency>& all) const {
        const Cost& own = all.front().cost;
        int64_t expected = call.enter + own.mid;
        for (size_t i = 1; i < all.size(); ++i) expected = std::max(expected, all[i].time + all[i].cost.mid);
        const auto begins = [&](int64_t work) {
            int64_t begin = call.enter;
            for (size_t i = 1; i < all.size(); ++i) begin = std::max(begin, all[i].time + std::max<int64_t>(0, all[i].cost.mid - work));
            return std::min(begin, call.leave);
        };
        if (call.noise.empty()) return begins(own.mid);
        const int64_t noise =
            std::clamp(call.leave - expected, noise_after(call.noise, begins(own.low)), noise_after(call.noise, begins(own.high)));
        int64_t begin = begins(own.high);
        while (noise_after(call.noise, begin) > noise) ++begin;
        return begin;
    }

    // ---- messages ------------------------------------------------------------------------------------------------------------------

    bool same_host(const Message& message) const {
        const size_t receiver = members_of(trace_, message.sent->comm)[static_cast<size_t>(message.sent->peer)];
        return trace_.hosts[message.send->rank] == trace_.hosts[receiver];
    }
    bool synchronous_mode(const Message& message) const {
        return message.sent->mode == 1 || message.send->name == "MPI_Ssend" || message.send->name == "MPI_Issend";
    }
    bool waits_for_receiver(const Message& message) const {
        constexpr int buffered = 3;
        return synchronous_mode(message) ||
               (message.sent->mode != buffered && model_.rendezvous(same_host(message), false, message.sent->bytes));
    }
    replay::CostClass message_class(CostKind kind, const Message& message) const {
        return {kind, same_host(message), synchronous_mode(message), 0, message.sent->bytes};
    }

    // What was never seen costs what its counterpart does, or nothing.
    static void stand_in(Cost& a, Cost& b) {
        if (!a.known) a = {0, b.mid, b.high, false};
        if (!b.known) b = {0, a.mid, a.high, false};
    }
    replay::MessageCosts receive_costs(const Message& message) const {
        replay::MessageCosts costs = replay::receive_costs(model_, message_class(CostKind::receive_after_send, message));
        if (message.post->name.starts_with("MPI_I") || costs.own.known) return costs;
        const Cost any_call = model_.cost({CostKind::wait_own, true, false, 0, 0});
        costs.own.high = std::max(costs.own.high, any_call.high);
        costs.own.mid = std::min(any_call.mid, costs.own.high);
        if (!costs.rendezvous) costs.after_post = costs.own;
        return costs;
    }

    // Noise in the sending call may have hit before the message left: it did if the measured end is nearer to what follows from that. The
    // call that waits ends no earlier than `not_before`, and goes on once it has its processor.
    Dependency arrival(const Message& message, const Cost& cost, int64_t not_before, const Call& waits) const {
        const Call& send = *message.send;
        return begun({{send.from}, send.enter, cost, before_leaving(message)}, not_before, waits);
    }
    // … and noise at the beginning of the posting call before the receive was posted.
    Dependency posting(const Message& message, const Cost& cost, int64_t not_before, const Call& waits) const {
        return begun({{message.post->from}, message.post->enter, cost, at_beginning(*message.post, 1000)}, not_before, waits);
    }
    Dependency begun(Dependency left, int64_t not_before, const Call& waits) const {
        const int64_t noise = noise_after(left.on_the_way, 0), later = left.time + noise;
        const auto expected = [&](int64_t departure) {
            int64_t end = std::max(departure + left.cost.mid, not_before);
            for (const Noise& piece : waits.noise)
                if (piece.begin <= end && piece.end > end) end = piece.end;
            return end;
        };
        const int64_t at_once = expected(left.time), after_noise = expected(later);
        if (noise == 0 || later > waits.leave || waits.leave < at_once + (after_noise - at_once) / 2)
            left.on_the_way.clear();
        else
            left.time = later;
        return left;
    }
    // In a call that only sends, all of its noise; in one that also waits, what hit within its first microsecond of work and a copy.
    std::vector<Noise> before_leaving(const Message& message) const {
        const int64_t work_ns = 1000 + static_cast<int64_t>(message.sent->bytes) / 5;
        const Call& send = *message.send;
        const bool waits = waits_for_receiver(message) && message.sent->kind == Kind::send;
        const auto begins = [](const Record* r) { return r->kind == Kind::send || r->kind == Kind::isend || r->kind == Kind::irecv_request; };
        return !waits && std::all_of(send.records.begin(), send.records.end(), begins) ? send.noise : at_beginning(send, work_ns);
    }
    std::vector<Noise> at_beginning(const Call& call, int64_t work_ns) const {
        std::vector<Noise> list;
        for (const Noise& noise : call.noise) {
            if (noise.begin - call.enter - noise_after(list, 0) > work_ns) break;
            list.push_back(noise);
        }
        return list;
    }

    // ---- collectives ---------------------------------------------------------------------------------------------------------------

    // By the size that the member itself gives.
    static replay::CostClass collective_class(CostKind kind, const CollectiveCall& collective, const Record& record) {
        return {kind, true, collective.nonblocking,
                static_cast<uint16_t>(record.operation | std::bit_width(collective.members.size() - 1) << 8), record.bytes};
    }

    // Members that only send wait for a receiver where the call took clearly longer than the shortest one: for the last that came before it
    // ended.
    bool only_sends(const CollectiveCall& collective, const Record& record, const Call& call) const {
        const std::vector<size_t> ranks = members_of(trace_, collective.comm);
        const bool root = call.rank == ranks[static_cast<size_t>(record.peer)];
        const Whom rule = whom(record.operation);
        return (rule == Whom::root && root) || (rule == Whom::root_all && !root);
    }
    Cost sending_cost(const CollectiveCall& collective, const Record& record) const {
        return model_.cost(collective_class(CostKind::collective_send, collective, record));
    }
    bool waits_for_receiver(const CollectiveCall& collective, const Record& record, const Call& call) const {
        const Cost own = sending_cost(collective, record);
        return only_sends(collective, record, call) && own.known &&
               call.leave - call.enter - noise_after(call.noise, call.enter) > 2 * own.low + 1000;
    }
    Cost of_sender(const CollectiveCall& collective, const Record& record) const {
        const Cost own = sending_cost(collective, record);
        return {own.low, own.mid, own.mid, true};
    }
    Dependency last_receiver(const CollectiveCall& collective, const Record& record, const Call& call) const {
        Dependency last{{}, INT64_MIN, {}, {}};
        for (const Call* member : collective.members) {
            if (member->enter > call.leave) continue;
            last.vertices.push_back(member->from);
            last.time = std::max(last.time, member->enter);
        }
        const int64_t took = std::max<int64_t>(0, call.leave - last.time);
        const int64_t without = std::max<int64_t>(0, took - noise_after(call.noise, std::max(last.time, call.enter)));
        last.cost = {0, std::clamp(of_sender(collective, record).mid, without, took), took, true};
        return last;
    }

    // Those of the members for whom this one waits, itself among them where it is one of many.
    Dependency last_of(const CollectiveCall& collective, const Record& record, const Call& call) const {
        const std::vector<size_t> ranks = members_of(trace_, collective.comm);
        const auto own = static_cast<size_t>(std::find(ranks.begin(), ranks.end(), call.rank) - ranks.begin());
        const auto root = static_cast<size_t>(record.peer);
        const Whom rule = whom(record.operation);
        Dependency last{{}, INT64_MIN, {}, {}};
        for (size_t i = faults_.forget_member ? 1 : 0; i < collective.members.size(); ++i) {
            const Call& member = *collective.members[i];
            const bool matters = rule == Whom::all || (rule == Whom::all_that_came && member.enter <= call.leave) ||
                                 (rule == Whom::root && i == root && own != root) || (rule == Whom::lower && i <= own) ||
                                 (rule == Whom::root_all && own == root && !(collective.nonblocking && i == own));
            if (!matters) continue;
            last.vertices.push_back(member.from);
            last.time = std::max(last.time, member.enter);
        }
        return last;
    }

    // A blocking one in which many come together: from the last, each has its tail. Noise that hit any member after that, before
    // this one left, held this one up; at most as long as the tail is longer than without noise. One's own counts in full in the lower bound.
    void leave_after_all(const Call& call, const CollectiveCall& collective, const Record& record, const Dependency& last) {
        const Whom rule = whom(record.operation);
        const bool together = rule == Whom::lower || last.vertices.size() == collective.members.size();
        const Cost tail = model_.cost(collective_class(CostKind::collective_tail, collective, record));
        const std::vector<size_t> ranks = members_of(trace_, collective.comm);
        const auto own_place = std::find(ranks.begin(), ranks.end(), call.rank) - ranks.begin();
        const auto end = collective.members.begin() + (rule == Whom::lower ? own_place + 1 : collective.members.size());
        const std::vector<const Call*> others(collective.members.begin(), end);  // in a scan those above do not matter
        const auto gain = [&](size_t lane) {
            int64_t own = removed_after(call.noise, last.time, lane), longer = std::max<int64_t>(0, call.leave - last.time - tail.*costs_[lane]);
            if (costs_[lane] != &Cost::low) own = std::min(own, longer);
            if (!together) return own;
            const auto everything = [](const Noise&) { return true; };
            const auto what_stays = [&](const Noise& noise) { return !removes(lane, noise); };
            if (costs_[lane] == &Cost::high) {  // for certain, if nothing hit that is not removed
                longer -= tail.high - tail.mid;
                if (most_hit(others, last.time, INT64_MAX, what_stays) > 0) return own;
            }
            const int64_t excess = std::max<int64_t>(0, longer);
            int64_t held = time_hit(others, last.time, call.leave, everything) - time_hit(others, last.time, call.leave, what_stays);
            const int64_t most = most_hit(others, last.time, call.leave, [&](const Noise& noise) { return removes(lane, noise); });
            if (costs_[lane] != &Cost::low && !faults_.all_members_delay) held = std::min(held, 2 * most);
            return std::max(own, std::min(excess, held));
        };
        for (const size_t vertex : last.vertices) edge(vertex, call.to, [&](size_t lane) { return call.leave - last.time - gain(lane); });
    }

    const TraceSpec& trace_;
    const replay::Model& model_;
    const ReferenceFaults faults_;
    const Calls calls_;
    const std::vector<uint64_t> removed_;  // by lane: the accounts that it removes, as bits
    std::vector<int64_t Cost::*> costs_;   // by lane: which of the plausible costs it takes
    const size_t all_;
    const Approximated& estimate_;
    Graph graph_{calls_.times.size()};
};

}  // namespace

Timelines reference(const TraceSpec& trace, const replay::Scenarios& scenarios, const replay::Model& model, const ReferenceFaults& faults) {
    const Approximated estimate = Reference(trace, scenarios, model, faults, {}).evaluate();
    return Reference(trace, scenarios, model, faults, estimate).timelines();
}

std::vector<std::vector<int64_t>> reference_slacks(const TraceSpec& trace, const replay::Scenarios& scenarios, const replay::Model& model,
                                                   const ReferenceFaults& faults) {
    const Approximated estimate = Reference(trace, scenarios, model, faults, {}).evaluate();
    return Reference(trace, scenarios, model, faults, estimate).slacks();
}

}  // namespace polter::test
