// SPDX-License-Identifier: BSD-3-Clause
// Damaged archives through the replay, each in a process of its own: a result that keeps its promises, an error in one line, or a death
// in OTF2's own code, which `polter replay` survives because it reads apart. Everything else fails, with the command that repeats it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <map>

#include "../replay/support/micro_parse.hpp"
#include "../replay/support/random_program.hpp"
#include "archive_bytes.hpp"
#include "trace_nonsense.hpp"
#include "verdict.hpp"

namespace {

namespace fs = std::filesystem;
using namespace polter::test;

struct Seeds {
    std::vector<std::pair<std::string, TraceSpec>> traces;
    std::vector<std::pair<std::string, ArchiveBytes>> archives;  // of the traces, and those given
};

// The conventions of other tools: ticks that are no nanoseconds, ids that are no ranks, all metrics in one class, or none.
TraceSpec in_foreign_habit(TraceSpec spec, uint64_t habit) {
    if (habit & 1) spec.ticks_per_second = 2'600'000'000;
    if (habit & 2) spec.first_location = 7, spec.location_step = 4'294'967'296;
    if (habit & 4) spec.one_class = true;
    if (habit & 8) {
        spec.accounts.clear();
        for (auto& records : spec.records) std::erase_if(records, [](const Record& r) { return r.kind == Record::Kind::noise; });
    }
    return spec;
}

Seeds make_seeds(const std::string& micro, const std::vector<std::string>& given, const std::string& work) {
    Seeds seeds;
    for (const auto& entry : std::map<std::string, fs::path>([&] {
             std::map<std::string, fs::path> sorted;
             for (const auto& file : fs::directory_iterator(micro)) sorted[file.path().stem()] = file.path();
             return sorted;
         }()))
        seeds.traces.emplace_back(entry.first, parse_micro(entry.second).trace);
    for (uint64_t seed = 1; seed <= 12; ++seed) {
        ProgramOptions options;
        options.seed = seed;
        options.ranks = 2 + seed % 5;
        options.steps = 10 + seed * 3;
        options.structured = seed % 3 == 0;
        seeds.traces.emplace_back(fmt::format("random-{}", seed), in_foreign_habit(random_program(options).trace, seed));
    }
    for (const auto& [name, trace] : seeds.traces) {
        write_trace(trace, work + "/seed");
        seeds.archives.emplace_back(name, read_archive_bytes(work + "/seed"));
    }
    for (const std::string& directory : given) seeds.archives.emplace_back(directory, read_archive_bytes(directory));
    return seeds;
}

// Depends on the two numbers and the seeds alone.
std::string make_mutant(const Seeds& seeds, uint64_t seed, uint64_t number, const std::string& archive) {
    std::seed_seq mixed{seed, seed >> 32, number, number >> 32};
    Random random(mixed);
    const size_t times = 1 + below(random, 4);
    std::string told;
    if (random() % 3 == 0 && !seeds.traces.empty()) {
        auto [name, trace] = seeds.traces[below(random, seeds.traces.size())];
        for (size_t k = 0; k < times; ++k) add_nonsense(trace, random, told);
        write_trace(trace, archive);
        return name + ": " + told;
    }
    auto [name, bytes] = seeds.archives[below(random, seeds.archives.size())];
    for (size_t k = 0; k < times; ++k) damage(bytes, random, told);
    write_archive_bytes(bytes, archive);
    return name + ": " + told;
}

}  // namespace

int main(int argc, char** argv) {
    uint64_t seed = 1, only = UINT64_MAX, first = 0, most = UINT64_MAX;
    double seconds = 20;
    std::string micro = POLTER_MICRO_TRACES, work;
    std::vector<std::string> given;
    bool keep = false;
    CLI::App app{"Mutation fuzzing of the replay"};
    app.add_option("--seed", seed, "Of the mutations")->capture_default_str();
    app.add_option("--seconds", seconds, "How long")->capture_default_str();
    app.add_option("--most", most, "How many mutants at most");
    app.add_option("--first", first, "The number of the first mutant");
    app.add_option("--only", only, "Only the mutant of this number, verbosely");
    app.add_option("--archive", given, "Further directories that hold a traces.otf2");
    app.add_flag("--keep", keep, "Leave the last mutant where it is, and say where");
    CLI11_PARSE(app, argc, argv);
    const TemporaryDirectory directory;
    work = keep ? (fs::temp_directory_path() / "polter-fuzz-kept").string() : directory.path("work");
    fs::create_directories(work);
    const Seeds seeds = make_seeds(micro, given, directory.path("seeds"));
    const std::string archive = work + "/mutant";

    std::map<Verdict::Kind, uint64_t> counts;
    std::map<std::string, uint64_t> deaths;
    uint64_t warned = 0, number = only != UINT64_MAX ? only : first, done = 0;
    const auto begin = std::chrono::steady_clock::now();
    const auto since = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
    fmt::print("seed {}, {} seeds, {} of them archives only\n", seed, seeds.archives.size(), given.size());
    for (; done < most && (only != UINT64_MAX ? done < 1 : since() < seconds); ++number, ++done) {
        const std::string told = make_mutant(seeds, seed, number, archive);
        const Verdict verdict = judge(archive, number % 4 == 0);
        ++counts[verdict.kind];
        warned += verdict.warned;
        if (verdict.kind == Verdict::Kind::otf2_died || verdict.kind == Verdict::Kind::otf2_stuck) ++deaths[verdict.text];
        if (verdict.kind == Verdict::Kind::wrong || only != UINT64_MAX)
            fmt::print("{} mutant {}: {}\n  {}\n  again: {} --seed {} --only {}{}\n", verdict.kind == Verdict::Kind::wrong ? "FAILED" : "",
                       number, verdict.text, told, argv[0], seed, number, given.empty() ? "" : " --archive … (the same)");
        std::fflush(stdout);
    }
    fmt::print("{} mutants in {:.0f} s: {} results ({} with warnings), {} refused, {} killed OTF2, {} stuck in OTF2, {} wrong\n", done,
               since(), counts[Verdict::Kind::result], warned, counts[Verdict::Kind::refused], counts[Verdict::Kind::otf2_died],
               counts[Verdict::Kind::otf2_stuck], counts[Verdict::Kind::wrong]);
    for (const auto& [where, count] : deaths) fmt::print("  {} × {}\n", count, where);
    if (keep) fmt::print("the last one: {}\n", archive);
    // A fuzzer that never gets past the reader's door, or never damages anything, proves nothing.
    const bool sound =
        only != UINT64_MAX || done < 200 || (counts[Verdict::Kind::result] > done / 20 && counts[Verdict::Kind::refused] > 0 && warned > 0);
    if (!sound) fmt::print("this fuzzer does not reach what it is for\n");
    return counts[Verdict::Kind::wrong] > 0 || !sound ? 1 : 0;
}
