// SPDX-License-Identifier: BSD-3-Clause
// One pattern, or one program from a file, under one seed on the simulated machine, with its noise or without: `smpirun -np N …
// truth_program --pattern stencil …`. Prints the simulated runtime and what was stolen from each rank as one line of JSON, and writes the
// traces that it is asked for.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "codes.hpp"
#include "programs.hpp"
#include "random.hpp"

using namespace polter::truth;

int main(int argc, char** argv) {
    std::map<std::string, Program*> programs{{"barrier", barrier_phases},
                                             {"allreduce", allreduce_phases},
                                             {"rooted", rooted_mix},
                                             {"two_kinds", two_kinds},
                                             {"transpose", transpose},
                                             {"overlapped", overlapped_collectives},
                                             {"subcommunicators", subcommunicators},
                                             {"scan", scan_phases},
                                             {"nested", nested_collectives},
                                             {"stencil", stencil},
                                             {"wavefront", wavefront},
                                             {"irregular", irregular},
                                             {"rma_fence", rma_fence},
                                             {"rma_pscw", rma_pscw},
                                             {"rma_lock", rma_lock},
                                             {"rma_table", rma_table},
                                             {"rma_shards", rma_shards},
                                             {"rma_request", rma_request},
                                             {"butterfly", butterfly},
                                             {"pipeline", pipeline},
                                             {"one_way", one_way},
                                             {"rendezvous", rendezvous},
                                             {"master_worker", master_worker},
                                             {"result_farm", result_farm},
                                             {"probing_farm", probing_farm},
                                             {"waitany_farm", waitany_farm}};
    programs.insert(codes().begin(), codes().end());
    Settings settings;
    Parameters parameters;
    std::string pattern, program_file;
    std::vector<Block> program;
    std::vector<std::string> noise;
    CLI::App app("A pattern of the truth bench; run it under smpirun.");
    auto* pattern_option = app.add_option("--pattern", pattern, "Communication pattern")->check(CLI::IsMember(&programs));
    app.add_option("--program", program_file, "In place of a pattern: a file of phases, see random.hpp")->excludes(pattern_option);
    app.add_option("--iterations", parameters.iterations)->check(CLI::PositiveNumber);
    app.add_option("--compute-ns", parameters.compute_ns, "Mean computing of one phase")->check(CLI::PositiveNumber);
    app.add_option("--imbalance", parameters.imbalance, "Half width of its spread")->check(CLI::Range(0.0, 1.0));
    app.add_option("--skew", parameters.skew, "Half width of what ranks differ by in all of the run; of codes")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--bytes", parameters.bytes, "Of one message")->check(CLI::PositiveNumber);
    app.add_option("--dimensions", parameters.dimensions, "Of the process grid")->check(CLI::Range(1, 3));
    app.add_option("--seed", settings.seed, "Of computing times and noise");
    app.add_option("--noise", noise, "NAME:periodic|random|heavy_tailed:period=NS,duration=NS[,rank=R][,culprit=NAME][,alpha=A]")
        ->allow_extra_args(false);
    app.add_option("--cold", settings.cold, "1: what SMPI sets up in the first collectives is part of the program");
    app.add_flag("--quiet", settings.quiet, "No noise hits: the truth");
    app.add_option("--detailed", settings.detailed, "Write a trace with each noise event in its place to this directory");
    app.add_option("--counters", settings.counters, "Write a trace with counters read at MPI events to this directory");
    app.add_option("--instructions-per-ns", settings.instructions_per_ns, "Of computing: count them in the traces")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--delay-probability", settings.delay.probability, "Of a delay before an MPI call returns")->check(CLI::Range(0.0, 1.0));
    app.add_option("--delay-ns", settings.delay.mean_ns)->check(CLI::NonNegativeNumber);
    app.add_option("--delay-sigma-ns", settings.delay.sigma_ns)->check(CLI::NonNegativeNumber);
    app.add_option("--delay-seed", settings.delay.seed);
    app.add_option("--habit", settings.habits, "Write these traces again, to DIRECTORY-HABIT, as a recorder with this habit does")
        ->allow_extra_args(false);
    app.add_option("--call-overhead-ns", settings.call_overhead_ns)->check(CLI::NonNegativeNumber);
    app.add_option("--message-overhead-ns", settings.message_overhead_ns)->check(CLI::NonNegativeNumber);
    app.add_option("--byte-overhead-ns", settings.byte_overhead_ns)->check(CLI::NonNegativeNumber);
    CLI11_PARSE(app, argc, argv);
    try {
        for (const std::string& text : noise) settings.noise.push_back(parse_noise(text));
        if (!program_file.empty()) program = read_program(program_file);
        if (pattern.empty() && program_file.empty()) throw std::runtime_error("give a pattern or a program");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "truth: %s\n", error.what());
        return 2;
    }
    settings.command = "truth_program";
    for (int i = 1; i < argc; ++i) settings.command += std::string(" ") + argv[i];
    configure(settings);
    MPI_Init(&argc, &argv);
    pattern.empty() ? run_program(program) : programs.at(pattern)(parameters);
    MPI_Finalize();
    return 0;
}
