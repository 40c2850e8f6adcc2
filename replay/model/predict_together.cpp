// SPDX-License-Identifier: BSD-3-Clause
#include "predict_together.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace polter::replay {

namespace {

using Together = SamplesTogether;
using Operation = StepOperation;
using Noise = Together::Noise;
using Way = Together::Way;
using Times = SampleTimes;

// Columns do not overlap unless they are the same.
#define POLTER_COLUMN_LOOP _Pragma("GCC ivdep") for (size_t i = 0; i < samples_together; ++i)

void choose(Way& to, const Way& from, const std::array<int64_t, samples_together>& which) {
    POLTER_COLUMN_LOOP {
        to.works.of[i] = which[i] ? from.works.of[i] : to.works.of[i];
        to.hops.of[i] = which[i] ? from.hops.of[i] : to.hops.of[i];
        to.work_data.of[i] = which[i] ? from.work_data.of[i] : to.work_data.of[i];
        to.hop_data.of[i] = which[i] ? from.hop_data.of[i] : to.hop_data.of[i];
    }
}

// One column of samples, step by step: as Followed in predict.cpp, which says what each step does. Noise is as in MemberClock.
template <bool with_ways>
struct Follower {
    Together::State& state;
    const std::vector<MessageCost>& costs;
    const std::vector<uint8_t>& noisy;
    bool link;
    int64_t own_data;

    // Of one sample.
    void hit(int64_t& now, Noise& noise) const {  // MemberClock::end
        for (; noise.next != noise.end && noise.next->begin < now; ++noise.next) now = std::max(now, noise.next->end);
    }
    void work_one(uint32_t place, size_t i, int64_t ns) {
        if (ns <= 0 && link) return;
        int64_t& now = state.now[place].of[i];
        Noise& noise = state.noise[place * samples_together + i];
        int64_t end = now + ns;
        for (; noise.next != noise.end && noise.next->begin < end; ++noise.next)
            end += std::max<int64_t>(0, noise.next->end - std::max(noise.next->begin, now));
        now = end;
    }
    void wait_one(uint32_t place, size_t i, int64_t until) {
        int64_t& now = state.now[place].of[i];
        Noise& noise = state.noise[place * samples_together + i];
        if (link) {
            now = std::max(now, until);
            while (noise.next != noise.end && noise.next->end <= now) ++noise.next;
        } else if (until > now) {
            now = until;
            hit(now, noise);
        }
    }
    // Of all.
    void work(uint32_t place, int64_t ns) {
        if (noisy[place]) {
            for (size_t i = 0; i < samples_together; ++i) work_one(place, i, ns);
            return;
        }
        Times& now = state.now[place];
        POLTER_COLUMN_LOOP now.of[i] += ns;
    }
    void wait(uint32_t place, const Times& until) {
        if (noisy[place]) {
            for (size_t i = 0; i < samples_together; ++i) wait_one(place, i, until.of[i]);
            return;
        }
        Times& now = state.now[place];
        POLTER_COLUMN_LOOP now.of[i] = std::max(now.of[i], until.of[i]);
    }
    void add(SampleTimes& to, int64_t what) const { POLTER_COLUMN_LOOP to.of[i] += what; }
    void add(SampleParts& to, double what) const { POLTER_COLUMN_LOOP to.of[i] += what; }

