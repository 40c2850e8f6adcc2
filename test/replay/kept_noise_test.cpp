// SPDX-License-Identifier: BSD-3-Clause
// In an approximated archive, the noise that stays: where it lies, and what of it has no place any more.
#include <cstdlib>
#include <cstring>

#include "replay/rewrite/remaining_noise.hpp"
#include "support/approximated_archive.hpp"

using namespace polter;
using namespace polter::test;

namespace {

// The number that stands `place` numbers behind the beginning of the warning that says `what`; 0 where none does.
int64_t told(const replay::Result& result, const std::string& what, size_t place) {
    for (const replay::Warning& each : result.warnings) {
        const std::string& warning = each.text;
        if (warning.find(what) == std::string::npos) continue;
        const char* at = warning.c_str();
        for (size_t i = 0;; ++i) {
            at += std::strcspn(at, "0123456789");
            char* end = nullptr;
            const int64_t number = std::strtoll(at, &end, 10);
            if (i == place) return number;
            at = end;
        }
    }
    return 0;
}
int64_t without_room(const replay::Result& result) {
    return told(result, "longer than the time they lie in", 0);
}
int64_t cut_off(const replay::Result& result) {
    return told(result, "hit a wait that is now shorter", 1);
}

int64_t local_noise(const replay::Result& result, bool source1) {
    int64_t sum = 0;
    for (const auto& rank : result.per_rank)
        for (const auto& [name, source] : rank.sources) sum += (name == "source1") == source1 ? source.local_ns : 0;
    return sum;
}

// Of a trace without one of its three sources, against the trace: records that have no room, more than there; local noise that is gone
// and was not told; by how much the noise-free time is another.
struct Kept {
    int64_t without_room = 0, gone = 0, noise_free = 0, noise_free_ns = 0, cut = 0;
};

Kept kept_noise(uint64_t seed, replay::Faults faults = {}) {
    test::Program program = program_of(seed * 3 + 2);
    REQUIRE(program.trace.accounts.size() == 3);
    program.trace.one_class = seed % 2 == 0;
    const test::TemporaryDirectory directory;
    test::write_trace(program.trace, directory.path("t"));
    const replay::Result before = read(directory.path("t"));
    const replay::Result written = write(directory.path("t"), directory.path("a"), std::vector<std::string>{"source1"}, faults);
    const replay::Result after = read(directory.path("a"));
    CHECK(after.measured_ns == written.approximated_ns);
    CHECK(local_noise(after, true) == 0);
    Kept kept;
    kept.cut = cut_off(written);
    kept.without_room = std::max<int64_t>(0, without_room(after) - without_room(before));
    kept.gone = local_noise(before, false) - kept.cut - local_noise(after, false);
    kept.noise_free = after.approximated_ns - before.approximated_ns;
    kept.noise_free_ns = before.approximated_ns;
    return kept;
}

}  // namespace

TEST_CASE("some removed: the others' noise stays where it has room, and counts as much") {
    int64_t noise_free_error = 0, cut = 0;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        CAPTURE(seed);
        const Kept kept = kept_noise(seed);
        CHECK(kept.without_room == 0);
        CHECK(kept.gone == 0);
        CHECK(std::abs(kept.noise_free) * 200 <= kept.noise_free_ns);
        noise_free_error += std::abs(kept.noise_free);
        cut += kept.cut;
    }
    CHECK(cut > 0);
    MESSAGE("noise-free times are " << noise_free_error << " ns off in all");
}

TEST_CASE("noise that stays behind what was removed before it, or that waits for nothing any more, would be found") {
    int64_t behind = 0, absorbed = 0, noise_free_error = 0;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        const Kept kept = kept_noise(seed, {.noise_stays_behind = true});
        behind += kept.without_room;
        noise_free_error += std::abs(kept.noise_free);
    }
    // Few programs have such noise: as many as it takes, also where others are spared.
    for (uint64_t seed = 1; seed <= 24 && absorbed == 0; ++seed) absorbed += kept_noise(seed, {.keep_absorbed = true}).without_room;
    MESSAGE(behind << ", " << absorbed << "; noise-free times are " << noise_free_error << " ns off in all");
    CHECK(behind > 0);
    CHECK(absorbed > 0);
}

