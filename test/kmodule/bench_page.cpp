// SPDX-License-Identifier: BSD-3-Clause
// What the exporter costs: reading the page against other ways to ask the system, and a context switch with and without it.
// Everything that is compared is measured in turn, round by round; the figures are medians over the rounds. Prints JSON.
//   bench_page [POLTERD] [ROUNDS]
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "noise.h"
#include "start.hpp"
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

struct Client {
    polter_session* session = nullptr;
    std::string reason;
    explicit Client(const std::string& socket) {
        char error[600] = "";
        const polter_noise_options options{socket.c_str(), 0, 0, 0};
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

// Nanoseconds of a switch between two threads on one CPU that wake each other; of the least disturbed of some batches.
double switch_ns(Client* client) {
    constexpr int batches = 40, turns = 250, rounds = batches * turns;
    const int there = eventfd(0, EFD_CLOEXEC), back = eventfd(0, EFD_CLOEXEC);
    std::uint64_t value = 1;
    std::thread partner([&] {
        polter_noise* noise = client ? client->open() : nullptr;
        std::uint64_t v;
        for (int i = 0; i < rounds + 100; i++)
            if (read(there, &v, sizeof v) != sizeof v || write(back, &v, sizeof v) != sizeof v) break;
        polter_noise_close(noise);
    });
    polter_noise* noise = client ? client->open() : nullptr;
    const auto turn = [&] {
        if (write(there, &value, sizeof value) != sizeof value || read(back, &value, sizeof value) != sizeof value) abort();
    };
    for (int i = 0; i < 100; i++) turn();
    double result = 1e18;
    for (int batch = 0; batch < batches; batch++) {
        const std::uint64_t start = monotonic_ns();
        for (int i = 0; i < turns; i++) turn();
        result = std::min(result, static_cast<double>(monotonic_ns() - start) / (2.0 * turns));
    }
    partner.join();
    polter_noise_close(noise);
    close(there);
    close(back);
    return result;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string polterd =
        argc > 1 ? argv[1] : std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../lib/polter/polterd";
    const int rounds = argc > 2 ? std::max(1, atoi(argv[2])) : 15;
    char directory[] = "/tmp/polter-bench-XXXXXX";
    if (!mkdtemp(directory)) return 1;
    const std::string socket = std::string(directory) + "/s";
    const auto finish = [&](const std::string& error) {
        std::filesystem::remove_all(directory);
        if (!error.empty()) fmt::print(stderr, "bench_page: {}\n", error);
        return error.empty() ? 0 : 77;  // cannot run here
    };
    pin_to_last_cpu();
    const std::uint64_t began_ns = monotonic_ns(), began_cycles = cycles();

    std::map<std::string, std::vector<double>> costs, switches, setup;
    for (int round = 0; round < rounds; round++) {
        switches["without polterd"].push_back(switch_ns(nullptr));
        const std::uint64_t before_start = monotonic_ns();
        const auto daemon = polter::daemon::start_daemon(polterd, socket, {.exit_with_last = false});
        if (!daemon) return finish(daemon.reason);
        setup["daemon start"].push_back(static_cast<double>(monotonic_ns() - before_start) / 1e3);
        switches["not registered"].push_back(switch_ns(nullptr));
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
            polter_noise_close(noise);
            switches["registered"].push_back(switch_ns(&client));
        }
        polter::daemon::stop_daemon(daemon.pid);
    }
    nlohmann::json out{{"schema", "polter.bench_page/1"}, {"rounds", rounds}, {"unit", unit}};
    const double ns_a_cycle = static_cast<double>(monotonic_ns() - began_ns) / static_cast<double>(cycles() - began_cycles);
    for (const auto& [name, values] : costs) {
        out["read"][name] = median(values);
        out["read_ns"][name] = median(values) * ns_a_cycle;
    }
    for (const auto& [name, values] : switches) out["switch_ns"][name] = median(values);
    // Pairs of one round, since the machine drifts.
    for (const std::string name : {"not registered", "registered"}) {
        std::vector<double> added;
        for (std::size_t i = 0; i < switches[name].size(); i++) added.push_back(switches[name][i] - switches["without polterd"][i]);
        out["switch_added_ns"][name] = median(added);
    }
    for (const auto& [name, values] : setup) out["setup_us"][name] = median(values);
    fmt::print("{}\n", out.dump(2));
    return finish("");
}