    void depart(uint32_t message, const Times& from, const Way* way) {
        const MessageCost& cost = costs[message];
        Times& arrival = state.arrival[message];
        POLTER_COLUMN_LOOP arrival.of[i] = from.of[i] + cost.flight;
        if constexpr (with_ways) {
            Way& to = state.arrival_way[message];
            to = *way;
            add(to.hops, 1);
            add(to.hop_data, cost.share);
        }
    }
    void settle(uint32_t message) {
        Times &ready = state.ready[message], &posted = state.posted[message];
        if constexpr (with_ways) {
            std::array<int64_t, samples_together> receiver;
            POLTER_COLUMN_LOOP receiver[i] = posted.of[i] > ready.of[i];
            choose(state.ready_way[message], state.posted_way[message], receiver);
        }
        POLTER_COLUMN_LOOP ready.of[i] = std::max(ready.of[i], posted.of[i]);
        const Way* way = nullptr;
        if constexpr (with_ways) way = &state.ready_way[message];
        depart(message, ready, way);
    }
    void send(const Operation& operation) {
        const MessageCost& cost = costs[operation.message];
        if (operation.own_work) work(operation.place, cost.work);
        Way* way = nullptr;
        if constexpr (with_ways) {
            way = &state.way[operation.place];
            add(way->works, operation.own_work);
            add(way->work_data, cost.work_share);
        }
        if (!cost.rendezvous && !cost.shares_links) return depart(operation.message, state.now[operation.place], way);
        state.ready[operation.message] = state.now[operation.place];
        if constexpr (with_ways) state.ready_way[operation.message] = *way;
        if (cost.shares_links) return;
        if (operation.settles) settle(operation.message);
    }
    // At one end of theirs; the slower end counts. As Followed::share.
    void share(const std::vector<uint32_t>& messages) {
        for (size_t i = 0; i < samples_together; ++i) {
            state.link.start();
            for (const uint32_t message : messages) state.link.add(state.ready[message].of[i], costs[message].by_length);
            const std::vector<int64_t>& later = state.link.later();
            const std::vector<LinkSlopes::Slopes>* slopes = nullptr;
            for (size_t m = 0; m < messages.size(); ++m) {
                const MessageCost& cost = costs[messages[m]];
                const int64_t there = state.ready[messages[m]].of[i] + later[m] + cost.flight;
                int64_t& arrival = state.arrival[messages[m]].of[i];
                if (there <= arrival) continue;
                arrival = there;
                if constexpr (with_ways) {
                    if (!slopes) slopes = &slopes_of(messages, i);
                    const LinkSlopes::Slopes& by = (*slopes)[m];
                    set(state.arrival_way[messages[m]], i, {by[0], by[1] + 1, by[2], by[3] + cost.share});
                }
            }
        }
    }
    static void set(Way& way, size_t sample, const LinkSlopes::Slopes& to) {
        way.works.of[sample] = to[0];
        way.hops.of[sample] = to[1];
        way.work_data.of[sample] = to[2];
        way.hop_data.of[sample] = to[3];
    }
    const std::vector<LinkSlopes::Slopes>& slopes_of(const std::vector<uint32_t>& messages, size_t sample) {
        state.slopes.start();
        for (const uint32_t message : messages) {
            const Way& way = state.ready_way[message];
            state.slopes.add(state.ready[message].of[sample], costs[message].by_length, costs[message].share,
                             {way.works.of[sample], way.hops.of[sample], way.work_data.of[sample], way.hop_data.of[sample]});
        }
        return state.slopes.find();
    }
    void share_out(const std::vector<uint32_t>& messages) {
        for (const uint32_t message : messages) {
            const Way* way = nullptr;
            if constexpr (with_ways) way = &state.ready_way[message];
            depart(message, state.ready[message], way);
        }
        if (own_data > 0) share(messages);
    }
    void share_in(const std::vector<uint32_t>& messages) {
        if (own_data > 0) share(messages);
    }
    void post(const Operation& operation) {
        state.posted[operation.message] = state.now[operation.place];
        if constexpr (with_ways) state.posted_way[operation.message] = state.way[operation.place];
        if (operation.settles) settle(operation.message);
    }
    void receive(const Operation& operation) {
        const MessageCost& cost = costs[operation.message];
        const Times& arrival = state.arrival[operation.message];
        std::array<int64_t, samples_together> came_last;
        if constexpr (with_ways) POLTER_COLUMN_LOOP came_last[i] = arrival.of[i] > state.now[operation.place].of[i];
        wait(operation.place, arrival);
        work(operation.place, cost.taking);
        if constexpr (with_ways) {
            Way& way = state.way[operation.place];
            choose(way, state.arrival_way[operation.message], came_last);
            add(way.works, cost.rendezvous ? 0 : 1);
            add(way.work_data, cost.work_share);
        }
    }
    void take_one(uint32_t place, uint32_t message, size_t i) {
        const MessageCost& cost = costs[message];
        const int64_t arrival = state.arrival[message].of[i];
        const bool came_last = arrival > state.now[place].of[i];
        wait_one(place, i, arrival);
        work_one(place, i, cost.taking);
        if constexpr (with_ways) {
            Way& way = state.way[place];
            const Way& from = state.arrival_way[message];
            if (came_last) {
                way.works.of[i] = from.works.of[i];
                way.hops.of[i] = from.hops.of[i];
                way.work_data.of[i] = from.work_data.of[i];
                way.hop_data.of[i] = from.hop_data.of[i];
            }
            way.works.of[i] += !cost.rendezvous;
            way.work_data.of[i] += cost.work_share;
        }
    }
    void receive_in_order(const Operation& operation) {
        for (size_t i = 0; i < samples_together; ++i) {
            arrived_in_order(
                operation.steps, [&](uint32_t message) { return state.arrival[message].of[i]; }, &state.order);
            for (const uint32_t message : state.order) take_one(operation.place, message, i);
        }
    }
    void complete(const Operation& operation) {
        const Times& arrival = state.arrival[operation.message];
        if constexpr (with_ways) {
            std::array<int64_t, samples_together> later;
            POLTER_COLUMN_LOOP later[i] = arrival.of[i] > state.now[operation.place].of[i];
            choose(state.way[operation.place], state.arrival_way[operation.message], later);
        }
        wait(operation.place, arrival);
    }
    void run(const StepProgram& program, int64_t call) {
        for (uint32_t place = 0; call > 0 && place < noisy.size(); ++place) work(place, call);
        for (const Operation& operation : program.operations) {
            switch (operation.kind) {
                case Operation::Kind::send:
                    send(operation);
                    break;
                case Operation::Kind::share_out:
                    share_out(program.sharing[operation.sharing]);
                    break;
                case Operation::Kind::share_in:
                    share_in(program.sharing[operation.sharing]);
                    break;
                case Operation::Kind::post:
                    post(operation);
                    break;
                case Operation::Kind::receive:
                    receive(operation);
                    break;
                case Operation::Kind::receive_in_order:
                    receive_in_order(operation);
                    break;
                case Operation::Kind::complete:
                    complete(operation);
                    break;
            }
        }
        for (uint32_t place = 0; link && place < noisy.size(); ++place)
            for (size_t i = 0; noisy[place] && i < samples_together; ++i)
                hit(state.now[place].of[i], state.noise[place * samples_together + i]);
    }
};

}  // namespace

