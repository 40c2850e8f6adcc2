// SPDX-License-Identifier: BSD-3-Clause
#include "passes.hpp"

#include <memory>

#include "replay/engine/reading/decoder.hpp"
#include "replay/engine/reading/kept_events.hpp"
#include "replay/engine/reading/otf2_events.hpp"
#include "replay/parallel/exchange.hpp"
#include "replay/parallel/results.hpp"

namespace polter::replay {

using Callbacks = std::unique_ptr<OTF2_EvtReaderCallbacks, decltype(&OTF2_EvtReaderCallbacks_Delete)>;

void run_pass(Archive& archive, Engine& engine, Group* group, const DecodingSteps* ahead) {
    const Callbacks callbacks(event_callbacks(), OTF2_EvtReaderCallbacks_Delete);
    if (group) engine.join(std::make_unique<Exchange>(engine, *group));
    std::vector<void*> user_data;
    std::vector<bool> own;
    for (const auto& thread : engine.threads()) {
        user_data.push_back(thread.get());
        own.push_back(!thread->remote);
    }
    KeptEvents* kept = engine.facts().kept.get();
    const bool shared = kept && kept->begin_pass(archive, own, engine.faults().lose_at_limit ? 1 : 0, ahead && !group);
    std::vector<Thread*> read_here;
    for (const auto& thread : engine.threads()) {
        if (!kept || thread->remote) continue;
        thread->kept = kept->location(thread->index);
        read_here.push_back(thread.get());
    }
    const std::unique_ptr<Decoder> decoder = shared ? Decoder::start(archive, read_here, *ahead) : nullptr;
    // What does not open is the same in each pass, so a further one opens only what it needs.
    Archive::Opened opened;
    if (kept && kept->opened(own)) {
        opened = *kept->opened(own);
        for (const auto& thread : engine.threads())
            if (thread->kept && thread->kept->complete()) own[thread->index] = false;
        archive.open_events(callbacks.get(), user_data, own);
    } else {
        opened = archive.open_events(callbacks.get(), user_data, own);
        if (kept) kept->set_opened(opened);
    }
    archive.judge(group ? gather_opened(*group, opened) : opened, engine.warnings());
    engine.run();
    archive.close_events();
    if (group) gather_results(*group, engine);
}

}  // namespace polter::replay
