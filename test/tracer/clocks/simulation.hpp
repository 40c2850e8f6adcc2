// SPDX-License-Identifier: BSD-3-Clause
// Two clocks and messages between them whose truth is known. Shared by the test and the benchmark.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "../../../tracer/clocks/fit.hpp"
#include "../../../tracer/clocks/narrowing.hpp"

namespace polter::clocks {

struct Setup {
    double seconds = 10;
    double rate = 0;                // of the own clock against the reference
    double bend = 0;                // change of the rate per second, to and fro
    bool pings = true;              // at each end, as many as the tracer makes
    int messages = 0;               // in between, as many in each direction
    double latency_ns = 12'000;     // the least of one way
    double ping_jitter_ns = 3'000;  // mean of what comes on top, exponential
    double message_jitter_ns = 40'000;
    double step_at = -1, step_ns = 0;  // of the own clock, at that part of the run
};

class Simulation {
  public:
    Simulation(const Setup& setup, uint64_t seed) : setup_(setup), draw_(seed) {
        std::uniform_int_distribution<int64_t> start(0, 1'000'000'000'000'000);
        own_start_ = start(draw_);
        reference_start_ = start(draw_);
        phase_ = 6.283185307179586 * unit();
    }

    int64_t length_ns() const { return static_cast<int64_t>(setup_.seconds * 1e9); }
    // Both clocks by the time since the beginning.
    int64_t reference(int64_t at) const { return reference_start_ + at; }
    int64_t own(int64_t at) const {
        const double seconds = static_cast<double>(at) * 1e-9, turn = 6.283185307179586 / std::max(1.0, setup_.seconds / 2);
        // Its second derivative is at most `bend`.
        const double wander = 1e9 * setup_.bend / (turn * turn) * (std::sin(turn * seconds + phase_) - std::sin(phase_));
        const double step =
            setup_.step_at >= 0 && static_cast<double>(at) > setup_.step_at * static_cast<double>(length_ns()) ? setup_.step_ns : 0;
        return own_start_ + at + std::llround(setup_.rate * static_cast<double>(at) + wander + step);
    }

    struct Ping {
        int64_t sent, there, back;  // by the own clock, by the reference, by the own clock
    };
    // One begun at `at`, which is moved to its end.
    Ping ping(int64_t& at) {
        Ping out{};
        out.sent = own(at);
        at += delay(setup_.ping_jitter_ns);
        out.there = reference(at);
        at += 300 + delay(setup_.ping_jitter_ns);  // the answer is on its way a little later than the stamp
        out.back = own(at);
        at += 500;
        return out;
    }
    struct Message {
        int64_t sent, received;
        bool to_reference;
    };
    Message message(int64_t at, bool to_reference) {
        const int64_t later = at + delay(setup_.message_jitter_ns);
        return to_reference ? Message{own(at), reference(later), true} : Message{reference(at), own(later), false};
    }

    // What one run gives: exchanges at both ends, messages in between.
    void run() {
        int64_t at = 0;
        begin_used = pings(at, begin);
        for (int i = 0; i < 2 * setup_.messages; ++i)
            messages.push_back(message(at + static_cast<int64_t>(unit() * static_cast<double>(length_ns() - at)), i % 2));
        at = length_ns();
        end_used = pings(at, end);
        over = at;
    }
    Constraints constraints() const {
        Constraints out(own(0), own(over));
        for (const auto& [pings, used] : {std::pair{&begin, begin_used}, {&end, end_used}}) {
            for (size_t i = 0; i < used; ++i) {
                out.to_reference((*pings)[i].sent, (*pings)[i].there);
                out.from_reference((*pings)[i].there, (*pings)[i].back);
            }
        }
        for (const Message& one : messages)
            one.to_reference ? out.to_reference(one.sent, one.received) : out.from_reference(one.sent, one.received);
        return out;
    }
    Correction corrected() const { return fit(constraints(), own(0), own(over)); }
    // How many messages are received before they are sent.
    int reversed(const Correction& correction) const {
        int count = 0;
        for (const Message& one : messages) {
            const int64_t sent = one.to_reference ? one.sent + correction.at(one.sent) : one.sent;
            const int64_t received = one.to_reference ? one.received : one.received + correction.at(one.received);
            count += received < sent;
        }
        return count;
    }
    int64_t error(const Correction& correction, int64_t at) const { return own(at) + correction.at(own(at)) - reference(at); }
    // Score-P's rule: of the first ten at each end the quickest, its middle; a straight line between.
    int64_t rival_error(int64_t at) const {
        const auto anchor = [](const std::vector<Ping>& pings, double& time, double& offset) {
            const Ping* best = &pings.front();
            for (size_t i = 0; i < pings.size() && i < 10; ++i)
                if (pings[i].back - pings[i].sent < best->back - best->sent) best = &pings[i];
            time = static_cast<double>(best->sent) + static_cast<double>(best->back - best->sent) / 2;
            offset = static_cast<double>(best->there) - time;
        };
        double t0, o0, t1, o1;
        anchor(begin, t0, o0);
        anchor(end, t1, o1);
        const double time = static_cast<double>(own(at));
        return std::llround(static_cast<double>(own(at) - reference(at)) + o0 + (o1 - o0) * (time - t0) / (t1 - t0));
    }
    int64_t least_rtt() const {
        int64_t least = INT64_MAX;
        for (const auto* pings : {&begin, &end})
            for (const Ping& one : *pings) least = std::min(least, one.back - one.sent);
        return least;
    }
    double unit() { return std::uniform_real_distribution<double>(0, 1)(draw_); }

    std::vector<Ping> begin, end;         // at least those ten that the rival's rule takes
    size_t begin_used = 0, end_used = 0;  // of these, by the tracer
    std::vector<Message> messages;
    int64_t over = 0;

  private:
    // How many the tracer takes.
    size_t pings(int64_t& at, std::vector<Ping>& out) {
        if (!setup_.pings) return 0;
        Narrowing interval;
        size_t used = 0;
        while (!interval.enough()) {
            out.push_back(ping(at));
            interval.add(out.back().sent, out.back().there, out.back().back);
            ++used;
        }
        while (out.size() < 10) out.push_back(ping(at));
        return used;
    }
    int64_t delay(double jitter) {
        return static_cast<int64_t>(setup_.latency_ns + std::exponential_distribution<double>(1 / jitter)(draw_));
    }

    Setup setup_;
    std::mt19937_64 draw_;
    int64_t own_start_ = 0, reference_start_ = 0;
    double phase_ = 0;
};

}  // namespace polter::clocks
