// SPDX-License-Identifier: BSD-3-Clause
#include "structure.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>

namespace polter::replay {

namespace {

class Builder {
  public:
    explicit Builder(uint32_t members) : members_(members) { schedule_.steps.resize(members); }

    uint32_t send(uint32_t from, uint32_t to) {
        const uint32_t message = schedule_.messages++;
        schedule_.steps[from].push_back({message, to, false, 1});
        return message;
    }
    void receive(uint32_t message, uint32_t from, uint32_t at) { schedule_.steps[at].push_back({message, from, true, 1}); }
    void pass(uint32_t from, uint32_t to) { receive(send(from, to), from, to); }

    // Everybody sends to `to(member)` and then receives; no_partner: stands aside.
    template <class To>
    void round(To to) {
        std::vector<uint32_t> message(members_), from(members_, no_partner);
        for (uint32_t member = 0; member < members_; ++member) {
            const uint32_t partner = to(member);
            if (partner == no_partner) continue;
            message[partner] = send(member, partner);
            from[partner] = member;
        }
        for (uint32_t member = 0; member < members_; ++member)
            if (from[member] != no_partner) receive(message[member], from[member], member);
    }

    // Children of a member in a binomial tree, those with most below them first.
    std::vector<uint32_t> children(uint32_t member, bool strided) const {
        std::vector<uint32_t> list;
        const uint32_t low = member == 0 ? std::bit_ceil(members_) : member & (~member + 1);
        if (!strided) {
            for (uint32_t mask = low >> 1; mask > 0; mask >>= 1)
                if (member + mask < members_) list.push_back(member + mask);
        } else {
            for (uint32_t mask = member == 0 ? 1 : std::bit_floor(member) << 1; mask < members_ - member; mask <<= 1)
                list.push_back(member + mask);
        }
        return list;
    }
    void tree_down(bool strided) {
        std::deque<uint32_t> open{0};
        while (!open.empty()) {
            const uint32_t member = open.front();
            open.pop_front();
            for (const uint32_t child : children(member, strided)) {
                pass(member, child);
                open.push_back(child);
            }
        }
    }
    void tree_up(uint32_t member, bool strided) {
        auto list = children(member, strided);
        if (!strided) std::reverse(list.begin(), list.end());  // the small subtrees come first
        for (const uint32_t child : list) {
            tree_up(child, strided);
            pass(child, member);
        }
    }
    void linear_up(bool in_order) {
        const size_t first = schedule_.steps[0].size();
        for (uint32_t member = 1; member < members_; ++member) pass(member, 0);
        if (!in_order && members_ > 1) schedule_.steps[0][first].together = members_ - 1;
    }
    void up(Shape shape) {
        switch (shape) {
            case Shape::binomial:
            case Shape::binomial_strided:
                return tree_up(0, shape == Shape::binomial_strided);
            case Shape::linear:
            case Shape::linear_in_order:
                return linear_up(shape == Shape::linear_in_order);
            case Shape::chain:
                for (uint32_t member = members_ - 1; member > 0; --member) pass(member, member - 1);
                return;
            case Shape::recursive_doubling:
                return recursive_doubling();
            case Shape::dissemination:
                return dissemination();
            case Shape::none:
                return;
        }
    }
    void down(Shape shape) {
        switch (shape) {
            case Shape::binomial:
            case Shape::binomial_strided:
                return tree_down(shape == Shape::binomial_strided);
            case Shape::linear:
            case Shape::linear_in_order:
                for (uint32_t member = 1; member < members_; ++member) pass(0, member);
                return;
            case Shape::chain:
                for (uint32_t member = 1; member < members_; ++member) pass(member - 1, member);
                return;
            default:
                return;
        }
    }

    Schedule take() { return std::move(schedule_); }

  private:
    static constexpr uint32_t no_partner = UINT32_MAX;

    void recursive_doubling() {
        const uint32_t power = std::bit_floor(members_), rest = members_ - power;
        for (uint32_t k = 0; k < rest; ++k) pass(2 * k, 2 * k + 1);
        const auto place = [&](uint32_t member) { return member < 2 * rest ? (member % 2 ? member / 2 : no_partner) : member - rest; };
        const auto member_at = [&](uint32_t at) { return at < rest ? 2 * at + 1 : at + rest; };
        for (uint32_t mask = 1; mask < power; mask <<= 1)
            round([&](uint32_t member) { return place(member) == no_partner ? no_partner : member_at(place(member) ^ mask); });
        for (uint32_t k = 0; k < rest; ++k) pass(2 * k + 1, 2 * k);
    }
    void dissemination() {
        for (uint32_t distance = 1; distance < members_; distance <<= 1)
            round([&](uint32_t member) { return (member + distance) % members_; });
    }

