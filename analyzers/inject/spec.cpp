// SPDX-License-Identifier: BSD-3-Clause
#include "spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

namespace polter::inject {

namespace {

constexpr int64_t most_period_ns = 3'600'000'000'000;
constexpr int64_t least_interrupt_period_ns = 20'000;
constexpr int64_t least_window_ns = 1'000'000;
constexpr int64_t least_duration_ns = 1'000;  // below, the switches to the injector and back are longer than the event

struct Named {
    const char* name;
    Kind kind;
    int64_t period_ns, duration_ns;
    const char* what;
};

// The patterns of 2.5 % net noise: Ferreira, Bridges, Brightwell, "Characterizing application sensitivity to OS interference using
// kernel-level noise injection", SC'08.
constexpr Named published[] = {
    {"ferreira-10hz", Kind::periodic, 100'000'000, 2'500'000, "2.5 % as 10 Hz x 2.5 ms"},
    {"ferreira-100hz", Kind::periodic, 10'000'000, 250'000, "2.5 % as 100 Hz x 250 us"},
    {"ferreira-1khz", Kind::periodic, 1'000'000, 25'000, "2.5 % as 1 kHz x 25 us"},
};

constexpr Kind kinds[] = {Kind::periodic, Kind::bernoulli, Kind::exponential, Kind::pareto,
                          Kind::replay,   Kind::timers,    Kind::packets,     Kind::calls};

[[noreturn]] void fail(const std::string& text, const std::string& what) {
    throw Error(fmt::format("injected noise \"{}\": {}", text, what));
}

template <class Number>
Number number(const std::string& text, const char* what) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) throw Error(fmt::format("\"{}\" is not {}", text, what));
    return value;
}

double part(const std::string& text) {
    const bool percent = text.ends_with('%');
    const double value = number<double>(percent ? text.substr(0, text.size() - 1) : text, "a number or a percentage");
    return percent ? value / 100 : value;
}

bool yes_or_no(const std::string& text) {
    if (text == "yes" || text == "1" || text.empty()) return true;
    if (text == "no" || text == "0") return false;
    throw Error(fmt::format("\"{}\" is neither yes nor no", text));
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> words;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        words.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

void begin_with(Spec& spec, const std::string& word) {
    for (const Kind kind : kinds)
        if (word == name_of(kind)) {
            spec.kind = kind;
            spec.name = word;
            return;
        }
    for (const Named& known : published)
        if (word == known.name) {
            spec.kind = known.kind;
            spec.name = word;
            spec.period_ns = known.period_ns;
            spec.duration_ns = known.duration_ns;
            return;
        }
    std::error_code error;
    if (std::filesystem::exists(word, error)) {
        spec.kind = Kind::replay;
        spec.name = "replay";
        spec.file = word;
        return;
    }
    std::vector<std::string> names;
    for (const Kind kind : kinds) names.push_back(name_of(kind));
    for (const Named& known : published) names.push_back(known.name);
    fail(spec.text, fmt::format("\"{}\" is no kind of noise and no file; the kinds are {}", word, fmt::join(names, ", ")));
}

void set(Spec& spec, const std::string& key, const std::string& value, double& load) {
    if (key == "period")
        spec.period_ns = parse_time(value);
    else if (key == "duration")
        spec.duration_ns = parse_time(value);
    else if (key == "load")
        load = part(value);
    else if (key == "probability")
        spec.probability = part(value);
    else if (key == "shape")
        spec.shape = number<double>(value, "a number");
    else if (key == "phase")
        spec.phase_ns = parse_time(value);
    else if (key == "seed")
        spec.seed = number<uint64_t>(value, "an integer from 0");
    else if (key == "on")
        spec.on_ns = parse_time(value);
    else if (key == "off")
        spec.off_ns = parse_time(value);
    else if (key == "after")
        spec.after_ns = parse_time(value);
    else if (key == "together")
        spec.together = yes_or_no(value);
    else if (key == "name")
        spec.name = value;
    else if (key == "file")
        spec.file = value;
    else if (key == "minus")
        spec.minus = value;
    else if (key == "cpus" || key == "ranks") {
        if (!spec.places.empty()) throw Error("give cpus or ranks once");
        spec.by_rank = key == "ranks";
        if (value != "all") spec.places = parse_places(value);
    } else
        throw Error(
            fmt::format("unknown key \"{}\"; known are period, duration, load, probability, shape, phase, on, off, after, seed, "
                        "together, cpus, ranks, file, minus, name",
                        key));
}

void check_values(const Spec& spec) {
    const auto wrong = [&](const std::string& what) { fail(spec.text, what); };
    if (spec.name.empty()) wrong("the name is empty");
    if ((spec.on_ns > 0) != (spec.off_ns > 0)) wrong("on= and off= belong together: in turn noise for the one, none for the other");
    if (spec.on_ns > 0 && std::min(spec.on_ns, spec.off_ns) < least_window_ns) wrong("on= and off= are at least 1ms");
    if (spec.interrupts() && (spec.on_ns > 0 || spec.after_ns > 0)) wrong("on, off and after are not for timers, packets and calls");
    if (spec.kind == Kind::replay) {
        if (spec.file.empty()) wrong("replay needs file=, a trace or a file of schema polter.inject/1");
        return;
    }
    if (!spec.minus.empty() || !spec.file.empty()) wrong("file and minus belong to replay");
    if (spec.period_ns < 1'000 || spec.period_ns > most_period_ns) wrong("needs period=, from 1us to 1h");
    if (spec.interrupts()) {
        if (spec.period_ns < least_interrupt_period_ns) wrong("needs period=, from 20us: more often leaves the CPU no time");
        return;
    }
    if (spec.duration_ns < least_duration_ns) wrong("needs duration= (or load=), from 1us");
    if (spec.kind == Kind::bernoulli && !(spec.probability > 0 && spec.probability <= 1)) wrong("probability is from above 0 to 1");
    if (spec.kind == Kind::pareto && !(spec.shape > 1 && spec.shape <= 100)) wrong("shape is above 1: with less there is no mean");
    if (spec.duration_ns >= spec.period_ns) wrong("the duration must be below the period");
    if (spec.phase_ns >= 0 && spec.kind != Kind::periodic) wrong("phase belongs to periodic");
}

std::vector<bool> usable_cpus() {
    std::vector<bool> usable(CPU_SETSIZE, false);
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) usable[static_cast<size_t>(cpu)] = CPU_ISSET(cpu, &set);
    return usable;
}

}  // namespace

const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::periodic:
            return "periodic";
        case Kind::bernoulli:
            return "bernoulli";
        case Kind::exponential:
            return "exponential";
        case Kind::pareto:
            return "pareto";
        case Kind::replay:
            return "replay";
        case Kind::timers:
            return "timers";
        case Kind::packets:
            return "packets";
        case Kind::calls:
            return "calls";
    }
    return "";
}