TEST_CASE("noise that stays, while computing: what was removed before it is gone") {
    using RecordKind = test::Record::Kind;
    const auto records = [](replay::Faults faults) {
        test::TraceSpec spec(1);
        spec.accounts = {"os:stays", "os:gone"};
        spec.add(0, 0, RecordKind::enter, "main");
        spec.add(0, 40, RecordKind::noise, "os:gone").ns = 30;
        spec.add(0, 45, RecordKind::noise, "os:stays").ns = 5;
        spec.add(0, 80, RecordKind::noise, "os:gone").ns = 20;
        spec.add(0, 90, RecordKind::noise, "os:stays").ns = 10;
        spec.add(0, 100, RecordKind::leave, "main");
        const test::TemporaryDirectory directory;
        test::write_trace(spec, directory.path("t"));
        write(directory.path("t"), directory.path("a"), std::vector<std::string>{"gone"}, faults);
        const Timeline written = timeline(directory.path("a"));
        std::vector<uint64_t> times;
        for (const Event& event : written[0])
            if (event.kind == Kind::Metric && event.value > 0) times.push_back(event.time);
        return times;
    };
    CHECK(records({}) == std::vector<uint64_t>{15, 40});
    CHECK(records({.noise_stays_behind = true}) == std::vector<uint64_t>{45, 50});
}

// From 100 to 200: hit at 120 and 170 while it waits, until 180, and once in its tail.
static replay::KeptNoise in_call(int64_t less, int64_t removed_in_tail, bool keep_absorbed = false, bool stepwise = false) {
    std::vector<replay::ClaimedPiece> pieces{
        {185, 190, 190, 0, true}, {190, 190 + removed_in_tail, 195, 1, false}, {170, 178, 179, 2, true}, {120, 125, 125, 0, true}};
    return replay::place_kept_noise({100, 200, 0, less, true, 180, 180 - less + removed_in_tail, stepwise}, pieces, keep_absorbed);
}

TEST_CASE("noise that stays, in a call that waits: in its own part of the call") {
    const replay::KeptNoise shorter = in_call(50, 0);  // waits until 130
    CHECK(shorter.cuts.empty());
    CHECK(shorter.turns == std::vector<replay::DelayTurn>{{120, 3}, {125, 3}, {170, 48}, {178, 48}, {180, 50}, {185, 50}, {190, 50}});
    const replay::KeptNoise hit = in_call(60, 5);  // waits until 125
    CHECK(hit.cuts.empty());
    CHECK(hit.turns ==
          std::vector<replay::DelayTurn>{{120, 8}, {125, 8}, {170, 53}, {178, 53}, {180, 55}, {185, 55}, {190, 55}, {190, 55}, {195, 60}});
    // With its removed noise in a step that waited: as long before the Leave as it was.
    CHECK(in_call(60, 5, false, true).turns ==
          std::vector<replay::DelayTurn>{{120, 8}, {125, 8}, {170, 53}, {178, 53}, {180, 55}, {185, 60}, {190, 60}, {190, 60}, {195, 60}});
    const replay::KeptNoise hardly = in_call(72, 0);  // waits until 108: 5 of 13 have no room
    CHECK(hardly.cuts == std::vector<replay::NoiseCut>{{179, 5, 2}});
    CHECK(hardly.turns == std::vector<replay::DelayTurn>{
                              {120, 20}, {125, 20}, {170, 65}, {173, 65}, {173, 65}, {178, 70}, {180, 72}, {185, 72}, {190, 72}});
    const replay::KeptNoise never = in_call(80, 0);
    CHECK(never.cuts == std::vector<replay::NoiseCut>{{179, 8, 2}, {125, 5, 0}});
    CHECK(in_call(80, 0, true).cuts.empty());
}
