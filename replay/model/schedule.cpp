// SPDX-License-Identifier: BSD-3-Clause
// The usual algorithms of collectives, as rows of sends and receives.
#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "collective_algorithm.hpp"

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

    // Children of a place in a tree, those with most below them first but for the strided and the binary one.
    std::vector<uint32_t> children(uint32_t place, Shape shape) const {
        std::vector<uint32_t> list;
        const auto add = [&](uint64_t child) {
            if (child < members_) list.push_back(static_cast<uint32_t>(child));
        };
        if (shape == Shape::binary) {
            add(uint64_t{place} * 2 + 1);
            add(uint64_t{place} * 2 + 2);
        } else if (shape == Shape::binomial_strided) {
            for (uint64_t stride = place == 0 ? 1 : uint64_t{std::bit_floor(place)} * 2; place + stride < members_; stride *= 2)
                add(place + stride);
        } else {
            const uint64_t radix = shape == Shape::quaternomial ? 4 : 2;
            uint64_t span = 1;  // of the subtree below the place
            while (place == 0 ? span < members_ : place % (span * radix) == 0) span *= radix;
            for (span /= radix; span > 0; span /= radix)
                for (uint64_t digit = 1; digit < radix; ++digit) add(place + digit * span);
        }
        return list;
    }
    void tree_down(Shape shape) {
        std::deque<uint32_t> open{0};
        while (!open.empty()) {
            const uint32_t place = open.front();
            open.pop_front();
            for (const uint32_t child : children(place, shape)) {
                pass(place, child);
                open.push_back(child);
            }
        }
    }
    void tree_up(uint32_t place, Shape shape) {
        auto list = children(place, shape);
        if (shape == Shape::binomial || shape == Shape::quaternomial) std::reverse(list.begin(), list.end());  // small subtrees come first
        for (const uint32_t child : list) {
            tree_up(child, shape);
            pass(child, place);
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
            case Shape::quaternomial:
            case Shape::binary:
                return tree_up(0, shape);
            case Shape::linear:
            case Shape::linear_in_order:
                return linear_up(shape == Shape::linear_in_order);
            case Shape::chain:
                for (uint32_t place = members_ - 1; place > 0; --place) pass(place, place - 1);
                return;
            case Shape::recursive_doubling:
                return recursive_doubling();
            case Shape::dissemination:
                for (uint32_t distance = 1; distance < members_; distance <<= 1)
                    round([&](uint32_t place) { return (place + distance) % members_; });
                return;
            case Shape::ring:
                for (uint32_t k = 1; k < members_; ++k) round([&](uint32_t place) { return (place + 1) % members_; });
                return;
            case Shape::pairwise:
                for (uint32_t k = 1; k < members_; ++k) round([&](uint32_t place) { return (place + k) % members_; });
                return;
            case Shape::everyone:
                return everyone(members_);
            case Shape::everyone_by_number:
                return everyone_by_number();
            case Shape::everyone_above:
                return everyone_above();
            case Shape::everyone_by_4:
                return everyone(4);
            case Shape::everyone_by_32:
                return everyone(32);
            case Shape::none:
                return;
        }
    }
    void down(Shape shape) {
        switch (shape) {
            case Shape::binomial:
            case Shape::binomial_strided:
            case Shape::quaternomial:
            case Shape::binary:
                return tree_down(shape);
            case Shape::linear:
            case Shape::linear_in_order:
                for (uint32_t place = 1; place < members_; ++place) pass(0, place);
                return;
            case Shape::chain:
                for (uint32_t place = 1; place < members_; ++place) pass(place - 1, place);
                return;
            default:
                return;
        }
    }

    Schedule take() { return std::move(schedule_); }

  private:
    static constexpr uint32_t no_partner = UINT32_MAX;

    void everyone_by_number() {
        std::vector<std::vector<uint32_t>> sent(members_, std::vector<uint32_t>(members_));
        for (uint32_t from = 0; from < members_; ++from)
            for (uint32_t to = 0; to < members_; ++to)
                if (to != from) sent[from][to] = send(from, to);
        for (uint32_t place = 0; place < members_; ++place) {
            const size_t first = schedule_.steps[place].size();
            for (uint32_t from = 0; from < members_; ++from)
                if (from != place) receive(sent[from][place], from, place);
            if (members_ > 1) schedule_.steps[place][first].together = members_ - 1;
        }
    }

    void everyone_above() {
        std::vector<std::vector<uint32_t>> sent(members_, std::vector<uint32_t>(members_));
        for (uint32_t from = 0; from < members_; ++from)
            for (uint32_t to = from + 1; to < members_; ++to) sent[from][to] = send(from, to);
        for (uint32_t place = 1; place < members_; ++place) {
            const size_t first = schedule_.steps[place].size();
            for (uint32_t from = 0; from < place; ++from) receive(sent[from][place], from, place);
            schedule_.steps[place][first].together = place;
        }
    }

    // In portions: messages to so many of the others, backward from one's own number as Open MPI and MPICH do, then the same number
    // received as they come. Oneself counts as the first.
    void everyone(uint32_t portion) {
        for (uint32_t first_of = 0; first_of < members_; first_of += portion) {
            const uint32_t end = first_of + std::min(portion, members_ - first_of), begin = std::max(1u, first_of);
            if (begin == end) continue;
            std::vector<std::vector<uint32_t>> sent(end - begin, std::vector<uint32_t>(members_));
            for (uint32_t k = begin; k < end; ++k)
                for (uint32_t place = 0; place < members_; ++place) sent[k - begin][place] = send(place, (place + members_ - k) % members_);
            for (uint32_t place = 0; place < members_; ++place) {
                const size_t first = schedule_.steps[place].size();
                for (uint32_t k = begin; k < end; ++k) {
                    const uint32_t from = (place + k) % members_;
                    receive(sent[k - begin][from], from, place);
                }
                schedule_.steps[place][first].together = end - begin;
            }
        }
    }

    void recursive_doubling() {
        const uint32_t power = std::bit_floor(members_), rest = members_ - power;
        for (uint32_t k = 0; k < rest; ++k) pass(2 * k, 2 * k + 1);
        const auto place = [&](uint32_t member) { return member < 2 * rest ? (member % 2 ? member / 2 : no_partner) : member - rest; };
        const auto member_at = [&](uint32_t at) { return at < rest ? 2 * at + 1 : at + rest; };
        for (uint32_t mask = 1; mask < power; mask <<= 1)
            round([&](uint32_t member) { return place(member) == no_partner ? no_partner : member_at(place(member) ^ mask); });
        for (uint32_t k = 0; k < rest; ++k) pass(2 * k + 1, 2 * k);
    }

    uint32_t members_;
    Schedule schedule_;
};

}  // namespace