bool SamplesTogether::can_follow(const std::vector<InstanceSample>& samples) {
    constexpr size_t most_members = 16;
    return std::none_of(samples.begin(), samples.end(), [&](const InstanceSample& sample) {
        return sample.sizes.known() || !sample.resume.empty() || !sample.transfers.empty() ||
               sample.enter.size() != samples.front().enter.size() || sample.enter.size() > most_members;
    });
}

SamplesTogether::SamplesTogether(const Structure& plain, const std::vector<InstanceSample>& samples)
    : samples_(samples), members_(static_cast<uint32_t>(samples.front().enter.size())) {
    const auto group_of = [&](const InstanceSample& sample) {
        const Schedule* its = &schedule(plain.pattern, members_, sample.root, plain.any_rendezvous(), sample.partition);
        size_t group = 0;
        while (group < groups_.size() && groups_[group].schedule != its) ++group;
        if (group == groups_.size()) groups_.emplace_back().schedule = its;
        return group;
    };
    std::vector<size_t> filled;  // by group: the column that is not full yet
    for (size_t s = 0; s < samples.size(); ++s) {
        const size_t group = group_of(samples[s]);
        if (group >= filled.size()) filled.push_back(SIZE_MAX);
        if (filled[group] == SIZE_MAX || columns_[filled[group]].samples.size() == samples_together) {
            filled[group] = columns_.size();
            columns_.emplace_back().group = group;
        }
        Column& column = columns_[filled[group]];
        column.samples.push_back(s);
        column.first.push_back(first_member(plain.pattern, samples[s].root));
    }
    for (Column& column : columns_) {
        column.enter.resize(members_);
        column.noise.resize(members_ * samples_together);
        column.noisy.resize(members_);
        for (size_t i = 0; i < samples_together; ++i) {
            const bool missing = i >= column.samples.size();
            const InstanceSample& sample = samples[column.samples[missing ? 0 : i]];
            for (uint32_t place = 0; place < members_; ++place) {
                const uint32_t member = (place + column.first[missing ? 0 : i]) % members_;
                column.enter[place].of[i] = sample.enter[member];
                const std::vector<NoisePiece>& noise = sample.noise[member];
                if (missing || noise.empty()) continue;
                column.noise[place * samples_together + i] = {noise.data(), noise.data() + noise.size()};
                column.noisy[place] = true;
            }
        }
    }
    find_costs(plain);
    for (Group& group : groups_) group.program = order_of_steps(*group.schedule, group.costs, plain.link);
}

