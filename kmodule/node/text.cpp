// SPDX-License-Identifier: BSD-3-Clause
#include "text.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>

#include "noise.h"
#include "summary.hpp"

namespace polter::node {

std::string duration(std::uint64_t ns) {
    if (ns < 1000) return fmt::format("{} ns", ns);
    const char* const units[] = {"us", "ms", "s"};
    double value = static_cast<double>(ns) / 1000;
    int unit = 0;
    for (; value >= 999.5 && unit < 2; unit++) value /= 1000;
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

std::string percent(std::uint64_t part_ns, std::uint64_t whole_ns) {
    if (whole_ns == 0) return "-";
    const double value = 100 * static_cast<double>(part_ns) / static_cast<double>(whole_ns);
    return fmt::format("{:.{}f} %", value, value < 9.995 ? 2 : 1);
}

std::string histogram(const Stats& stats, const std::string& indent) {
    // Octaves: bins 0…3 are the first, below 4 ns.
    std::array<std::uint64_t, POLTER_BINS / 4 + 1> octave{};
    for (unsigned i = 0; i < POLTER_BINS; i++) octave[i / 4] += stats.bin[i];
    const auto filled = [](std::uint64_t n) { return n > 0; };
    const auto first = std::find_if(octave.begin(), octave.end(), filled);
    const auto last = std::find_if(octave.rbegin(), octave.rend(), filled).base();
    const std::uint64_t most = *std::max_element(octave.begin(), octave.end());
    std::string text;
    for (auto at = first; at < last; ++at) {
        const auto from = static_cast<polter_u32>(4 * (at - octave.begin()));
        const auto stars = *at ? std::max<std::uint64_t>(1, 40 * *at / most) : 0;
        text += fmt::format("{}{:>9} … {:>9}  {:>10}  {}\n", indent, duration(polter_bin_lower(from)), duration(polter_bin_lower(from + 4)),
                            *at, std::string(stars, '*'));
    }
    return text;
}

std::string machine(std::size_t cpus) {
    utsname name{};
    uname(&name);
    const std::string number = cpus == 0 ? "" : fmt::format("{} CPU{}, ", cpus, cpus == 1 ? "" : "s");
    return fmt::format("{} ({}{} {})", name.nodename, number, name.sysname, name.release);
}

namespace {

struct Table {
    std::uint64_t wall_ns;  // of all CPUs
    double seconds;         // of one
    bool with_idle;         // whether it can hit an idle CPU
    const TextOptions& options;
    std::string text;

    void head(const std::string& title) {
        text += fmt::format("\n{}\n{:<26}{:>11}{:>9}{:>10}{:>9}{}{:>10}{:>10}{:>10}{:>10}\n", title, "", "count", "/s", "total", "share",
                            with_idle ? fmt::format("{:>9}", "idle") : "", "mean", "p50", "p99", "max");
    }
    void line(const std::string& name, const Stats& s, const Stats* idle) {
        const std::string of_idle = !with_idle ? "" : fmt::format("{:>9}", idle ? percent(idle->total_ns, s.total_ns) : "");
        text += fmt::format("{:<26}{:>11}{:>9.0f}{:>10}{:>9}{}{:>10}{:>10}{:>10}{:>10}\n", name, s.count,
                            static_cast<double>(s.count) / seconds, duration(s.total_ns), percent(s.total_ns, wall_ns), of_idle,
                            duration(s.mean_ns()), duration(s.percentile_ns(0.5)), duration(s.percentile_ns(0.99)), duration(s.max_ns));
    }
    void culprits(const Source& source) {
        const std::size_t shown = std::min(options.top, source.culprits.size());
        for (std::size_t i = 0; i < shown; i++) line("  " + source.culprits[i].name, source.culprits[i].stats, nullptr);
        if (shown == source.culprits.size()) return;
        Stats rest;
        for (std::size_t i = shown; i < source.culprits.size(); i++) rest += source.culprits[i].stats;
        line(fmt::format("  ({} more)", source.culprits.size() - shown), rest, nullptr);
    }
    void source(const Source& source) {
        line(name_of(source.account), source.all, &source.idle);
        if (options.histogram) text += histogram(source.all, "    ");
        culprits(source);
    }
};

std::string table(const std::vector<Source>& sources, Kind kind, const char* title, const Times& times, double seconds,
                  const TextOptions& options) {
    Table out{times.wall_ns, seconds, kind == Kind::interruption, options, {}};
    bool any = false;
    for (const auto& source : sources) {
        if (kind_of(source.account) != kind) continue;
        if (!any) out.head(title);
        any = true;
        out.source(source);
    }
    return out.text;
}

// A line a CPU: microseconds of each second.
std::string matrix(const Observation& observation) {
    std::vector<unsigned> accounts;
    for (const auto& source : sources_of(observation))
        if (source.account != ran && kind_of(source.account) != Kind::counted) accounts.push_back(source.account);
    std::string text = fmt::format("\nBy CPU, in microseconds of each second\n{:>5}", "CPU");
    for (const unsigned account : accounts) text += fmt::format("{:>13}", name_of(account));
    text += fmt::format("{:>13}{:>13}\n", "idle", "steal");
    for (const auto& cpu : observation.cpus) {
        const auto times = times_of(observation, cpu.cpu);
        const auto sources = sources_of(observation, cpu.cpu);
        const auto rate = [&](std::uint64_t ns) {
            return times.wall_ns ? 1e6 * static_cast<double>(ns) / static_cast<double>(times.wall_ns) : 0.0;
        };
        text += fmt::format("{:>5}", cpu.cpu);
        for (const unsigned account : accounts) {
            std::uint64_t ns = 0;
            for (const auto& source : sources)
                if (source.account == account) ns = source.all.total_ns;
            text += fmt::format("{:>13.1f}", rate(ns));
        }
        text += fmt::format("{:>13.1f}{:>13.1f}\n", rate(times.idle_ns), rate(times.steal_ns));
    }
    return text;
}

}  // namespace

std::string to_text(const Observation& o, const char* measured_by, const TextOptions& options) {
    const auto sources = sources_of(o);
    const auto times = times_of(o);
    const double seconds =
        o.cpus.empty() ? 1 : std::max(1e-9, static_cast<double>(times.wall_ns) / static_cast<double>(o.cpus.size()) / 1e9);
    std::string text = fmt::format("{:.1f} s on {}, measured by {}\n", seconds, machine(o.cpus.size()), measured_by);
    text += table(sources, Kind::interruption, "Interruptions: time of the CPUs, whatever they ran; idle: of it, on CPUs that ran nothing",
                  times, seconds, options);
    text += table(sources, Kind::wait, "Waits: time that tasks lost though they could have run, and for whom; several may wait at once",
                  times, seconds, options);
    text += table(sources, Kind::task, "Who ran, from one switch to the next, net of interruptions; work: items of kernel workers", times,
                  seconds, options);
    if (options.per_cpu) text += matrix(o);
    text += fmt::format("\nidle {}", percent(times.idle_ns, times.wall_ns));
    text += fmt::format("; steal {} (in clock ticks)", duration(times.steal_ns));
    for (const auto& source : sources)
        if (source.account == POLTER_FAULT)
            text +=
                fmt::format("; page faults {} (they have no end to measure), most in {}", source.all.count, source.culprits.front().name);
    text += "\np50 and p99 are within 12.5 %, the others exact\n";
    if (!o.not_seen.empty()) text += fmt::format("not seen: {}\n", o.not_seen);
    for (const auto& warning : warnings_of(o)) text += fmt::format("warning: {}\n", warning);
    return text;
}

}  // namespace polter::node
