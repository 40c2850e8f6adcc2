// SPDX-License-Identifier: BSD-3-Clause
#include "noise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace polter::truth {

namespace {

// The distributions of <random> differ between libraries; the generator does not.
double uniform(std::mt19937_64& random) {
    return (static_cast<double>(random() >> 11) + 0.5) * 0x1.0p-53;
}

int64_t exponential(std::mt19937_64& random, double mean) {
    return std::llround(-mean * std::log(uniform(random)));
}

int64_t number(const std::string& text, const std::string& where) {
    size_t used = 0;
    int64_t value = 0;
    try {
        value = std::stoll(text, &used);
    } catch (const std::exception&) {
    }
    if (used == 0 || used != text.size()) throw std::invalid_argument("noise '" + where + "': '" + text + "' is not a number");
    return value;
}

}  // namespace

NoiseSource parse_noise(const std::string& text) {
    auto fail = [&](const std::string& why) { return std::invalid_argument("noise '" + text + "': " + why); };
    const size_t first = text.find(':'), second = text.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) throw fail("give NAME:ARRIVAL:KEY=VALUE,…");
    NoiseSource source;
    source.name = text.substr(0, first);
    const std::string arrival = text.substr(first + 1, second - first - 1);
    if (arrival == "periodic")
        source.arrival = Arrival::periodic;
    else if (arrival == "random")
        source.arrival = Arrival::random;
    else if (arrival == "heavy_tailed")
        source.arrival = Arrival::heavy_tailed;
    else
        throw fail("the arrival is periodic, random or heavy_tailed");
    for (size_t at = second + 1; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const std::string item = text.substr(at, end - at);
        const size_t equals = item.find('=');
        if (equals == std::string::npos) throw fail("'" + item + "' is not KEY=VALUE");
        const std::string key = item.substr(0, equals), value = item.substr(equals + 1);
        if (key == "period")
            source.period = number(value, text);
        else if (key == "duration")
            source.duration = number(value, text);
        else if (key == "rank")
            source.rank = number(value, text);
        else if (key == "culprit")
            source.culprit = value;
        else if (key == "alpha")
            source.alpha = std::atof(value.c_str());
        else
            throw fail("unknown key '" + key + "'");
        at = end + 1;
    }
    if (source.name.empty() || source.period <= 0 || source.duration <= 0 || source.duration >= source.period)
        throw fail("needs a name and 0 < duration < period");
    if (source.arrival == Arrival::heavy_tailed && !(source.alpha > 1)) throw fail("alpha must be above 1, or there is no mean");
    return source;
}

Processor::Processor(const std::vector<NoiseSource>& sources, int64_t rank, uint64_t seed, int64_t begin) {
    for (uint32_t i = 0; i < sources.size(); ++i) {
        if (sources[i].rank >= 0 && sources[i].rank != rank) continue;
        std::seed_seq key{seed, static_cast<uint64_t>(rank), static_cast<uint64_t>(i)};
        Stream stream{sources[i], i, std::mt19937_64(key), 0, 0};
        if (stream.source.arrival == Arrival::periodic)  // a random phase: nodes do not tick together
            stream.next_start = -std::llround(uniform(stream.random) * static_cast<double>(stream.source.period));
        do advance(stream);
        while (stream.next_start < 0);
        stream.next_start += begin;
        streams_.push_back(std::move(stream));
    }
}

void Processor::advance(Stream& stream) {
    const NoiseSource& source = stream.source;
    const double mean = static_cast<double>(source.duration);
    int64_t duration = 0;
    switch (source.arrival) {
        case Arrival::periodic:
            stream.next_start += source.period;
            duration = std::llround(mean * (0.8 + 0.4 * uniform(stream.random)));
            break;
        case Arrival::random:
            stream.next_start += exponential(stream.random, static_cast<double>(source.period));
            duration = exponential(stream.random, mean);
            break;
        case Arrival::heavy_tailed: {
            stream.next_start += exponential(stream.random, static_cast<double>(source.period));
            const double least = mean * (source.alpha - 1) / source.alpha;
            duration = std::llround(std::min(least * std::pow(uniform(stream.random), -1 / source.alpha), 100 * mean));
            break;
        }
    }
    stream.next_duration = std::max<int64_t>(duration, 1);
}

NoiseEvent& Processor::upcoming() {
    if (!have_upcoming_) {
        upcoming_ = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max(), 0};
        auto next = std::min_element(streams_.begin(), streams_.end(), [](auto& a, auto& b) { return a.next_start < b.next_start; });
        if (next != streams_.end()) {
            const int64_t start = std::max(next->next_start, last_end_);
            upcoming_ = {start, start + next->next_duration, next->index};
            advance(*next);
        }
        have_upcoming_ = true;
    }
    return upcoming_;
}

void Processor::pass() {
    last_end_ = upcoming_.end;
    noise_.push_back(upcoming_);
    have_upcoming_ = false;
}

int64_t Processor::finish(int64_t now, int64_t work) {
    for (;;) {
        const NoiseEvent& event = upcoming();
        if (event.start <= now) {  // what ended before hit while the rank waited, and cost it nothing
            now = std::max(now, event.end);
        } else if (event.start < now + work) {
            work -= event.start - now;
            now = event.end;
        } else {
            return now + work;
        }
        pass();
    }
}

}  // namespace polter::truth
