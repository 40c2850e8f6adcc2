// SPDX-License-Identifier: BSD-3-Clause
#include "traffic.hpp"

#include <algorithm>

#include "exchange.hpp"

namespace polter::replay {
namespace {

constexpr size_t sampled_locations = 8;

struct Sample {
    const Definitions& definitions;
    std::vector<int> owner_of_rank;
    int own = 0;
    uint64_t crossing = 0;

    void sent(uint32_t comm, uint32_t receiver) {
        const auto of = definitions.communicators.find(comm);
        if (of == definitions.communicators.end()) return;
        const std::vector<int32_t>& peers = of->second.remote.empty() ? of->second.ranks : of->second.remote;
        if (receiver < peers.size()) crossing += elsewhere(peers[receiver]);
    }
    void met(uint32_t comm) {
        const auto of = definitions.communicators.find(comm);
        if (of == definitions.communicators.end()) return;
        const auto apart = [this](int32_t rank) { return elsewhere(rank); };
        crossing += std::any_of(of->second.ranks.begin(), of->second.ranks.end(), apart) ||
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

double crossing_part(Archive& archive, int processes) {
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
    std::vector<Warning> warnings;  // the replay's own reading gives them
    archive.open_events(callbacks, std::vector<void*>(owner.size(), &sample), warnings);
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    uint64_t read = 0;
    const size_t step = (owner.size() + sampled_locations - 1) / sampled_locations;
    for (size_t i = 0; i < owner.size(); i += step) {
        sample.own = owner[i];
        archive.read(i, &read);
    }
    archive.close_events();
    return read == 0 ? 0 : static_cast<double>(sample.crossing) / static_cast<double>(read);
}

}  // namespace polter::replay
