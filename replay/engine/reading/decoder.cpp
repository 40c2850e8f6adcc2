// SPDX-License-Identifier: BSD-3-Clause
#include "decoder.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <queue>
#include <utility>

#include "otf2_events.hpp"
#include "replay/engine/engine.hpp"
#include "replay/trace/otf2_watchdog.hpp"

namespace polter::replay {

namespace {

constexpr int busy_waits = 64, waits_to_look = 256;
constexpr double patience_s = 5;  // for one call of OTF2

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// In the order in which the first pass reads: always the location that has come least far in time.
void decode(Archive& archive, const std::vector<Thread*>& threads, const DecodingSteps& wanted, DecodedAhead* ahead,
            std::atomic<uint64_t>& steps) {
    std::vector<void*> user_data(archive.definitions().locations.size(), nullptr);
    std::vector<bool> own(user_data.size(), false);
    for (Thread* thread : threads) {
        user_data[thread->index] = thread;
        own[thread->index] = true;
    }
    OTF2_EvtReaderCallbacks* callbacks = decoding_callbacks();
    archive.open_events(callbacks, user_data, own);
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    using Next = std::pair<uint64_t, size_t>;
    std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
    for (size_t i = 0; i < threads.size(); ++i) next.emplace(0, i);
    for (uint64_t step = 0; !next.empty(); ++step) {
        if (step == wanted.most) _exit(1);
        const size_t i = next.top().second;
        next.pop();
        Thread& thread = *threads[i];
        const Archive::Progress progress = archive.read(thread.index, &thread.events, wanted.records);
        steps.store(step + 1, std::memory_order_relaxed);
        const bool ended = progress == Archive::Progress::ended, broken = thread.events > thread.most_events;
        const bool whole = ended && !broken && thread.events >= archive.definitions().locations[thread.index].declared_events;
        if (whole) thread.kept->close(thread.events);
        thread.kept->tell(ahead[i], ended || broken);
        if (!ended && !broken && thread.kept->keeping()) next.emplace(thread.kept->last_ticks(), i);
    }
}

}  // namespace

std::unique_ptr<Decoder> Decoder::start(Archive& archive, const std::vector<Thread*>& threads, const DecodingSteps& steps) {
    std::unique_ptr<Decoder> decoder(new Decoder());
    decoder->shared_ = Pages(sizeof(std::atomic<uint64_t>) + threads.size() * sizeof(DecodedAhead), true);
    if (!decoder->shared_.begin()) return nullptr;
    decoder->steps_ = new (decoder->shared_.begin()) std::atomic<uint64_t>();
    auto* ahead = reinterpret_cast<DecodedAhead*>(decoder->steps_ + 1);
    for (size_t i = 0; i < threads.size(); ++i) new (ahead + i) DecodedAhead();
    std::fflush(nullptr);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) return nullptr;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        watch = nullptr;  // that tells where the parent is
        try {
            decode(archive, threads, steps, ahead, *decoder->steps_);
        } catch (const std::exception&) {  // the parent finds it, too
            _exit(1);
        }
        _exit(0);
    }
    decoder->child_ = child;
    decoder->lost_is_whole_ = !threads.empty() && threads.front()->engine->faults().lost_is_whole;
    decoder->since_s_ = now_s();
    for (size_t i = 0; i < threads.size(); ++i) threads[i]->kept->follow(*decoder, ahead[i]);
    return decoder;
}

Decoder::~Decoder() {
    end();
}

void Decoder::end() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
}

void Decoder::wait(int waited) {
    if (waited < busy_waits) {
        sched_yield();
        return;
    }
    usleep(20);
    if (waited % waits_to_look != 0) return;
    // It may have told all and ended: whoever waits looks again before it believes that nothing more comes.
    if (waitpid(child_, nullptr, WNOHANG) == child_) child_ = 0;
    const uint64_t steps = steps_->load(std::memory_order_relaxed);
    if (steps != steps_seen_) {
        steps_seen_ = steps;
        since_s_ = now_s();
    } else if (now_s() - since_s_ > patience_s) {
        end();
    }
}

}  // namespace polter::replay
