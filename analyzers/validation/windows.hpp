// SPDX-License-Identifier: BSD-3-Clause
// Two runs of one program, each injected in windows in which the other is quiet: where both are at the same point of the program, and which
// pieces of it the one did with noise and the other without.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzers/inject/log.hpp"

namespace polter::validation {

// A call of a rank's MPI thread: a point of the program that both runs come to. Polls are none, as their number is chance.
struct Call {
    int64_t time = 0;  // of entering it, since the trace's first event
    std::string name;
    bool collective = false;
    uint64_t sent = 0;  // bytes of its messages
    // The program's own work between this call and the next.
    int64_t left = 0;      // its begin: the end of this call
    int64_t noise_ns = 0;  // recorded in it
    uint32_t events = 0;   // of the injector, in it
    uint32_t timers = 0;   // timer interrupts in it
    bool polled = false;   // it has a poll inside, so it is no work alone
};
std::vector<std::vector<Call>> calls_of(const std::string& trace);  // by rank, after MPI_Init; throws replay::InputError

// Calls that are the same point in both runs: indices. Collectives are aligned by their names. Behind an aligned collective, calls are the
// same point where both runs come to the same call after the same calls with the same bytes, in whatever order: programs that serve the
// message that has come, as RandomAccess does, make theirs in another order in each run. `same`: from this point to the next, both runs
// make the same calls, so that their work is the same.
struct Point {
    size_t first = 0, second = 0;
    bool same = true;
};
std::vector<Point> common_points(const std::vector<Call>& first, const std::vector<Call>& second);

// When a run had noise, by its log; times since the trace's first event.
class Windows {
  public:
    explicit Windows(const inject::Log&);  // throws inject::Error where its specification has no on= and off=
    Windows(int64_t begin, int64_t on, int64_t off) : begin_(begin), on_(on), off_(off) {}
    struct Place {
        int64_t number;  // even: with noise; −1: before the first
        int64_t since;   // its begin
        bool noise() const { return number >= 0 && number % 2 == 0; }
    };
    Place at(int64_t time) const;
    int64_t length() const { return on_ < off_ ? on_ : off_; }  // of the shorter
    double part() const { return static_cast<double>(on_) / static_cast<double>(on_ + off_); }

  private:
    int64_t begin_, on_, off_;
};

// From points[index] to the next: the work is the same, one run had noise all the time and the other none. What noise leaves behind when it
// ends is left out: the beginning of each window.
struct Piece {
    size_t index = 0;
    bool first_noisy = false;
};
std::vector<Piece> pieces_of(const std::vector<Point>&, const std::vector<Call>& first, const Windows& first_windows,
                             const std::vector<Call>& second, const Windows& second_windows);

}  // namespace polter::validation
