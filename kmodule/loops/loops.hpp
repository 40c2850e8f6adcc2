// SPDX-License-Identifier: BSD-3-Clause
// Loops that show what the operating system takes from a program, from the program's own side: each detour is matched with the recorded
// noise events that lie in it, and what they do not explain is said to be unattributed, never spread. Library polter-loops.
//
//   selfish   reads the clock again and again; a reading that comes late is a detour (Beckman et al., "The influence of operating systems
//   on
//             the performance of collective operations at extreme scale", Cluster 2006)
//   fwq       the same amount of work again and again; what a quantum took beyond the shortest one is lost (fixed work quanta)
//   ftq       work for a fixed time again and again; what was not done of the best quantum's work is lost (fixed time quanta; Sottile and
//             Minnich, "Analysis of microbenchmarks for performance tuning of clusters", Cluster 2004)
//
// Times are nanoseconds of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../observation/observation.hpp"

struct polter_noise;

namespace polter::loops {

enum class Kind { fwq, ftq, selfish };

struct Options {
    Kind kind = Kind::selfish;
    double seconds = 10;
    std::uint64_t quantum_ns = 1'000'000;  // fwq: of undisturbed work, about; ftq: of time
    std::uint64_t threshold_ns =
        0;  // selfish: of a detour; the others: of a quantum that is listed; 0: nine times the loop's shortest turn
};

// A recorded noise event.
struct Event {
    std::uint64_t end_ns = 0, duration_ns = 0;
    unsigned account = 0;  // enum polter_account
    std::string culprit;
};

// Where the loop's own events come from. Used by the loop's thread.
class Recorder {
  public:
    virtual ~Recorder() = default;
    virtual std::string name() const = 0;
    // One load, or less often right: whether take() may have anything.
    virtual bool moved() = 0;
    // Appends what has ended since the last call; with `until_ns` as its end where the recorder does not know when.
    virtual void take(std::uint64_t until_ns, std::vector<Event>& events) = 0;
    virtual std::uint64_t lost() const = 0;  // events that came too fast to be taken
};
// Of a registered page, which stays the caller's.
std::unique_ptr<Recorder> page_recorder(polter_noise* page);
// Of /proc/thread-self/schedstat: how long the thread was off its CPU while runnable; not who ran, and nothing else. Null where there is
// none.
std::unique_ptr<Recorder> schedstat_recorder();
// Of nothing.
std::unique_ptr<Recorder> no_recorder();

// A detour, or a quantum.
struct Sample {
    std::uint64_t begin_ns = 0, end_ns = 0;
    std::uint64_t lost_ns = 0;       // to it
    std::uint64_t explained_ns = 0;  // of it
    std::uint64_t unattributed_ns() const { return lost_ns - explained_ns; }
    std::size_t first_event = 0, events = 0;  // in Result::events
    std::uint64_t work = 0;                   // ftq: units done
};

struct Result {
    Kind kind{};
    std::string measured_by;
    int cpu = -1;  // on which it began
    std::uint64_t begin_ns = 0, end_ns = 0;
    std::uint64_t turn_ns = 0;  // the shortest turn of the loop: what it can tell apart (fwq: the shortest quantum; ftq: a unit of work)
    std::uint64_t threshold_ns = 0;
    std::uint64_t quantum_ns = 0;
    std::uint64_t aside_ns = 0;                           // in which the loop kept its books and did not watch
    std::uint64_t aside_events = 0, aside_events_ns = 0;  // that ended in that time
    std::uint64_t below_events = 0, below_events_ns = 0;  // selfish: recorded events in turns below the threshold
    std::uint64_t beyond_ns = 0;    // recorded within samples beyond what they lost: undisturbed work is not as constant as assumed
    std::uint64_t lost_events = 0;  // by the recorder
    bool cut_short = false;         // the room for samples was used up before the time was
    std::vector<Sample> samples;    // all of them, in order of time
    std::vector<Event> events;      // that lie in them; durations as far as they lie in them
};

// Runs the loop on the calling thread, pinned by the caller or not. Ends early when node::Interrupt is requested.
Result run(const Options&, Recorder&);

struct Totals {
    std::uint64_t samples = 0, disturbed = 0;                          // disturbed: at or above the threshold
    std::uint64_t without_event = 0;                                   // of the disturbed: not one event was recorded in it
    node::Stats lost;                                                  // of the disturbed samples
    std::uint64_t lost_ns = 0, explained_ns = 0, unattributed_ns = 0;  // of all
    std::map<std::pair<unsigned, std::string>, node::Stats> events;    // by account and culprit, as far as they lie in samples
};
Totals totals_of(const Result&);

const char* name_of(Kind);

}  // namespace polter::loops