double Spec::load() const {
    if (kind == Kind::replay || interrupts()) return 0;
    const double share = static_cast<double>(duration_ns) / static_cast<double>(period_ns);
    return kind == Kind::bernoulli ? share * probability : share;
}

int64_t parse_time(const std::string& text) {
    static const std::pair<const char*, double> units[] = {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    std::string digits = text;
    double factor = 1;
    for (const auto& [unit, ns] : units)
        if (text.ends_with(unit)) {
            digits = text.substr(0, text.size() - std::string(unit).size());
            factor = ns;
            break;
        }
    const double value = number<double>(digits, "a time such as 250us, 2.5ms or 1s") * factor;
    if (!(value >= 0 && value < 1e15)) throw Error(fmt::format("\"{}\" is not a time from 0 to eleven days", text));
    return std::llround(value);
}

std::vector<int> parse_places(const std::string& text) {
    std::vector<int> places;
    const char* wanted = "a list such as 0, 0-3 or 0+2";
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find_first_of("+:", begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        const size_t dash = word.find('-');
        const int first = number<int>(word.substr(0, dash), wanted);
        const int last = dash == std::string::npos ? first : number<int>(word.substr(dash + 1), wanted);
        if (first < 0 || last < first || last - first > 1 << 20) throw Error(fmt::format("\"{}\" is not {}", text, wanted));
        for (int place = first; place <= last; ++place) places.push_back(place);
        begin = end + 1;
    }
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return places;
}

Spec parse_spec(const std::string& text) {
    Spec spec;
    spec.text = text;
    const auto words = split(text);
    begin_with(spec, words.front());
    double load = -1;
    for (size_t i = 1; i < words.size(); ++i) {
        const size_t equals = words[i].find('=');
        try {
            set(spec, words[i].substr(0, equals), equals == std::string::npos ? "" : words[i].substr(equals + 1), load);
        } catch (const Error& error) {
            fail(text, error.what());
        }
    }
    if (load >= 0) {
        if (spec.kind == Kind::replay || spec.interrupts()) fail(text, "load belongs to kinds with a period and a duration");
        if (!(load > 0) || load >= 1) fail(text, "load is above 0 and below 1 (or 100 %)");
        const double each = spec.kind == Kind::bernoulli ? load / spec.probability : load;
        if (spec.period_ns > 0)
            spec.duration_ns = std::llround(each * static_cast<double>(spec.period_ns));
        else if (spec.duration_ns > 0)
            spec.period_ns = std::llround(static_cast<double>(spec.duration_ns) / each);
        else
            fail(text, "load needs period= or duration=");
    }
    check_values(spec);
    return spec;
}

Limits limits_here() {
    Limits limits;
    int64_t runtime = 0, period = 0;
    // Where real-time threads take more than this, the kernel takes the CPU from them (or lets others go first, from Linux 6.12 on).
    std::ifstream("/proc/sys/kernel/sched_rt_runtime_us") >> runtime;
    std::ifstream("/proc/sys/kernel/sched_rt_period_us") >> period;
    if (runtime <= 0 || period <= 0) return limits;
    limits.load = std::min(limits.load, static_cast<double>(runtime) / static_cast<double>(period));
    limits.longest_ns = std::min(limits.longest_ns, runtime * 1000);
    return limits;
}

void check(const std::vector<Spec>& specs, const Limits& limits) {
    const auto usable = usable_cpus();
    std::map<std::pair<bool, int>, double> there;
    std::map<bool, double> everywhere;
    for (const Spec& spec : specs) {
        if (spec.duration_ns > limits.longest_ns)
            fail(spec.text, fmt::format("an event of {} ms is longer than the kernel lets a real-time thread run (sched_rt_runtime_us); at "
                                        "most {} ms",
                                        spec.duration_ns / 1'000'000, limits.longest_ns / 1'000'000));
        if (spec.places.empty()) everywhere[spec.by_rank] += spec.load();
        for (const int place : spec.places) {
            there[{spec.by_rank, place}] += spec.load();
            if (!spec.by_rank && (place >= CPU_SETSIZE || !usable[static_cast<size_t>(place)]))
                fail(spec.text, fmt::format("CPU {} is not there, offline, or not allowed to this process; allowed are those of "
                                            "Cpus_allowed_list in /proc/self/status",
                                            place));
        }
    }
    // Each rank runs on a CPU of those that "all" means. Where else ranks and CPUs meet is known once the ranks run.
    double most = everywhere[false] + everywhere[true];
    for (const auto& [place, load] : there) most = std::max(most, load + everywhere[false] + everywhere[true]);
    if (most > limits.load) throw Error(too_much("a CPU", most, limits.load));
}

std::string too_much(const std::string& where, double load, double most) {
    return fmt::format(
        "the injected noise would take {:.0f} % of {}; at most {:.0f} % are allowed, else the kernel throttles real-time threads and the "
        "machine does not respond. Take less",
        load * 100, where, most * 100);
}

std::string spec_help() {
    std::string text =
        "SPEC is KIND[,KEY=VALUE]..., for example periodic,period=10ms,duration=250us,ranks=0\n"
        "  periodic, bernoulli (probability=), exponential, pareto (shape=): period= and duration= or load=5%\n"
        "  replay: file=TRACE or LOG, minus=QUIET_TRACE; timers, packets, calls (from another CPU): period=\n";
    for (const Named& known : published) text += fmt::format("  {}: {}\n", known.name, known.what);
    text +=
        "  all: cpus= or ranks= (0, 0-3, 0+2, all), seed=, together=yes (the same times everywhere), phase=, name=;\n"
        "    but for timers, packets and calls: on= and off= (in turn noise and none), after= (a beginning without)\n";
    return text;
}

}  // namespace polter::inject