const Schedule& schedule(const Pattern& pattern, uint32_t members, uint32_t root) {
    static std::mutex mutex;
    static std::map<std::tuple<Pattern, uint32_t, uint32_t>, std::unique_ptr<Schedule>> cache;
    const std::lock_guard lock(mutex);
    if (!pattern.relay) root = 0;
    auto& slot = cache[{pattern, members, root}];
    if (!slot) {
        Builder builder(members);
        if (root != 0 && pattern.up == Shape::none) builder.pass(root, 0);
        builder.up(pattern.up);
        builder.down(pattern.down);
        if (root != 0 && pattern.down == Shape::none) builder.pass(0, root);
        slot = std::make_unique<Schedule>(builder.take());
    }
    return *slot;
}

std::vector<uint8_t> waited_for(const Schedule& schedule, uint32_t place) {
    std::vector<std::pair<uint32_t, uint32_t>> sent(schedule.messages);  // by message: its sender, the index of the step
    for (uint32_t from = 0; from < schedule.steps.size(); ++from)
        for (uint32_t step = 0; step < schedule.steps[from].size(); ++step)
            if (!schedule.steps[from][step].receive) sent[schedule.steps[from][step].message] = {from, step};
    std::vector<uint32_t> done(schedule.steps.size(), 0);  // by place: so many steps come before
    std::vector<uint8_t> of(schedule.steps.size(), 0);
    std::vector<std::pair<uint32_t, uint32_t>> open{{place, static_cast<uint32_t>(schedule.steps[place].size())}};
    while (!open.empty()) {
        const auto [at, upto] = open.back();
        open.pop_back();
        for (; done[at] < upto; ++done[at]) {
            const Schedule::Step& step = schedule.steps[at][done[at]];
            if (!step.receive) continue;
            of[at] = 2;
            const auto& [from, steps] = sent[step.message];
            of[from] = std::max<uint8_t>(of[from], 1);
            open.emplace_back(from, steps);
        }
    }
    return of;
}

std::vector<Pattern> candidates(Waits waits, uint32_t members) {
    constexpr Shape down[] = {Shape::binomial, Shape::binomial_strided, Shape::quaternomial, Shape::binary, Shape::linear, Shape::chain};
    constexpr Shape up[] = {Shape::binomial, Shape::binomial_strided, Shape::quaternomial, Shape::binary, Shape::linear,
                            Shape::chain,    Shape::linear_in_order};
    constexpr uint32_t most_of_many = 256;  // where the number of messages grows with the square of the members
    std::vector<Pattern> patterns;
    switch (waits) {
        case Waits::n_to_n:
            patterns = {{Shape::dissemination, Shape::none}, {Shape::recursive_doubling, Shape::none}};
            if (members <= most_of_many)
                for (const Shape shape : {Shape::ring, Shape::pairwise, Shape::everyone, Shape::everyone_by_4, Shape::everyone_by_32,
                                          Shape::everyone_by_number})
                    patterns.push_back({shape, Shape::none});
            for (const Shape first : up)
                for (const Shape second : down) patterns.push_back({first, second});
            break;
        case Waits::one_to_n:
            for (const bool relay : {false, true})
                for (const Shape shape : down) patterns.push_back({Shape::none, shape, relay});
            break;
        case Waits::n_to_one:
            for (const bool relay : {false, true})
                for (const Shape shape : up) patterns.push_back({shape, Shape::none, relay});
            break;
        case Waits::prefix:
            patterns = {{Shape::none, Shape::chain}, {Shape::recursive_doubling, Shape::none}};
            if (members <= most_of_many) patterns.push_back({Shape::everyone_above, Shape::none});
            break;
        default:
            break;
    }
    return patterns;
}

std::string to_string(const Pattern& pattern) {
    constexpr const char* names[] = {"",
                                     "binomial tree",
                                     "strided binomial tree",
                                     "quaternomial tree",
                                     "binary tree",
                                     "all at once",
                                     "one by one",
                                     "chain",
                                     "recursive doubling",
                                     "dissemination",
                                     "ring",
                                     "pairwise",
                                     "everyone to everyone",
                                     "everyone to everyone, by 4",
                                     "everyone to everyone, by 32",
                                     "everyone to everyone, by number",
                                     "everyone to those above"};
    const std::string up = names[static_cast<size_t>(pattern.up)], down = names[static_cast<size_t>(pattern.down)];
    return up + (up.empty() || down.empty() ? "" : ", then ") + down + (pattern.relay ? " by way of rank 0" : "");
}

}  // namespace polter::replay
