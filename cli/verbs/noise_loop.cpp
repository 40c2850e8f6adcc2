// SPDX-License-Identifier: BSD-3-Clause
#include "noise_loop.hpp"

#include <fmt/core.h>
#include <noise.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "../../kmodule/loops/loops.hpp"
#include "../../kmodule/loops/output.hpp"
#include "../../kmodule/node/interrupt.hpp"
#include "../../tracer/launch/exporter.hpp"
#include "../result_text.hpp"
#include "replay/base/printable.hpp"

namespace polter::cli {
namespace {

struct PageCloser {
    void operator()(polter_noise* page) const { polter_noise_close(page); }
};
using Page = std::unique_ptr<polter_noise, PageCloser>;
struct SessionCloser {
    void operator()(polter_session* session) const { polter_session_close(session); }
};
using Session = std::unique_ptr<polter_session, SessionCloser>;

void pin(int cpu) {
    cpu_set_t allowed, one;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int i = 0; cpu < 0 && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(CPU_SETSIZE - 1 - i, &allowed)) cpu = CPU_SETSIZE - 1 - i;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        throw std::runtime_error(fmt::format("noise: cannot run on CPU {}: {}; choose another --cpu", cpu, std::strerror(errno)));
}

loops::Kind kind_named(const std::string& name) {
    for (const auto kind : {loops::Kind::fwq, loops::Kind::ftq})
        if (name == loops::name_of(kind)) return kind;
    return loops::Kind::selfish;
}

}  // namespace

void add_loop_options(CLI::App& verb, LoopArguments& arguments) {
    auto* loop =
        verb.add_option("--loop", arguments.kind,
                        "Instead run a benchmark loop on one CPU, and explain what it loses: selfish (selfish detour: gaps between clock "
                        "readings), fwq (fixed work quantum), ftq (fixed time quantum)")
            ->check(CLI::IsMember({"selfish", "fwq", "ftq"}))
            ->option_text("NAME");
    verb.add_option("--cpu", arguments.cpu, "CPU of the loop (default: the last one allowed)")
        ->check(CLI::Range(0, CPU_SETSIZE - 1))
        ->needs(loop);
    verb.add_option("--quantum", arguments.quantum_ns,
                    "Length of a quantum in nanoseconds; for fwq approximate, without disturbance (default: 1000000)")
        ->check(CLI::Range(10'000, 1'000'000'000))
        ->capture_default_str()
        ->option_text("NS")
        ->needs(loop);
    verb.add_option(
            "--threshold", arguments.threshold_ns,
            "Delay from which a turn or quantum counts as disturbed, in nanoseconds (default: nine turns of selfish, 1 % of a quantum)")
        ->check(CLI::Range(1, 1'000'000'000))
        ->option_text("NS")
        ->needs(loop);
    verb.add_option("--exporter", arguments.exporter, "How to record the noise that hits the loop")
        ->check(CLI::IsMember(launch::exporter_names()))
        ->option_text("NAME: as in polter run")
        ->needs(loop);
}

void run_loop(const LoopArguments& arguments, const Common& common, double seconds, std::size_t top, bool histogram) {
    pin(arguments.cpu);
    node::Interrupt interrupt;
    const auto exporter = launch::choose_exporter(arguments.exporter, {});
    char error[600] = "";
    Session own;  // where the thread measures itself
    if (exporter.name == polter_backend_name(POLTER_BACKEND_PERF)) {
        polter_noise_options options{};
        options.exporter = exporter.name.c_str();
        options.tracepoints = exporter.tracepoints.c_str();
        own.reset(polter_session_open(&options, error, sizeof error));
    }
    polter_session* session = own ? own.get() : exporter.session();
    const Page page(session ? polter_noise_open(session, error, sizeof error) : nullptr);
    auto recorder = page ? loops::page_recorder(page.get()) : arguments.exporter == "none" ? nullptr : loops::schedstat_recorder();
    if (!recorder) recorder = loops::no_recorder();
    const std::string why = !page && error[0] ? error : exporter.why;

    const auto result = loops::run({kind_named(arguments.kind), seconds, arguments.quantum_ns, arguments.threshold_ns}, *recorder);
    if (common.json) {
        auto json = loops::to_json(result);
        json["exporter_why"] = why;
        fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return;
    }
    const auto columns = output_columns();
    fmt::print("{}", wrap(replay::printable(loops::to_text(result, top, histogram, columns), true), columns));
    if (!why.empty()) fmt::print("{}", wrap(fmt::format("exporter: {}\n", replay::printable(why)), columns));
}

}  // namespace polter::cli