    uint32_t members_;
    Schedule schedule_;
};

constexpr auto nothing = [](const NoisePiece&, int64_t) {};

// Mean distance of prediction and measurement.
double error_of(const Structure& structure, const std::vector<InstanceSample>& samples) {
    double error = 0, count = 0;
    for (const InstanceSample& sample : samples) {
        const std::vector<Prediction> predicted = predict(structure, sample);
        for (size_t i = 0; i < predicted.size(); ++i) error += static_cast<double>(std::abs(predicted[i].leave - sample.leave[i]));
        count += static_cast<double>(predicted.size());
    }
    return error / count;
}

// Once it is known which way the last message took to a member, its leave time is linear in the two costs:
// leave = base + works · own + hops · hop. Least absolute distances by reweighted least squares (a few noisy instances must not
// matter); false where the ways leave the costs open.
bool regress(Structure* structure, const std::vector<InstanceSample>& samples) {
    double ww = 0, wh = 0, hh = 0, wy = 0, hy = 0;
    for (const InstanceSample& sample : samples) {
        const std::vector<Prediction> predicted = predict(*structure, sample);
        for (size_t i = 0; i < predicted.size(); ++i) {
            const double works = predicted[i].works, hops = predicted[i].hops;
            const auto off = static_cast<double>(sample.leave[i] - predicted[i].leave);
            const double y = off + works * static_cast<double>(structure->own) + hops * static_cast<double>(structure->hop);
            const double weight = 1 / std::max(10.0, std::abs(off));
            ww += weight * works * works;
            wh += weight * works * hops;
            hh += weight * hops * hops;
            wy += weight * works * y;
            hy += weight * hops * y;
        }
    }
    if (ww <= 0 || hh <= 0) return false;
    const double determinant = ww * hh - wh * wh;
    double own = 0, hop = 0;
    if (determinant > 1e-9 * ww * hh) {
        own = (wy * hh - hy * wh) / determinant;
        hop = (hy * ww - wy * wh) / determinant;
    }
    if (own <= 0 || hop <= 0) {  // a cost is not negative: the better of one of them alone
        const bool hops_alone = hy * hy * ww > wy * wy * hh;
        own = hops_alone ? 0 : std::max(0.0, wy / ww);
        hop = hops_alone ? std::max(0.0, hy / hh) : 0;
    }
    structure->own = std::llround(own);
    structure->hop = std::llround(hop);
    return true;
}

// The costs decide the ways and the ways the costs: in turn, while it gets better, from the best of some starts.
Structure fit(const Pattern& pattern, const std::vector<InstanceSample>& samples) {
    std::vector<int64_t> tails;
    for (const InstanceSample& sample : samples) {
        const int64_t last = *std::max_element(sample.enter.begin(), sample.enter.end());
        for (const int64_t leave : sample.leave) tails.push_back(std::max<int64_t>(1, std::abs(leave - last)));
    }
    std::nth_element(tails.begin(), tails.begin() + static_cast<std::ptrdiff_t>(tails.size() / 2), tails.end());
    const int64_t scale = tails[tails.size() / 2];
    Structure best{pattern, 0, 0, 0};
    double least = error_of(best, samples);
    for (const int64_t part : {2, 8, 64})
        for (const int64_t quarters : {0, 1, 4}) {
            const Structure trial{pattern, scale / part, scale / part * quarters / 4, 0};
            const double error = error_of(trial, samples);
            if (error >= least) continue;
            least = error;
            best = trial;
        }
    for (int round = 0; round < 16; ++round) {
        Structure next = best;
        if (!regress(&next, samples)) break;
        const double error = error_of(next, samples);
        if (error >= least) break;
        least = error;
        best = next;
    }
    best.error = static_cast<int64_t>(least);
    return best;
}

// "A constant after the last that one waits for": what a structure must beat.
double plain_error(const std::vector<InstanceSample>& samples, Waits waits) {
    std::vector<int64_t> waiting, free;
    for (const InstanceSample& sample : samples) {
        const int64_t last = *std::max_element(sample.enter.begin(), sample.enter.end());
        for (size_t i = 0; i < sample.enter.size(); ++i) {
            const bool waits_for_all = waits == Waits::for_all || (waits == Waits::root_for_all && i == 0);
            const bool root_only = waits == Waits::for_root && i != 0;
            const int64_t from = waits_for_all ? last : root_only ? std::max(sample.enter[0], sample.enter[i]) : sample.enter[i];
            int64_t noise = 0;
            for (const NoisePiece& piece : sample.noise[i])
                if (piece.end > from) noise += piece.end - std::max(piece.begin, from);
            (waits_for_all || root_only ? waiting : free).push_back(sample.leave[i] - from - noise);
        }
    }
    double error = 0;
    for (auto* list : {&waiting, &free}) {
        if (list->empty()) continue;
        std::sort(list->begin(), list->end());
        const int64_t median = (*list)[list->size() / 2];
        for (const int64_t value : *list) error += static_cast<double>(std::abs(value - median));
    }
    return error / static_cast<double>(waiting.size() + free.size());
}

}  // namespace

const Schedule& schedule(const Pattern& pattern, uint32_t members) {
    static std::mutex mutex;
    static std::map<std::pair<Pattern, uint32_t>, std::unique_ptr<Schedule>> cache;
    const std::lock_guard lock(mutex);
    auto& slot = cache[{pattern, members}];
    if (!slot) {
        Builder builder(members);
        builder.up(pattern.up);
        builder.down(pattern.down);
        slot = std::make_unique<Schedule>(builder.take());
    }
    return *slot;
}

std::vector<Pattern> candidates(Waits waits) {
    constexpr Shape up[] = {Shape::binomial, Shape::binomial_strided, Shape::linear, Shape::linear_in_order, Shape::chain};
    constexpr Shape down[] = {Shape::binomial, Shape::binomial_strided, Shape::linear, Shape::chain};
    std::vector<Pattern> patterns;
    switch (waits) {
        case Waits::for_all:
            patterns = {{Shape::dissemination, Shape::none}, {Shape::recursive_doubling, Shape::none}};
            for (const Shape first : up)
                for (const Shape second : down) patterns.push_back({first, second});
            break;
        case Waits::for_root:
            for (const Shape shape : down) patterns.push_back({Shape::none, shape});
            break;
        case Waits::root_for_all:
            for (const Shape shape : up) patterns.push_back({shape, Shape::none});
            break;
        default:
            break;
    }
    return patterns;
}

std::vector<Prediction> predict(const Structure& structure, const InstanceSample& sample) {
    const auto members = static_cast<uint32_t>(sample.enter.size());
    const Schedule& programme = schedule(structure.pattern, members);
    std::vector<MemberClock> clocks(members);
    std::vector<size_t> at(members, 0);
    std::vector<Prediction> ways(members), messages(programme.messages, Prediction{INT64_MIN, 0, 0});
    std::vector<uint32_t> ready(members), order;
    std::iota(ready.begin(), ready.end(), 0u);
    for (uint32_t i = 0; i < members; ++i) clocks[i].start(sample.enter[i], &sample.noise[i]);
    const auto arrival = [&](uint32_t message) { return messages[message].leave; };
    while (!ready.empty()) {
        const uint32_t member = ready.back();
        ready.pop_back();
        MemberClock& clock = clocks[member];
        const auto& steps = programme.steps[member];
        while (at[member] < steps.size()) {
            const Schedule::Step& step = steps[at[member]];
            if (!step.receive) {
                clock.work(structure.own, nothing);
                ++ways[member].works;
                messages[step.message] = {clock.now + structure.hop, ways[member].works, ways[member].hops + 1};
                ready.push_back(step.peer);
                ++at[member];
                continue;
            }
            if (!arrived_in_order(&step, arrival, &order)) break;
            for (const uint32_t message : order) {
                if (arrival(message) > clock.now) ways[member] = messages[message];
                clock.wait(arrival(message), nothing);
                clock.work(structure.own, nothing);
                ++ways[member].works;
            }
            at[member] += order.size();
        }
    }
    for (uint32_t i = 0; i < members; ++i) ways[i].leave = clocks[i].now;
    return ways;
}

bool find_structure(const std::vector<InstanceSample>& samples, Waits waits, Structure* found) {
    constexpr size_t fewest = 24;  // fewer leave times say little
    // Of many patterns one is always a little better than none of them: only one that explains most of what a constant leaves.
    constexpr double explained = 0.5;
    if (samples.empty() || samples.size() * samples.front().leave.size() < fewest) return false;
    double best = plain_error(samples, waits) * explained;
    bool any = false;
    for (const Pattern& pattern : candidates(waits)) {
        const Structure structure = fit(pattern, samples);
        const double error = error_of(structure, samples);
        if (error >= best) continue;
        best = error;
        *found = structure;
        any = true;
    }
    return any;
}

}  // namespace polter::replay
