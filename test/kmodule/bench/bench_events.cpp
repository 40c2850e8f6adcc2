// SPDX-License-Identifier: BSD-3-Clause
// What the exporter adds to a context switch, a wake-up and an interrupt: of threads that are registered, and of others while 0, 1, 64 or
// 4096 threads are; and what it takes from the whole node while many tasks exchange messages and while packets flood it. One round measures
// all of it once, with each daemon and without one in turn, so that the machine's drift is in all of them. Beside them, programs that do
// nothing, or only read the clock, at the same tracepoints: no exporter made of programs costs less. Prints JSON.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "bench_floor.hpp"
#include "bench_node.hpp"
#include "noise.h"
#include "start.hpp"

namespace {

std::uint64_t read_clock(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

// Of this process: what other load takes of the CPU does not count.
std::uint64_t cpu_ns() {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t n = values.size();
    return n == 0 ? std::nan("") : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double least(const std::vector<double>& values) {
    return values.empty() ? std::nan("") : *std::min_element(values.begin(), values.end());
}

void pin_to(const cpu_set_t& set) {
    sched_setaffinity(0, sizeof set, &set);
}

cpu_set_t last_of(const cpu_set_t& set) {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = CPU_SETSIZE - 1; i >= 0 && CPU_COUNT(&one) == 0; i--)
        if (CPU_ISSET(i, &set)) CPU_SET(i, &one);
    return one;
}

// A registration of this process.
class Client {
  public:
    Client(const std::string& socket, unsigned threads) {
        const polter_noise_options options{
            .socket_path = socket.c_str(), .job = 0, .threads = threads, .timeout_ms = 60000, .exporter = nullptr, .tracepoints = nullptr};
        char error[600] = "";
        session_ = polter_session_open(&options, error, sizeof error);
        if (!session_) throw std::runtime_error(error);
    }
    ~Client() { polter_session_close(session_); }
    Client(const Client&) = delete;
    polter_noise* open() const {
        char error[600] = "";
        polter_noise* noise = polter_noise_open(session_, error, sizeof error);
        if (!noise) throw std::runtime_error(error);
        return noise;
    }

  private:
    polter_session* session_ = nullptr;
};

// Registered threads that sleep, in a process of their own: the CPU time of a process is the sum over its threads.
class Sleepers {
  public:
    Sleepers(const std::string& socket, int threads) {
        int ready[2];
        if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(go_, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
        pid_ = fork();
        if (pid_ == 0) {
            close(go_[1]);
            sleep_until(go_[0], ready[1], socket, threads);
            _exit(0);
        }
        close(ready[1]);
        char byte;
        const bool all = read(ready[0], &byte, 1) == 1;
        close(ready[0]);
        if (!all) throw std::runtime_error(fmt::format("{} threads could not register", threads));
    }
    ~Sleepers() {
        close(go_[1]);
        waitpid(pid_, nullptr, 0);
        close(go_[0]);
    }
    Sleepers(const Sleepers&) = delete;

  private:
    static void sleep_until(int end, int ready, const std::string& socket, int threads) try {
        const Client client(socket, static_cast<unsigned>(threads));
        std::atomic<int> open{0};
        for (int i = 0; i < threads; i++)
            std::thread([&] {
                client.open();
                open++;
                pause();
            }).detach();
        while (open < threads) usleep(2000);
        char byte = 0;
        (void)!write(ready, &byte, 1);
        (void)!read(end, &byte, 1);
        _exit(0);
    } catch (const std::exception&) {
    }

    pid_t pid_ = -1;
    int go_[2];
};

// Nanoseconds of a wake-up with the switch that it leads to: two threads on one CPU that wake each other. The median of many batches, since
// a batch is short beside the disturbances, and the shortest one is luck.
double wakeup_ns(const Client* client) {
    constexpr int batches = 60, turns = 250, rounds = batches * turns;
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
    std::vector<double> results;
    for (int batch = 0; batch < batches; batch++) {
        const std::uint64_t start = cpu_ns();
        for (int i = 0; i < turns; i++) turn();
        results.push_back(static_cast<double>(cpu_ns() - start) / (2.0 * turns));
    }
    partner.join();
    polter_noise_close(noise);
    close(there);
    close(back);
    return median(results);
}

// Of this thread.
long switches_so_far() {
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

// Nanoseconds of a switch alone: two threads on one CPU that yield to each other.
double switch_ns(const Client* client) {
    constexpr int batches = 60, turns = 500;
    std::atomic<int> ready{0};
    std::atomic<bool> stop{false};
    std::thread partner([&] {
        polter_noise* noise = client ? client->open() : nullptr;
        ready = 1;
        while (!stop) sched_yield();
        polter_noise_close(noise);
    });
    polter_noise* noise = client ? client->open() : nullptr;
    while (!ready) sched_yield();
    std::vector<double> results;
    for (int batch = 0; batch < batches; batch++) {
        const long before = switches_so_far();
        const std::uint64_t start = cpu_ns();
        for (int i = 0; i < turns; i++) sched_yield();
        const std::uint64_t elapsed = cpu_ns() - start;
        // A yield need not lead to a switch; each switch away is one back.
        if (const long switched = switches_so_far() - before; switched > turns / 2)
            results.push_back(static_cast<double>(elapsed) / (2.0 * static_cast<double>(switched)));
    }
    stop = true;
    partner.join();
    polter_noise_close(noise);
    return median(results);
}

// Some five milliseconds of arithmetic.
double work_ns() {
    const std::uint64_t start = read_clock(CLOCK_MONOTONIC);
    double x = 1;
    for (int i = 0; i < 2'500'000; i++) {
        x = x * 1.0000001 + 1e-9;
        __asm__ volatile("" : : "g"(&x) : "memory");
    }
    return static_cast<double>(read_clock(CLOCK_MONOTONIC) - start);
}

// Nanoseconds that a timer interrupt takes from a thread that computes: a fixed amount of work, with 50,000 interrupts a second or without.
// The least of many each, since whatever else disturbs makes it longer. perf's CPU clock is the one timer of user space that the kernel
// starts again by itself, at once.
double interrupt_ns(const Client* client) {
    constexpr std::uint64_t period = 20'000;
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_CPU_CLOCK;
    attr.sample_period = period;
    attr.disabled = 1;
    const int timer = static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
    if (timer < 0) return std::nan("");
    polter_noise* noise = client ? client->open() : nullptr;
    double alone = 1e18, disturbed = 1e18, interrupts = 0;
    for (int i = 0; i < 60; i++) {
        alone = std::min(alone, work_ns());
        std::uint64_t elapsed = 0;
        ioctl(timer, PERF_EVENT_IOC_RESET, 0);
        ioctl(timer, PERF_EVENT_IOC_ENABLE, 0);
        const double with = work_ns();
        ioctl(timer, PERF_EVENT_IOC_DISABLE, 0);
        if (with >= disturbed || read(timer, &elapsed, sizeof elapsed) != sizeof elapsed) continue;
        disturbed = with;
        interrupts = static_cast<double>(elapsed) / double{period};
    }
    polter_noise_close(noise);
    close(timer);
    return interrupts > 10 ? (disturbed - alone) / interrupts : std::nan("");
}

const std::map<std::string, double (*)(const Client*)> events = {{"switch", switch_ns}, {"wakeup", wakeup_ns}, {"interrupt", interrupt_ns}};
const std::string nobody = "without polterd";
const std::pair<Floor::Does, const char*> floors[] = {{Floor::Does::nothing, "programs that do nothing"},
                                                      {Floor::Does::reads_clock, "programs that read the clock"}};

struct Figures {
    std::map<std::string, std::map<std::string, std::vector<double>>> of;  // by what is measured, by the state of the exporter

    nlohmann::json json(bool relative) const {
        nlohmann::json out = nlohmann::json::object();
        for (const auto& [what, by] : of)
            for (const auto& [how, values] : by) {
                auto& to = out[what][how];
                to = {{"median", median(values)}, {"least", least(values)}};
                if (how == nobody) continue;
                // Of pairs of one round, since the machine drifts.
                std::vector<double> more;
                const auto& base = by.at(nobody);
                for (std::size_t i = 0; i < values.size() && i < base.size(); i++)
                    more.push_back(relative ? 100 * (values[i] / base[i] - 1) : values[i] - base[i]);
                to[relative ? "percent" : "added"] = median(more);
                to[relative ? "percent_of_least" : "added_of_least"] =
                    relative ? 100 * (least(values) / least(base) - 1) : least(values) - least(base);
            }
        return out;
    }
};

}  // namespace

int main(int argc, char** argv) {
    std::string polterd = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../lib/polter/polterd", against;
    int rounds = 9;
    std::vector<int> counts = {0, 1, 64, 4096};
    std::vector<std::string> only = {"switch", "wakeup", "interrupt", "messages", "packets"};
    CLI::App app{"What the exporter adds to a context switch, a wake-up and an interrupt, and to the load of a whole node."};
    app.add_option("--polterd", polterd, "the daemon");
    app.add_option("--against", against, "another build of it, measured in turn");
    app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
    app.add_option("--registered", counts, "how many sleeping threads are registered while others are measured")->expected(1, 9);
    app.add_option("--only", only)->expected(1, 5)->check(CLI::IsMember({"switch", "wakeup", "interrupt", "messages", "packets"}));
    CLI11_PARSE(app, argc, argv);

    char directory[] = "/tmp/polter-bench-XXXXXX";
    if (!mkdtemp(directory)) return 1;
    chmod(directory, 0755);
    const std::string socket = std::string(directory) + "/s";
    Figures event, node;
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    const auto wanted = [&](const std::string& what) { return std::find(only.begin(), only.end(), what) != only.end(); };
    const auto measure = [&](const std::string& how, const Client* client) {
        pin_to(last_of(all));
        for (const auto& [what, cost] : events)
            if (wanted(what)) event.of[what][how].push_back(cost(client));
        pin_to(all);
        if (client) return;
        if (wanted("messages")) node.of["messages"][how].push_back(messages_seconds());
        if (wanted("packets")) node.of["packets"][how].push_back(packets_seconds());
    };
    std::vector<std::pair<std::string, std::string>> daemons = {{polterd, ""}};
    if (!against.empty()) daemons.emplace_back(against, "against: ");
    std::string error;
    try {
        for (int round = 0; round < rounds; round++) {
            measure(nobody, nullptr);
            for (const auto& [does, how] : floors) {
                const Floor floor(does);
                measure(how, nullptr);
            }
            for (std::size_t i = 0; i < daemons.size(); i++) {
                const auto& [path, prefix] = daemons[(i + static_cast<std::size_t>(round)) % daemons.size()];
                const auto daemon = polter::daemon::start_daemon(path, socket, {.exit_with_last = false});
                if (!daemon) throw std::runtime_error(daemon.reason);
                for (const int count : counts) {
                    std::optional<Sleepers> sleepers;
                    if (count) sleepers.emplace(socket, count);
                    measure(fmt::format("{}{} registered, not these", prefix, count), nullptr);
                }
                {
                    Client client(socket, 16);
                    measure(prefix + "registered", &client);
                }
                polter::daemon::stop_daemon(daemon.pid);
            }
        }
    } catch (const std::exception& e) {
        error = e.what();
    }
    std::filesystem::remove_all(directory);
    if (!error.empty()) {
        fmt::print(stderr, "bench_events: {}\n", error);
        return 77;  // cannot run here
    }
    const nlohmann::json out{
        {"schema", "polter.bench.events/1"}, {"rounds", rounds}, {"event_ns", event.json(false)}, {"node_seconds", node.json(true)}};
    fmt::print("{}\n", out.dump(2));
    return 0;
}
