// SPDX-License-Identifier: BSD-3-Clause
#include "remaining_noise.hpp"

#include <algorithm>
#include <iterator>

namespace polter::replay {

namespace {

using Pieces = std::vector<ClaimedPiece>;

int64_t length(const Pieces& pieces, bool stays) {
    int64_t sum = 0;
    for (const ClaimedPiece& piece : pieces)
        if (piece.stays == stays) sum += piece.end - piece.begin;
    return sum;
}

void compute(const ApproximatedInterval& interval, const Pieces& pieces, KeptNoise& result) {
    int64_t delay = interval.begin_delay;
    for (const ClaimedPiece& piece : pieces) {
        if (piece.stays) continue;
        // Noise recorded after an Enter or Leave outside MPI may have hit before it; its time is known from there on.
        result.turns.push_back({std::max(piece.begin, interval.begin), delay});
        delay += piece.end - piece.begin;
        result.turns.push_back({std::max(piece.end, interval.begin), delay});
    }
}

// Cuts the latest noise first: it hit when the wait state would have ended.
void cut(Pieces& pieces, int64_t ns, KeptNoise& result) {
    for (size_t i = pieces.size(); i > 0 && ns > 0; --i) {
        ClaimedPiece whole = pieces[i - 1];
        if (!whole.stays) continue;
        const int64_t less = std::min(ns, whole.end - whole.begin);
        result.cuts.push_back({whole.recorded, less, whole.account});
        ns -= less;
        ClaimedPiece rest = whole;
        whole.end = rest.begin = whole.end - less;
        rest.stays = false;
        pieces[i - 1] = rest;
        if (whole.begin < whole.end) pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(i) - 1, whole);
    }
}

// A part of a call: its ends in measured and in approximated time.
struct Part {
    int64_t begin, end, approximated_begin, approximated_end;
    bool waiting, stepwise;
};

void place(const Part& part, Pieces& pieces, bool keep_absorbed, KeptNoise& result) {
    const int64_t room = part.approximated_end - part.approximated_begin;
    if (!keep_absorbed) cut(pieces, length(pieces, true) - room, result);
    int64_t stays_before = 0, stays_after = length(pieces, true), gone_after = length(pieces, false);
    const auto turn = [&](int64_t time) {
        const int64_t elastic = part.approximated_begin + (time - part.begin);
        const int64_t rigid = part.approximated_end - (part.end - time) + (part.stepwise ? 0 : gone_after);
        const int64_t moment =
            std::max(std::min(part.waiting ? elastic : rigid, part.approximated_end - stays_after), part.approximated_begin + stays_before);
        result.turns.push_back({time, time - moment});
    };
    for (const ClaimedPiece& piece : pieces) {
        turn(piece.begin);
        const int64_t taken = piece.end - piece.begin;
        if (piece.stays) {
            stays_before += taken;
            stays_after -= taken;
        } else {
            gone_after -= taken;
        }
        turn(piece.end);
    }
}

void call(const ApproximatedInterval& interval, const Pieces& pieces, bool keep_absorbed, KeptNoise& result) {
    const int64_t begin = interval.begin - interval.begin_delay, end = std::max(begin, interval.end - interval.end_delay);
    const int64_t until = std::clamp(interval.waited_until, interval.begin, interval.end);
    Pieces waiting, tail;
    for (ClaimedPiece piece : pieces) {
        if (piece.begin < until) {
            waiting.push_back(piece);
            waiting.back().end = std::min(piece.end, until);
        }
        piece.begin = std::max(piece.begin, until);
        if (piece.begin < piece.end) tail.push_back(piece);
    }
    const int64_t approximated_until = std::max(begin, std::min(interval.approximated_until, end - length(tail, true)));
    place({interval.begin, until, begin, approximated_until, true, interval.stepwise}, waiting, keep_absorbed, result);
    result.turns.push_back({until, until - approximated_until});
    place({until, interval.end, approximated_until, end, false, interval.stepwise}, tail, keep_absorbed, result);
}

}  // namespace

KeptNoise place_kept_noise(const ApproximatedInterval& interval, std::vector<ClaimedPiece>& pieces, bool keep_absorbed) {
    KeptNoise result;
    if (std::none_of(pieces.begin(), pieces.end(), [](const ClaimedPiece& piece) { return piece.stays; })) return result;
    std::sort(pieces.begin(), pieces.end(), [](const ClaimedPiece& a, const ClaimedPiece& b) { return a.begin < b.begin; });
    if (interval.in_call)
        call(interval, pieces, keep_absorbed, result);
    else
        compute(interval, pieces, result);
    return result;
}

}  // namespace polter::replay
