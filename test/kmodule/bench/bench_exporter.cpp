// SPDX-License-Identifier: BSD-3-Clause
// What the exporter costs those who use it: reading the page against other ways to ask the system, and registering. (bench_events.cpp has
// what it adds to switches and interrupts.) What is compared is measured in turn, round by round; the figures are medians. Prints JSON.
//   bench_exporter [POLTERD] [ROUNDS]    0 rounds: only many clients at once
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "bench_crowds.hpp"
#include "noise.h"
#include "start.hpp"
#ifdef POLTER_HAVE_PAPI
#include <papi.h>
#endif
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace {

std::uint64_t monotonic_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

#if defined(__x86_64__)
constexpr const char* unit = "cycles";
std::uint64_t cycles() {
    return __rdtsc();
}
#else
constexpr const char* unit = "ns";
std::uint64_t cycles() {
    return monotonic_ns();
}
#endif

template <class T>
void keep(const T& value) {
    __asm__ volatile("" : : "g"(&value) : "memory");
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void pin_to_last_cpu() {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    int last = 0;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) last = i;
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    sched_setaffinity(0, sizeof set, &set);
}

// Cycles of one call: the least disturbed of some short batches, so that an interruption in one does not count.
template <class F>
double cost(F&& call) {
    double best = 1e18;
    for (int batch = 0; batch < 10; batch++) {
        constexpr int calls = 200;
        const std::uint64_t start = cycles();
        for (int i = 0; i < calls; i++) call();
        best = std::min(best, static_cast<double>(cycles() - start) / calls);
    }
    return best;
}

long resident_kb(pid_t pid) {
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
    return -1;
}

int descriptors_of(pid_t pid) {
    std::error_code error;
    int n = 0;
    for (std::filesystem::directory_iterator it(fmt::format("/proc/{}/fd", pid), error), end; !error && it != end; it.increment(error)) n++;
    return n;
}

#ifdef POLTER_HAVE_PAPI
// One software event, which every kernel has, running. PAPI_NULL: PAPI cannot count here.
int papi_events() {
    static const bool ready = PAPI_library_init(PAPI_VER_CURRENT) == PAPI_VER_CURRENT;
    int set = PAPI_NULL;
    if (!ready || PAPI_create_eventset(&set) != PAPI_OK) return PAPI_NULL;
    for (const char* event : {"perf::TASK-CLOCK", "perf::PAGE-FAULTS"})
        if (PAPI_add_named_event(set, event) == PAPI_OK && PAPI_start(set) == PAPI_OK) return set;
    PAPI_destroy_eventset(&set);
    return PAPI_NULL;
}
#endif

struct Client {
    polter_session* session = nullptr;
    std::string reason;
    explicit Client(const std::string& socket) {
        char error[600] = "";
        const polter_noise_options options{
            .socket_path = socket.c_str(), .job = 0, .threads = 0, .timeout_ms = 0, .exporter = nullptr, .tracepoints = nullptr};
        session = polter_session_open(&options, error, sizeof error);
        reason = error;
    }
    ~Client() { polter_session_close(session); }
    polter_noise* open() {
        char error[600] = "";
        polter_noise* noise = session ? polter_noise_open(session, error, sizeof error) : nullptr;
        if (session && !noise) reason = error;
        return noise;
    }
};

// Of this thread, counting. -1: refused.
int software_event(std::uint64_t which) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = which;
    return static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

// Of this process, its peak included: a thousand threads at once, then many that come and go. Microseconds.
nlohmann::json many_threads(const std::string& socket, pid_t daemon) {
    constexpr int threads = 1000, cycles_each = 10, comers = 1000;
    nlohmann::json out;
    char error[600] = "";
    const polter_noise_options options{
        .socket_path = socket.c_str(), .job = 0, .threads = threads + 24, .timeout_ms = 60000, .exporter = nullptr, .tracepoints = nullptr};
    polter_session* session = polter_session_open(&options, error, sizeof error);
    if (!session) return {{"error", error}};
    std::mutex lock;
    std::vector<double> times;
    std::atomic<int> failed{0};
    const auto one = [&] {
        char why[600];
        const std::uint64_t start = monotonic_ns();
        polter_noise* noise = polter_noise_open(session, why, sizeof why);
        const double us = static_cast<double>(monotonic_ns() - start) / 1e3;
        if (!noise) failed++;
        const std::lock_guard guard(lock);
        times.push_back(us);
        return noise;
    };
    const auto percentile = [&](double part) {
        std::sort(times.begin(), times.end());
        return times.empty() ? 0.0 : times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
    };
    {
        std::vector<std::thread> all;
        std::atomic<int> open{0};
        std::atomic<bool> go{false};
        for (int i = 0; i < threads; i++)
            all.emplace_back([&] {
                polter_noise* noise = one();
                open++;
                go.wait(false);
                polter_noise_close(noise);
            });
        while (open < threads) usleep(10000);
        out["at_once"] = {{"threads", threads}, {"failed", failed.load()}, {"median_us", percentile(0.5)}, {"p99_us", percentile(0.99)}};
        out["daemon_kb_with_them"] = resident_kb(daemon);
        go = true;
        go.notify_all();
        for (auto& thread : all) thread.join();
    }
    times.clear();
    const long before = resident_kb(daemon);
    const int descriptors = descriptors_of(daemon);
    for (int round = 0; round < comers / 8; round++) {
        std::vector<std::thread> all;
        for (int i = 0; i < 8; i++)
            all.emplace_back([&] {
                for (int k = 0; k < cycles_each; k++) polter_noise_close(one());
            });
        for (auto& thread : all) thread.join();
    }
    out["come_and_go"] = {{"cycles", comers / 8 * 8 * cycles_each},
                          {"failed", failed.load()},
                          {"median_us", percentile(0.5)},
                          {"p99_us", percentile(0.99)},
                          {"daemon_grew_kb", resident_kb(daemon) - before},
                          {"daemon_grew_descriptors", descriptors_of(daemon) - descriptors}};
    polter_session_close(session);
    return out;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string polterd =
        argc > 1 ? argv[1] : std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../lib/polter/polterd";
    const int rounds = argc > 2 ? std::max(0, atoi(argv[2])) : 15;
    char directory[] = "/tmp/polter-bench-XXXXXX";
    if (!mkdtemp(directory)) return 1;
    const std::string socket = std::string(directory) + "/s";
    const auto finish = [&](const std::string& error) {
        std::filesystem::remove_all(directory);
        if (!error.empty()) fmt::print(stderr, "bench_exporter: {}\n", error);
        return error.empty() ? 0 : 77;  // cannot run here
    };
    chmod(directory, 0755);
    const nlohmann::json at_once = crowds(polterd, socket, rounds == 0 ? 3 : 1);
    if (rounds == 0) {
        fmt::print("{}\n", at_once.dump(2));
        return finish(at_once.contains("error") ? at_once["error"].get<std::string>() : "");
    }
    pin_to_last_cpu();
    const std::uint64_t began_ns = monotonic_ns(), began_cycles = cycles();

    std::map<std::string, std::vector<double>> costs, setup;
    nlohmann::json many;
    for (int round = 0; round < rounds; round++) {
        const std::uint64_t before_start = monotonic_ns();
        const auto daemon = polter::daemon::start_daemon(polterd, socket, {.exit_with_last = false});
        if (!daemon) return finish(daemon.reason);
        setup["daemon start"].push_back(static_cast<double>(monotonic_ns() - before_start) / 1e3);
        {
            const std::uint64_t t0 = monotonic_ns();
            Client client(socket);
            const std::uint64_t t1 = monotonic_ns();
            polter_noise* noise = client.open();
            const std::uint64_t t2 = monotonic_ns();
            if (!noise) {
                polter::daemon::stop_daemon(daemon.pid);
                return finish(client.reason);
            }
            setup["register process"].push_back(static_cast<double>(t1 - t0) / 1e3);
            setup["register thread"].push_back(static_cast<double>(t2 - t1) / 1e3);
            polter_counters counters;
            const int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
            char text[128];
            polter_noise_snapshot(noise, &counters);
            costs["moved"].push_back(cost([&] { keep(polter_noise_moved(noise)); }));
            costs["snapshot"].push_back(cost([&] {
                polter_noise_snapshot(noise, &counters);
                keep(counters);
            }));
            costs["cycle counter"].push_back(cost([] { keep(cycles()); }));
            costs["clock_gettime"].push_back(cost([] { keep(monotonic_ns()); }));
            costs["getppid"].push_back(cost([] { keep(syscall(SYS_getppid)); }));
            rusage usage;
            costs["getrusage"].push_back(cost([&] { keep(getrusage(RUSAGE_THREAD, &usage)); }));
            costs["pread schedstat"].push_back(cost([&] { keep(pread(schedstat, text, sizeof text, 0)); }));
            close(schedstat);
            // The least that PAPI_read does for a software event, which PAPI 7.0 refuses to count where the machine has no counters.
            if (const int event = software_event(PERF_COUNT_SW_TASK_CLOCK); event >= 0) {
                std::uint64_t value = 0;
                costs["read perf event"].push_back(cost([&] { keep(read(event, &value, sizeof value)); }));
                close(event);
            }
#ifdef POLTER_HAVE_PAPI
            if (int set = papi_events(); set != PAPI_NULL) {
                long long value = 0;
                costs["PAPI_read"].push_back(cost([&] { keep(PAPI_read(set, &value)); }));
                PAPI_stop(set, &value);
                PAPI_cleanup_eventset(set);
                PAPI_destroy_eventset(&set);
            }
#endif
            polter_noise_close(noise);
        }
        if (round == 0) many = many_threads(socket, daemon.pid);
        polter::daemon::stop_daemon(daemon.pid);
    }
    nlohmann::json out{{"schema", "polter.bench.exporter/1"}, {"rounds", rounds}, {"unit", unit}};
    const double ns_a_cycle = static_cast<double>(monotonic_ns() - began_ns) / static_cast<double>(cycles() - began_cycles);
    for (const auto& [name, values] : costs) {
        out["read"][name] = median(values);
        out["read_ns"][name] = median(values) * ns_a_cycle;
    }
    for (const auto& [name, values] : setup) out["setup_us"][name] = median(values);
    out["threads"] = many;
    out["at_once"] = at_once;
    fmt::print("{}\n", out.dump(2));
    return finish("");
}
