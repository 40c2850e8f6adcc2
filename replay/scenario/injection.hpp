// SPDX-License-Identifier: BSD-3-Clause
// Injected noise: which noise hits which rank when, in a timeline without it.
//
// Noise takes a rank's CPU at times of the new timeline, whatever the program does then. It prolongs work; in a wait state it costs only
// what lasts beyond it. Overlapping events are served one after the other, like pending interrupts. Times are nanoseconds since the trace's
// first event.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polter::replay {

struct InjectedEvent {
    int64_t begin = 0, duration = 0;
};

struct InjectedSource {
    enum class Arrival : uint8_t {
        events,    // a list of events
        periodic,  // at phase + k · period, always of the same duration
        random,    // exponential gaps and durations, with means `period` and `duration`
    };
    std::string name;
    Arrival arrival = Arrival::events;
    std::vector<int32_t> ranks;  // sorted; empty: all; not for listed events
    int64_t period = 0, duration = 0;
    int64_t phase = -1;  // −1: each rank draws its own
    uint64_t seed = 1;
    std::map<int32_t, std::vector<InjectedEvent>> events;  // by rank, in order

    bool hits(int32_t rank) const;
};

// Reads and checks a file of schema polter.inject/1 (README.md). Throws InputError: what, where in it, what is wanted.
std::vector<InjectedSource> read_injected_noise(const std::string& path);
// Checks against the trace. Throws InputError.
void check_injected_noise(const std::vector<InjectedSource>& sources, const std::string& path, int32_t ranks);

// The CPU of one rank under some of the sources. Its time only moves forward. Its noise does not depend on what it is asked, so copies give
// the same answers.
class InjectedClock {
  public:
    // `sources`: must outlive it. `which`: bit set of sources. `begin`: begin of the trace, in the clock's time.
    InjectedClock(const std::vector<InjectedSource>& sources, uint64_t which, int32_t rank, int64_t begin);

    // The end of `work` ns of work that begins at `now`. With work 0: the end of the event during which `now` is, if any.
    int64_t finish(int64_t now, int64_t work);
    // Forgets events that ended before this time: no query will need them.
    void skip(int64_t now);
    // Noise that has hit by then, by source, in work and in wait states.
    const std::vector<int64_t>& noise_ns() const { return noise_ns_; }
    void set_noise_ns(const std::vector<int64_t>& by_source) { noise_ns_ = by_source; }

  private:
    struct Stream {
        const InjectedSource* source;
        size_t index;
        uint64_t number = 0;  // of the next event
        int64_t begin = 0, duration = 0;
    };
    void advance(Stream&) const;
    bool have_upcoming();
    void serve();  // the next event is over

    int32_t rank_;
    int64_t origin_, last_end_ = INT64_MIN / 4;
    std::vector<Stream> streams_;
    InjectedEvent upcoming_;
    size_t upcoming_source_ = 0;
    bool known_ = false;
    std::vector<int64_t> noise_ns_;
};

// All ranks in all lanes.
class Injection {
  public:
    // `sets`: by lane, the sources that hit there.
    Injection(const std::vector<InjectedSource>& sources, const std::vector<uint64_t>& sets, int32_t ranks, int64_t begin);

    bool hits(size_t lane) const { return sets_[lane] != 0; }
    // Copies of the rank's clocks by lane, set to `time − delay`, for later queries or other processes.
    // `mirror`: another process reads the rank, so its clocks here advance by this call alone.
    std::vector<InjectedClock> copies(int32_t rank, int64_t time, const int64_t* delay, bool mirror);
    InjectedClock& clock(int32_t rank, size_t lane) { return clocks_[static_cast<size_t>(rank) * sets_.size() + lane]; }
    const InjectedClock& clock(int32_t rank, size_t lane) const { return clocks_[static_cast<size_t>(rank) * sets_.size() + lane]; }

    // The rank works from `from` to `to` (measured); `delay` at `from` becomes that at `to`, in every lane.
    void work(int32_t rank, int64_t from, int64_t to, int64_t* delay);
    // The same for part of a call that has not been concluded yet: the clocks do not advance.
    void look_ahead(int32_t rank, int64_t from, int64_t to, int64_t* delay) const;

  private:
    std::vector<uint64_t> sets_;
    std::vector<InjectedClock> clocks_;
};

}  // namespace polter::replay
