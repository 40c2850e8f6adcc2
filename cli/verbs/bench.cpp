// SPDX-License-Identifier: BSD-3-Clause
// polter bench: known workloads.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "../verb.hpp"
#include "analyzers/bench/bsp.hpp"
#include "analyzers/inject/spec.hpp"
#include "analyzers/samples/statistics.hpp"

namespace polter::cli {

namespace {

struct BenchArguments {
    Common common;
    bench::Bsp bsp;
    std::string grain = "10ms";
};

void run_bench(const BenchArguments& arguments) {
    const std::string text = bench::run_bsp(arguments.bsp);
    if (arguments.common.json) {
        fmt::print("{}", text);
        return;
    }
    const auto json = nlohmann::json::parse(text);
    const auto slowest = json.at("slowest_work_ns").get<std::vector<double>>(),
               wait = json.at("longest_wait_ns").get<std::vector<double>>();
    fmt::print("{}: {} ranks, {} intervals of {} units, {}\n", json.at("workload").get<std::string>(), json.at("ranks").get<int>(),
               json.at("phases").get<int64_t>(), json.at("units").get<int64_t>(), json.at("collective").get<std::string>());
    fmt::print(
        "elapsed {:.3f} ms; the slowest rank's work: median {:.3f} ms, least {:.3f} ms, most {:.3f} ms; longest wait: median {:.3f} ms\n",
        json.at("elapsed_ns").get<double>() / 1e6, samples::median(slowest) / 1e6, *std::min_element(slowest.begin(), slowest.end()) / 1e6,
        *std::max_element(slowest.begin(), slowest.end()) / 1e6, samples::median(wait) / 1e6);
}

}  // namespace

void add_bench(CLI::App& parent) {
    auto* verb = parent.add_subcommand("bench", "Run a known workload: intervals of work, each ended by one collective");
    const auto arguments = std::make_shared<BenchArguments>();
    add_common(*verb, arguments->common);
    auto& bsp = arguments->bsp;
    verb->add_option("NAME", "The benchmark: bsp")->required()->check(CLI::IsMember({"bsp"}))->option_text("bsp");
    verb->add_option("--workload", bsp.workload, "time: a fixed time; the others: fixed work (default: work)")
        ->check(CLI::IsMember(bench::workloads))
        ->capture_default_str()
        ->option_text("NAME: work, time, dgemm, spmv or hpcg");
    verb->add_option("--grain", arguments->grain, "Length of an interval's work (default: 10ms)")->capture_default_str()->option_text("TIME");
    verb->add_option("--units", bsp.units, "Units of work an interval, instead of as many as last the grain")->option_text("N");
    verb->add_option("--phases", bsp.phases, "Recorded intervals (default: 200)")
        ->check(CLI::Range(1, 10'000'000))
        ->capture_default_str()
        ->option_text("N");
    verb->add_option("--warmups", bsp.warmups, "Intervals before, not recorded (default: 5)")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str()
        ->option_text("N");
    verb->add_option("--collective", bsp.collective, "What ends an interval (default: barrier)")
        ->check(CLI::IsMember(bench::collectives))
        ->capture_default_str()
        ->option_text("NAME: barrier, allreduce, bcast, reduce, alltoall or none");
    verb->add_option("--imbalance", bsp.imbalance_percent, "How much more the last rank works than the first, in percent; linear between")
        ->check(CLI::Range(0.0, 10'000.0))
        ->option_text("P");
    verb->add_option("--halo", bsp.halo, "Exchange so many doubles with four neighbours of a periodic grid")
        ->check(CLI::Range(0, 10'000'000))
        ->option_text("N");
    verb->add_option("--size", bsp.size, "Of the data: rows (dgemm), points a side (spmv, hpcg)")
        ->check(CLI::Range(0, 1000))
        ->option_text("N");
    verb->add_option("--ranks", bsp.ranks, "Number of ranks, where no launcher is given (default: 2)")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str()
        ->option_text("N");
    verb->add_option("--mpi", bsp.mpi, "Which MPI; default: that of the launcher, else the first installed")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->option_text("NAME: openmpi or mpich");
    verb->prefix_command();
    verb->footer(
        "COMMAND is a launcher without a program; default: mpirun with the ranks bound to cores.\n"
        "Example: polter bench bsp --grain 1ms --phases 1000 --json\n"
        "         polter bench bsp --workload hpcg --halo 1000 -- srun -n 64");
    verb->callback([verb, arguments] {
        auto& launcher = arguments->bsp.launcher;
        launcher = verb->remaining();
        if (!launcher.empty() && launcher.front().starts_with("-")) throw CLI::ExtrasError(verb->get_name(), {launcher.front()});
        const auto& behind = behind_separator();
        if (!behind.empty()) launcher.insert(launcher.end(), behind.begin() + (launcher.empty() ? 1 : 0), behind.end());
        arguments->bsp.grain_ns = inject::parse_time(arguments->grain);
        if (arguments->bsp.grain_ns < 1'000) throw CLI::ValidationError("--grain", "at least 1us");
        run_bench(*arguments);
    });
}

}  // namespace polter::cli
