// SPDX-License-Identifier: BSD-3-Clause
// Threads that sleep often and briefly, and threads that move often: what is booked as noise against the kernel's own run-delay and CPU
// time.
#include <sys/prctl.h>

#include <memory>

#include "measured.hpp"

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
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    // The sleeps are 50 us long and not 100 us.
    prctl(PR_SET_TIMERSLACK, 1);
    for (const std::string beside : {"nobody", "competitor", "many"}) {
        CAPTURE(beside);
        std::vector<std::unique_ptr<Competitor>> competitors;
        for (int i = 0; i < (beside == "competitor" ? 1 : beside == "many" ? 3 : 0); i++)
            competitors.push_back(std::make_unique<Competitor>("competitor", ms, beside == "many" ? 100'000 : 0));
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
