// SPDX-License-Identifier: BSD-3-Clause
// Threads that sleep often and briefly, and threads that move often: what is booked as noise against the kernel's own run-delay and CPU
// time.
#include <sys/prctl.h>

#include <memory>

#include "support/measured.hpp"

namespace {

struct Sleeper {
    std::uint64_t sleeps = 0;
    void operator()(std::uint64_t ns) {
        for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) {
            const timespec t{0, 50'000};
            sleeps += nanosleep(&t, nullptr) == 0;
        }
    }
};

std::uint64_t noise_of(Measured& m) {
    return m.off() - m.ns[POLTER_WAKEUP];
}

}  // namespace

TEST_CASE("the kernel's way to a woken thread is no noise: with brief sleeps, alone and beside competitors") {
    Daemon daemon;
    Pinned pinned;
    // The sleeps are 50 us long and not 100 us.
    prctl(PR_SET_TIMERSLACK, 1);
    for (const std::string beside : {"nobody", "competitor", "many"}) {
        CAPTURE(beside);
        std::vector<std::unique_ptr<Competitor>> competitors;
        for (int i = 0; i < (beside == "competitor" ? 1 : beside == "many" ? 3 : 0); i++)
            competitors.push_back(std::make_unique<Competitor>("competitor", ms, beside == "many" ? 100'000 : 0));
        Session session(daemon.socket());  // after they were started: they are strangers
        const auto noise = session.open();
        REQUIRE(noise);
        Sleeper sleeper;
        Measured m = measure(noise.get(), 1000 * ms, std::ref(sleeper), [&] { return sleeper.sleeps > 2000; });
        MESSAGE(beside, ": ", sleeper.sleeps, " sleeps, noise ", noise_of(m), " run-delay ", m.delay, " to ", m.delay_around, " wakeup ",
                m.ns[POLTER_WAKEUP],
                " a sleep: ", (static_cast<double>(noise_of(m)) - static_cast<double>(m.delay)) / static_cast<double>(sleeper.sleeps));
        // What the kernel counts as waiting lies between what is noise here and that with the way to the thread.
        CHECK(noise_of(m) <= m.delay_around + m.delay_around / 200 + m.ns[POLTER_WAKEUP] / 4 + ms);
        CHECK(m.off() + ms >= m.delay - m.delay / 20);
    }
}

TEST_CASE("a thread that moves between CPUs all the time has no more noise than time that it does not run") {
    const int other = cpu == 0 ? -1 : 0;
    if (other < 0) {
        MESSAGE("SKIP: this machine has one CPU");
        return;
    }
    Daemon daemon;
    Pinned pinned;
    for (const bool rivals : {false, true}) {
        CAPTURE(rivals);
        std::unique_ptr<Competitor> competitor;
        if (rivals) competitor = std::make_unique<Competitor>("competitor", ms, ms);
        Session session(daemon.socket());  // after it was started: it is a stranger
        const auto noise = session.open();
        REQUIRE(noise);
        std::uint64_t moves = 0;
        Measured m = measure(
            noise.get(), 1000 * ms,
            [&](std::uint64_t ns) {
                for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end; moves++) pin(moves & 1 ? cpu : other);
            },
            [&] { return moves > 2000; });
        const std::uint64_t not_run = m.wall - m.cpu;
        MESSAGE(moves, " moves, off the CPU ", m.off(), ", wall - CPU ", not_run, ", run-delay ", m.delay,
                ", a move: ", (static_cast<double>(m.off()) - static_cast<double>(not_run)) / static_cast<double>(moves));
        // The kernel begins a thread's CPU time with the clock of its wake-up, where the switch does without a reading of its own: the way
        // to the thread, wakeup here, may be in either.
        const std::uint64_t not_run_around = m.wall_around - m.cpu;
        CHECK(noise_of(m) <= not_run_around + not_run_around / 1000 + ms);
    }
}