void SamplesTogether::find_costs(const Structure& structure) {
    for (Group& group : groups_) {
        const std::vector<double>& shares = group.schedule->shares;
        group.costs.resize(shares.size());
        for (size_t message = 0; message < shares.size(); ++message)
            group.costs[message] =
                message > 0 && shares[message] == shares[message - 1] ? group.costs[message - 1] : MessageCost(structure, shares[message]);
    }
}

template <bool with_ways>
void SamplesTogether::follow(const Structure& structure, const Column& column) {
    const Group& group = groups_[column.group];
    const size_t messages = group.costs.size();
    state_.now = column.enter;
    state_.noise = column.noise;
    state_.arrival.resize(messages);
    const bool departs_later = structure.any_rendezvous() || structure.link;
    if (departs_later) {
        state_.ready.resize(messages);
        state_.posted.resize(messages);
    }
    if constexpr (with_ways) {
        state_.way.assign(members_, Way{});
        state_.arrival_way.resize(messages);
        if (departs_later) {
            state_.ready_way.resize(messages);
            state_.posted_way.resize(messages);
        }
    }
    Follower<with_ways>{state_, group.costs, column.noisy, structure.link, structure.own_data}.run(group.program, structure.call);
}

const std::vector<int64_t>& SamplesTogether::leaves(const Structure& structure) {
    find_costs(structure);
    leaves_.resize(samples_.size() * members_);
    for (const Column& column : columns_) {
        follow<false>(structure, column);
        for (size_t i = 0; i < column.samples.size(); ++i) {
            int64_t* of = &leaves_[column.samples[i] * members_];
            for (uint32_t place = 0, member = column.first[i]; place < members_; ++place) {
                of[member] = state_.now[place].of[i];
                if (++member == members_) member = 0;
            }
        }
    }
    return leaves_;
}

void SamplesTogether::predict(const Structure& structure, std::vector<std::vector<Prediction>>* predictions) {
    find_costs(structure);
    predictions->resize(samples_.size());
    for (const Column& column : columns_) {
        follow<true>(structure, column);
        for (size_t i = 0; i < column.samples.size(); ++i) {
            std::vector<Prediction>& of = (*predictions)[column.samples[i]];
            of.resize(members_);
            for (uint32_t place = 0; place < members_; ++place) {
                const Way& way = state_.way[place];
                of[(place + column.first[i]) % members_] = {state_.now[place].of[i], way.works.of[i], way.hops.of[i], way.work_data.of[i],
                                                            way.hop_data.of[i]};
            }
        }
    }
}

}  // namespace polter::replay
