// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>

#include "exchange.hpp"

namespace polter::replay {
namespace {

constexpr size_t sampled_locations = 8;

struct Sample {
    const Definitions& definitions;
    std::vector<int> owner_of_rank;
    int own = 0;
    uint64_t messages = 0, collectives = 0;

    void sent(uint32_t comm, uint32_t receiver) {
        const auto of = definitions.communicators.find(comm);
        if (of == definitions.communicators.end()) return;
        const std::vector<int32_t>& peers = of->second.remote.empty() ? of->second.ranks : of->second.remote;
        if (receiver < peers.size()) messages += elsewhere(peers[receiver]);
    }
    void met(uint32_t comm) {
        const auto of = definitions.communicators.find(comm);
        if (of == definitions.communicators.end()) return;
        const auto apart = [this](int32_t rank) { return elsewhere(rank); };
        collectives += std::any_of(of->second.ranks.begin(), of->second.ranks.end(), apart) ||
                       std::any_of(of->second.remote.begin(), of->second.remote.end(), apart);
    }

  private:
    bool elsewhere(int32_t rank) const {
        return rank >= 0 && static_cast<size_t>(rank) < owner_of_rank.size() && owner_of_rank[static_cast<size_t>(rank)] != own;
    }
};

Sample& sample_of(void* user) {
    return *static_cast<Sample*>(user);
}

OTF2_CallbackCode send(OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void* user, OTF2_AttributeList*, uint32_t receiver, OTF2_CommRef comm,
                       uint32_t, uint64_t) {
    sample_of(user).sent(comm, receiver);
    return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode isend(OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void* user, OTF2_AttributeList*, uint32_t receiver, OTF2_CommRef comm,
                        uint32_t, uint64_t, uint64_t) {
    sample_of(user).sent(comm, receiver);
    return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode collective(OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void* user, OTF2_AttributeList*, OTF2_CollectiveOp,
                             OTF2_CommRef comm, uint32_t, uint64_t, uint64_t) {
    sample_of(user).met(comm);
    return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode requested(OTF2_LocationRef, OTF2_TimeStamp, uint64_t, void* user, OTF2_AttributeList*, OTF2_CollectiveOp,
                            OTF2_CommRef comm, uint32_t, uint64_t, uint64_t, uint64_t) {
    sample_of(user).met(comm);
    return OTF2_CALLBACK_SUCCESS;
}

}  // namespace

Traffic crossing_traffic(Archive& archive, int processes) {
    const Definitions& definitions = archive.definitions();
    const std::vector<int> owner = spread(archive, processes);
    Sample sample{.definitions = definitions, .owner_of_rank = std::vector<int>(static_cast<size_t>(std::max(definitions.ranks, 0)), 0)};
    for (size_t i = 0; i < owner.size(); ++i)
        if (definitions.locations[i].rank >= 0) sample.owner_of_rank[static_cast<size_t>(definitions.locations[i].rank)] = owner[i];
    OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
    OTF2_EvtReaderCallbacks_SetMpiSendCallback(callbacks, send);
    OTF2_EvtReaderCallbacks_SetMpiIsendCallback(callbacks, isend);
    OTF2_EvtReaderCallbacks_SetMpiCollectiveEndCallback(callbacks, collective);
    OTF2_EvtReaderCallbacks_SetNonBlockingCollectiveCompleteCallback(callbacks, requested);
    const size_t step = (owner.size() + sampled_locations - 1) / sampled_locations;
    std::vector<bool> sampled(owner.size(), false);
    for (size_t i = 0; i < owner.size(); i += step) sampled[i] = true;
    archive.open_events(callbacks, std::vector<void*>(owner.size(), &sample), sampled);  // what does not open, the replay tells
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    uint64_t read = 0;
    for (size_t i = 0; i < owner.size(); i += step) {
        sample.own = owner[i];
        archive.read(i, &read);
    }
    archive.close_events();
    const double all = static_cast<double>(std::max<uint64_t>(read, 1));
    return {static_cast<double>(sample.messages) / all, static_cast<double>(sample.collectives) / all,
            std::max(1.0, static_cast<double>(definitions.ranks) / processes)};
}

// Measured with two processes on 2 to 1024 ranks. In units of the time that reading one record takes: `told` for each record that crosses;
// `awaited` where the process has no other rank to go on with. What takes as long however many processes there are: `undivided`.
double expected_part(const Traffic& traffic, int processes, double at_once) {
    constexpr double undivided = 0.02;
    struct Price {
        double told, awaited;
    };
    constexpr Price message{1.5, 14}, arrival{1.2, 4};
    const auto costs = [&](const Price& price) { return price.told + price.awaited / traffic.ranks; };
    const double pairs = 2.0 / processes;  // a message concerns two processes, an arrival at a collective all
    return 1 / at_once + undivided + pairs * traffic.messages * costs(message) + traffic.collectives * costs(arrival);
}

namespace {

// Threads on this host that run or could run now; −1: not known.
int runnable_now() {
    int runnable = -1;
    if (std::FILE* file = std::fopen("/proc/loadavg", "re")) {
        if (std::fscanf(file, "%*f %*f %*f %d", &runnable) != 1) runnable = -1;
        std::fclose(file);
    }
    return runnable;
}

}  // namespace

double free_cores(double cores, double ours) {
    double others = cores;  // the least of some looks: what runs only now and then is no load
    for (int look = 0; look < 5; ++look) {
        others = std::min(others, std::max(0.0, runnable_now() - ours));
        usleep(1000);
    }
    return std::max(1.0, cores - others);
}

double processes_at_once(Group& group) {
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, HOST_NAME_MAX);
    Bytes name;
    name.put(std::string(host));
    double here = 0, all = 0;
    for (const Bytes& one : group.gather(name)) {
        std::string other;
        Input(one).get(other);
        here += other == host;
        ++all;
    }
    if (group.rank() > 0) return all;
    const auto cores = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));  // launchers may bind each process to one
    return all * std::clamp(free_cores(cores, here) / here, 1 / here, 1.0);
}

}  // namespace polter::replay
