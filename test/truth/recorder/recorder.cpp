// SPDX-License-Identifier: BSD-3-Clause
#include "recorder.hpp"

#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/smpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "archive.hpp"

namespace polter::truth {

namespace {

struct State {
    Settings settings;
    bool configured = false;
    Recording recording;
    std::unordered_map<aid_t, std::unique_ptr<Rank>> ranks;  // by actor
    std::map<std::tuple<uint32_t, uint32_t, std::vector<uint64_t>>, uint32_t> communicators;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> windows;  // communicator, ordinal → id
    size_t ended = 0;
};

State& state() {
    static State the;
    return the;
}

int64_t now() {
    return std::llround(simgrid_get_clock() * 1e9);
}

void sleep_until(int64_t time) {
    const double seconds = static_cast<double>(time) * 1e-9 - simgrid_get_clock();
    if (seconds > 0) sg_actor_sleep_for(seconds);
}

void work(Rank& rank, int64_t ns) {
    sleep_until(rank.processor.finish(now(), ns));
}

// What a message costs the processor at one end. SMPI calls it in the context of the rank, just before it hands a message to the
// network and just after a receive has its data, inside collectives too; and lets the rank sleep for the result. So a rank that is
// being delayed can neither send nor go on, wherever inside MPI it is, while messages under way are not delayed with it.
double message_cost(size_t bytes) {
    const auto found = state().ranks.find(sg_actor_self_get_pid());
    if (found == state().ranks.end()) return 0;
    const Settings& settings = state().settings;
    const int64_t cost = settings.message_overhead_ns + std::llround(settings.byte_overhead_ns * static_cast<double>(bytes));
    return static_cast<double>(found->second->processor.finish(now(), cost)) * 1e-9 - simgrid_get_clock();
}

}  // namespace

void configure(const Settings& settings) {
    State& s = state();
    if (s.configured) return;
    s.configured = true;
    s.settings = settings;
    s.recording.command = settings.command;
    s.recording.sources = settings.noise;
    if (settings.instructions_per_ns > 0) s.recording.counter = "PAPI_TOT_INS";
    s.recording.communicators = {{"MPI_COMM_WORLD", 0, {}}, {"MPI_COMM_SELF", 0, {}}};
    for (SmpiOperation end : {SmpiOperation::SEND, SmpiOperation::ISEND, SmpiOperation::RECV})
        smpi_register_op_cost_callback(end, [](size_t bytes, simgrid::s4u::Host*, simgrid::s4u::Host*) { return message_cost(bytes); });
}

void compute(int64_t ns) {
    Rank& rank = rank_here();
    work(rank, ns);
    const double per_ns = state().settings.instructions_per_ns;
    if (per_ns <= 0) return;
    // As real counters, within 1 % of the truth.
    const double spread = 0.99 + 0.02 * draw(static_cast<uint64_t>(rank.world), rank.calls, 0x696e73);
    rank.instructions += per_ns * static_cast<double>(ns) * spread;
    Event event;
    event.time = now();
    event.kind = Kind::counter;
    event.bytes = static_cast<uint64_t>(rank.instructions);
    rank.recorded->events.push_back(event);
}

double draw(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t x = state().settings.seed;
    for (uint64_t key : {a, b, c}) {  // splitmix64's finaliser, applied key by key
        x += key + 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return static_cast<double>(x >> 11) * 0x1.0p-53;
}

Rank& rank_here() {
    return *state().ranks.at(sg_actor_self_get_pid());
}

// Gives the time at which all of them begin.
static int64_t set_up() {
    int value = 0, sum = 0;
    PMPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    PMPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    PMPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    int64_t here = now(), last = 0;
    PMPI_Allreduce(&here, &last, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    const int64_t begin = last + 1'000'000'000;  // longer than that reduction takes
    sleep_until(begin);
    return begin;
}

void rank_begins() {
    State& s = state();
    int rank = 0, size = 0;
    const int64_t begin = s.settings.cold ? 0 : set_up();
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    if (s.recording.ranks.empty()) {
        s.recording.ranks.resize(size);
        for (int i = 0; i < size; ++i) s.recording.communicators[0].members.push_back(i);
    }
    auto made = std::make_unique<Rank>();
    made->world = rank;
    if (!s.settings.quiet) made->processor = Processor(s.settings.noise, rank, s.settings.seed, begin);
    made->recorded = &s.recording.ranks[rank];
    made->recorded->host = sg_host_get_name(sg_host_self());
    made->communicators[MPI_COMM_WORLD] = 0;
    made->communicators[MPI_COMM_SELF] = 1;
    s.ranks[sg_actor_self_get_pid()] = std::move(made);
}

static void write_archives(const State& s) {
    for (const auto& [directory, detail] : {std::pair{s.settings.detailed, Detail::events}, {s.settings.counters, Detail::counters}}) {
        if (directory.empty()) continue;
        write_archive(s.recording, directory, detail, Habit::none);
        for (const std::string& habit : s.settings.habits) write_archive(s.recording, directory + "-" + habit, detail, habit_of(habit));
    }
}

void rank_ends() {
    State& s = state();
    Rank& rank = rank_here();
    rank.recorded->noise = rank.processor.noise();
    if (++s.ended < s.recording.ranks.size()) return;
    try {
        write_archives(s);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "truth: %s\n", error.what());
        std::_Exit(1);
    }
    int64_t last = 0;
    uint64_t events = 0;
    for (const Recording::Rank& each : s.recording.ranks) {
        last = std::max(last, each.events.back().time);
        events += each.events.size();
    }
    std::printf("{\"runtime_ns\": %lld, \"events\": %llu, \"noise_ns\": [",
                static_cast<long long>(last - s.recording.ranks[0].events[0].time), static_cast<unsigned long long>(events));
    for (const Recording::Rank& each : s.recording.ranks) {
        int64_t sum = 0;
        for (const NoiseEvent& noise : each.noise) sum += noise.end <= each.events.back().time ? noise.duration() : 0;
        std::printf("%s%lld", &each == &s.recording.ranks[0] ? "" : ", ", static_cast<long long>(sum));
    }
    std::printf("]}\n");
    std::fflush(stdout);
}

uint32_t comm_id(Rank& rank, MPI_Comm comm) {
    return rank.communicators.at(comm);
}

void comm_created(Rank& rank, MPI_Comm parent, MPI_Comm made) {
    State& s = state();
    const uint32_t parent_id = comm_id(rank, parent);
    const uint32_t ordinal = rank.creations[parent_id]++;
    if (made == MPI_COMM_NULL) return;
    MPI_Group group, world;
    int size = 0;
    PMPI_Comm_group(made, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_size(group, &size);
    std::vector<int> own(size), global(size);
    for (int i = 0; i < size; ++i) own[i] = i;
    PMPI_Group_translate_ranks(group, size, own.data(), world, global.data());
    std::vector<uint64_t> members(global.begin(), global.end());
    const auto [place, is_new] = s.communicators.try_emplace({parent_id, ordinal, members}, s.recording.communicators.size());
    if (is_new) s.recording.communicators.push_back({"", parent_id, members});
    rank.communicators[made] = place->second;
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
}

uint32_t window_created(Rank& rank, MPI_Comm comm) {
    State& s = state();
    const uint32_t id = comm_id(rank, comm);
    const auto [place, is_new] = s.windows.try_emplace({id, rank.window_creations[id]++}, s.recording.windows.size());
    if (is_new) s.recording.windows.push_back(id);
    return place->second;
}

Call::Call(Region region) : rank_(rank_here()), region_(region), enter_(now()) {
    Event event;
    event.time = enter_;
    event.kind = Kind::enter;
    event.region = static_cast<uint32_t>(region);
    rank_.recorded->events.push_back(event);
    work(rank_, state().settings.call_overhead_ns);
}

// max(0, N(mean, sigma)) with the probability; depends on the seeds, the rank and how many calls it has made.
static int64_t delay_of(const Rank& rank) {
    const Settings::Delay& delay = state().settings.delay;
    const auto who = static_cast<uint64_t>(rank.world) + 0x64656c;
    if (state().settings.quiet || delay.probability <= 0 || draw(who, rank.calls, 3 * delay.seed) >= delay.probability) return 0;
    const double normal = std::sqrt(-2 * std::log(1 - draw(who, rank.calls, 3 * delay.seed + 1))) *
                          std::cos(6.283185307179586 * draw(who, rank.calls, 3 * delay.seed + 2));
    return std::max<int64_t>(0, delay.mean_ns + std::llround(static_cast<double>(delay.sigma_ns) * normal));
}

void Call::ended() {
    ++rank_.calls;
    if (const int64_t delay = delay_of(rank_); delay > 0) sleep_until(now() + delay);
    work(rank_, 0);
    leave_ = now();
}

void Call::began(Event event) {
    event.time = enter_;
    rank_.recorded->events.push_back(event);
}

void Call::completed(Event event) {
    event.time = leave_;
    rank_.recorded->events.push_back(event);
}

void Call::found(Event event) {
    last_ = event;
    last_.found = true;
}

void Call::completed(MPI_Request request, const MPI_Status& status) {
    const auto found = rank_.pending.find(request);
    if (found == rank_.pending.end()) return;  // of a null process, or null
    const Pending pending = found->second;
    rank_.pending.erase(found);
    Event event = pending.completion;
    event.request = pending.id;
    switch (pending.what) {
        case Pending::What::send:
            event.kind = Kind::mpi_isend_complete;
            break;
        case Pending::What::collective:
            event.kind = Kind::nonblocking_collective_complete;
            break;
        case Pending::What::transfer:
            event.kind = Kind::rma_request_complete;
            break;
        case Pending::What::receive: {
            int bytes = 0;
            PMPI_Get_count(&status, MPI_BYTE, &bytes);
            event.kind = Kind::mpi_irecv;
            event.peer = status.MPI_SOURCE;
            event.tag = status.MPI_TAG;
            event.comm = comm_id(rank_, pending.comm);
            event.bytes = bytes;
            break;
        }
    }
    completed(event);
}

Call::~Call() {
    if (leave_ < 0) ended();
    Event event = last_;
    event.time = leave_;
    event.kind = Kind::leave;
    event.region = static_cast<uint32_t>(region_);
    rank_.recorded->events.push_back(event);
}

}  // namespace polter::truth
