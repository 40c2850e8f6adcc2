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

std::string padded(const std::string& name, std::size_t width) {
    const std::string cell = name.size() < width ? name : name.substr(0, width - 4) + "...";
    return cell + std::string(width - std::min(width, cell.size()), ' ');
}

std::string histogram(const Stats& stats, std::size_t columns) {
    constexpr std::size_t before_bar = 40, longest_bar = 40;
    const std::size_t room = std::min(columns - std::min(columns, before_bar), longest_bar);
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
        const auto stars = *at ? std::max<std::uint64_t>(1, room * *at / most) : 0;
        text += fmt::format("    {:>9} to {:>9}  {:>10}  {}\n", duration(polter_bin_lower(from)), duration(polter_bin_lower(from + 4)), *at,
                            std::string(stars, '*'));
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

constexpr std::size_t wide = 114, usual = 80;

struct Table {
    std::uint64_t wall_ns;  // of all CPUs
    double seconds;         // of one
    bool with_idle;         // whether it can hit an idle CPU
    const TextOptions& options;
    std::string text;

    struct Cells {
        std::string name, count, rate, total, share, idle, mean, p50, p99, max;
    };
    void row(const Cells& c) {
        if (options.columns >= wide)
            text += fmt::format("{}{:>11}{:>9}{:>10}{:>9}{}{:>10}{:>10}{:>10}{:>10}\n", padded(c.name, 26), c.count, c.rate, c.total,
                                c.share, with_idle ? fmt::format("{:>9}", c.idle) : "", c.mean, c.p50, c.p99, c.max);
        else if (options.columns >= usual)
            text += fmt::format("{}{:>8}{:>9}{:>8}{}{:>9}{:>9}{:>9}\n", padded(c.name, 20), c.rate, c.total, c.share,
                                with_idle ? fmt::format("{:>8}", c.idle) : "", c.mean, c.p99, c.max);
        else
            text += fmt::format("{}{:>7}{:>9}{:>8}{:>9}{:>9}\n", padded(c.name, 18), c.rate, c.total, c.share, c.mean, c.max);
    }
    void head(const std::string& title) {
        text += "\n" + title + "\n";
        row({"", "count", "/s", "total", "share", "idle", "mean", "p50", "p99", "max"});
    }
    void line(const std::string& name, const Stats& s, const Stats* idle) {
        row({name, std::to_string(s.count), fmt::format("{:.0f}", static_cast<double>(s.count) / seconds), duration(s.total_ns),
             percent(s.total_ns, wall_ns), idle ? percent(idle->total_ns, s.total_ns) : "", duration(s.mean_ns()),
             duration(s.percentile_ns(0.5)), duration(s.percentile_ns(0.99)), duration(s.max_ns)});
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
        if (options.histogram) text += histogram(source.all, options.columns);
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

// A line a CPU: microseconds of each second; as many sources side by side as there is room for.
std::string matrix(const Observation& observation, std::size_t columns) {
    constexpr std::size_t first = 5, other = 12;
    std::vector<std::pair<std::string, unsigned>> names;  // of the accounts, then of what is none
    constexpr unsigned idle = ~0u, steal = idle - 1;
    for (const auto& source : sources_of(observation))
        if (source.account != ran && kind_of(source.account) != Kind::counted) names.emplace_back(name_of(source.account), source.account);
    names.emplace_back("idle", idle);
    names.emplace_back("steal", steal);
    std::string text = "\nBy CPU, in microseconds of each second\n";
    const std::size_t together = std::max<std::size_t>(1, (columns - first) / other);
    for (std::size_t begin = 0; begin < names.size(); begin += together) {
        const std::size_t end = std::min(names.size(), begin + together);
        if (begin > 0) text += "\n";
        text += fmt::format("{:>{}}", "CPU", first);
        for (std::size_t i = begin; i < end; i++) text += fmt::format("{:>{}}", names[i].first, other);
        text += "\n";
        for (const auto& cpu : observation.cpus) {
            const auto times = times_of(observation, cpu.cpu);
            const auto sources = sources_of(observation, cpu.cpu);
            text += fmt::format("{:>{}}", cpu.cpu, first);
            for (std::size_t i = begin; i < end; i++) {
                std::uint64_t ns = names[i].second == idle ? times.idle_ns : names[i].second == steal ? times.steal_ns : 0;
                for (const auto& source : sources)
                    if (source.account == names[i].second) ns = source.all.total_ns;
                text += fmt::format("{:>{}.1f}", times.wall_ns ? 1e6 * static_cast<double>(ns) / static_cast<double>(times.wall_ns) : 0.0,
                                    other);
            }
            text += "\n";
        }
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
    text += table(sources, Kind::interruption, "Interruptions: time of the CPUs; idle: of it, on CPUs that ran nothing", times, seconds,
                  options);
    text +=
        table(sources, Kind::wait, "Waits: time that runnable tasks lost, and to whom; several may wait at once", times, seconds, options);
    text += table(sources, Kind::task, "Who ran between switches, net of interruptions; work: of kernel workers", times, seconds, options);
    if (options.per_cpu) text += matrix(o, options.columns);
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
