// SPDX-License-Identifier: BSD-3-Clause
#include "injector.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "shared.hpp"

namespace polter::inject {

namespace {

constexpr int64_t ms = 1'000'000;

class Mapping {
  public:
    explicit Mapping(size_t targets) : places(targets), bytes_(offset + targets * sizeof(Target)) {
        memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory_ == MAP_FAILED) throw Error(fmt::format("no memory for the log of the injected noise: {}", std::strerror(errno)));
        shared = new (memory_) Shared();
        this->targets = reinterpret_cast<Target*>(static_cast<char*>(memory_) + offset);
        for (size_t i = 0; i < targets; ++i) new (&this->targets[i]) Target();
    }
    ~Mapping() { munmap(memory_, bytes_); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    const size_t places;
    Shared* shared;
    Target* targets;

  private:
    static constexpr size_t offset = (sizeof(Shared) + 4095) / 4096 * 4096;
    size_t bytes_;
    void* memory_;
};

struct Supervisor {
    const Request& request;
    std::vector<Target*> targets;
    Shared* shared = nullptr;
    pid_t worker = -1;
    int worker_fd = -1, signal_fd = -1, begin_fd = -1;
    bool worker_gone = false;
    int worker_status = 0;
    Log log;

    void drain() {
        for (Target* target : targets) {
            const uint64_t written = target->written.load(std::memory_order_acquire);
            auto& events = log.sources[static_cast<size_t>(target->spec)].events;
            for (uint64_t i = target->taken; i < written; ++i) events.push_back(target->events[i % Target::ring]);
            target->taken.store(written, std::memory_order_release);
        }
    }

    // A quarter of a ring's time at the highest rate: waking up more often would itself be noise.
    int64_t longest_wait() const {
        constexpr size_t quarter = Target::ring / 4;
        int64_t wait = 10'000 * ms;
        for (const Spec& spec : request.specs)
            if (spec.period_ns > 0 && spec.period_ns < wait && !spec.interrupts())
                wait = std::min(wait, spec.period_ns * static_cast<int64_t>(quarter));
        for (const auto& by_place : request.listed)
            for (const auto& [place, events] : by_place)
                for (size_t i = quarter; i < events.size(); ++i) wait = std::min(wait, events[i].begin_ns - events[i - quarter].begin_ns);
        return std::max(wait, 10 * ms);
    }

    void wait_for_end() {
        const int64_t most = longest_wait();
        for (;;) {
            const int64_t left = shared->until_ns - monotonic_ns();
            if (left <= 0) return;
            pollfd files[] = {{worker_fd, POLLIN, 0}, {signal_fd, POLLIN, 0}, {request.stop_fd, POLLIN, 0}};
            const int ready = poll(files, request.stop_fd < 0 ? 2 : 3, static_cast<int>(std::min(left, most) / ms + 1));
            drain();
            if (ready > 0) return;
        }
    }

    // A thread asleep is woken; one that takes the CPU ends its event first.
    void stop_worker() {
        shared->stop = true;
        for (int tries = 0; tries < 400; ++tries) {
            if (waitpid(worker, &worker_status, WNOHANG) == worker) {
                worker_gone = true;
                break;
            }
            syscall(SYS_tgkill, worker, worker, SIGUSR1);
            for (Target* target : targets)
                if (const pid_t thread = target->thread; thread > 0) syscall(SYS_tgkill, worker, thread, SIGUSR1);
            pollfd file{worker_fd, POLLIN, 0};
            poll(&file, 1, 5);
        }
        if (!worker_gone) {
            kill(worker, SIGKILL);
            waitpid(worker, &worker_status, 0);
        }
        drain();
    }

    void judge() {
        if (WIFSIGNALED(worker_status))
            log.incomplete = fmt::format("the injector was ended by signal {} ({}); noise stopped at that time", WTERMSIG(worker_status),
                                         strsignal(WTERMSIG(worker_status)));
        size_t failed = 0;
        std::string first;
        for (const Target* target : targets) {
            const auto where = target->pid ? fmt::format("rank {}", target->place) : fmt::format("CPU {}", target->cpu);
            if (target->step == Step::failed) {
                ++failed;
                const Spec& spec = request.specs[static_cast<size_t>(target->spec)];
                const bool events = spec.kind == Kind::timers || spec.kind == Kind::calls;
                if (first.empty())
                    first = fmt::format("{}: {}: {}{}", spec.text, where, std::strerror(target->error),
                                        !events ? ""
                                        : target->error == EACCES || target->error == EPERM
                                            ? "; needs CAP_PERFMON or kernel.perf_event_paranoid below 1"
                                        : spec.kind == Kind::calls && target->error == ENODEV ? "; needs a second CPU, to call from"
                                                                                              : "");
            }
            if (target->step == Step::ring_full) log.incomplete = fmt::format("{}: events came faster than the log could take them", where);
            if (target->unbound)
                log.warnings.push_back(
                    fmt::format("{} is not bound to one CPU, so it can move away from the noise; bind it (Open MPI: "
                                "--bind-to core, MPICH: -bind-to core)",
                                where));
        }
        if (failed == targets.size()) throw Error(fmt::format("no noise was injected: {}", first));
        if (failed > 0) log.warnings.push_back(fmt::format("{} of {} injectors did not start: {}", failed, targets.size(), first));
    }

    void note_interrupts() {
        for (size_t i = 0; i < request.specs.size(); ++i) {
            const Spec& spec = request.specs[i];
            if (!spec.interrupts()) continue;
            LoggedInterrupts entry{spec.name, spec.text, {}, spec.period_ns, shared->start_ns, log.end_ns, 0};
            for (const Target* target : targets) {
                if (target->spec != static_cast<int32_t>(i)) continue;
                entry.cpus.push_back(target->cpu);
                entry.caused += target->caused;
            }
            log.interrupts.push_back(std::move(entry));
        }
    }
};

int cpu_of(pid_t pid) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(pid, sizeof set, &set) != 0) return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) return cpu;
    return -1;
}

struct Wanted {
    int32_t spec, place, cpu;
    pid_t pid;
};

std::vector<Wanted> wanted_targets(const Request& request, const std::vector<Rank>& ranks) {
    std::vector<Wanted> wanted;
    for (size_t i = 0; i < request.specs.size(); ++i) {
        const Spec& spec = request.specs[i];
        const auto number = static_cast<int32_t>(i);
        if (!spec.by_rank) {
            const auto cpus = cpus_of(spec);
            for (size_t k = 0; k < cpus.size(); ++k) wanted.push_back({number, static_cast<int32_t>(k), cpus[k], 0});
            continue;
        }
        for (const Rank& rank : ranks)
            if (spec.places.empty() || std::binary_search(spec.places.begin(), spec.places.end(), rank.rank))
                wanted.push_back({number, rank.rank, cpu_of(rank.pid), rank.pid});
    }
    return wanted;
}

bool is_bound(const Wanted& one) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return one.pid == 0 || (sched_getaffinity(one.pid, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1);
}

// CPUs and bound ranks that share a CPU add up. Where ranks that are not bound meet, the worker itself keeps the CPU's free part.
void check_sums(const Request& request, const std::vector<Wanted>& wanted, double most) {
    std::map<int, double> sums;
    for (const Wanted& one : wanted)
        if (is_bound(one)) sums[one.cpu] += request.specs[static_cast<size_t>(one.spec)].load();
    for (const auto& [cpu, sum] : sums)
        if (sum > most) throw Error(too_much(fmt::format("CPU {}", cpu), sum, most));
}

int blocked_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Schedule schedule_of(const Request& request, const Target& target, int64_t longest_ns) {
    std::vector<Event> listed;
    const auto spec = static_cast<size_t>(target.spec);
    if (spec < request.listed.size())
        if (const auto found = request.listed[spec].find(target.place); found != request.listed[spec].end()) listed = found->second;
    return {request.specs[spec], static_cast<uint64_t>(target.place), std::move(listed), longest_ns};
}

// How many targets there may be: ranks are usually bound, one to a CPU. More are possible, but the worker is then started a second time.
size_t expected_targets(const Request& request) {
    size_t sum = 0;
    for (const Spec& spec : request.specs)
        sum += !spec.by_rank          ? cpus_of(spec).size()
               : !spec.places.empty() ? spec.places.size()
                                      : static_cast<size_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
    return sum;
}

void start_worker(Supervisor& supervisor, Mapping& mapping, const Limits& limits) {
    supervisor.shared = mapping.shared;
    int begin[2];
    if (pipe2(begin, O_CLOEXEC) != 0) throw Error(fmt::format("the injector cannot be started: {}", std::strerror(errno)));
    const pid_t self = getpid();
    supervisor.worker = fork();
    if (supervisor.worker < 0) throw Error(fmt::format("the injector cannot be started: {}", std::strerror(errno)));
    if (supervisor.worker == 0) {
        close(begin[1]);
        const Request& request = supervisor.request;
        work(
            *mapping.shared, mapping.targets, [&](const Target& target) { return schedule_of(request, target, limits.longest_ns); },
            request.specs, self, begin[0]);
    }
    close(begin[0]);
    supervisor.begin_fd = begin[1];
    supervisor.worker_fd = static_cast<int>(syscall(SYS_pidfd_open, supervisor.worker, 0));
}

// One that has not begun: it ends with its pipe.
void drop_worker(Supervisor& supervisor) {
    close(supervisor.begin_fd);
    waitpid(supervisor.worker, nullptr, 0);
    if (supervisor.worker_fd >= 0) close(supervisor.worker_fd);
}

void begin(Supervisor& supervisor, Mapping& mapping, const std::vector<Wanted>& wanted, double most_load) {
    for (size_t i = 0; i < wanted.size(); ++i) {
        Target& target = mapping.targets[i];
        target.spec = wanted[i].spec;
        target.place = wanted[i].place;
        target.cpu = wanted[i].cpu;
        target.pid = wanted[i].pid;
        supervisor.targets.push_back(&target);
    }
    mapping.shared->targets = static_cast<uint32_t>(wanted.size());
    mapping.shared->most_load = most_load;
    Log& log = supervisor.log;
    mapping.shared->start_ns = log.begin_ns = log.origin_ns = monotonic_ns() + 5 * ms;  // once all threads have started
    mapping.shared->until_ns = log.begin_ns + supervisor.request.length_ns;
    // Where the worker is gone already, its end tells why.
    const auto ignored = signal(SIGPIPE, SIG_IGN);
    [[maybe_unused]] const auto written = write(supervisor.begin_fd, "", 1);
    signal(SIGPIPE, ignored);
    close(supervisor.begin_fd);
}

}  // namespace

std::vector<int> cpus_of(const Spec& spec) {
    if (!spec.places.empty()) return spec.places;
    std::vector<int> cpus;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

Log inject(const Request& request) {
    const Limits limits = limits_here();
    auto mapping = std::make_unique<Mapping>(expected_targets(request));
    Supervisor supervisor{request};
    for (const Spec& spec : request.specs) supervisor.log.sources.push_back({spec.name, spec.text, {}});
    supervisor.signal_fd = blocked_signals();
    Log& log = supervisor.log;
    start_worker(supervisor, *mapping, limits);
    std::vector<Wanted> wanted;
    try {
        wanted = wanted_targets(request, request.find_ranks ? request.find_ranks() : std::vector<Rank>());
        if (wanted.empty()) throw Error("no noise was injected: none of the ranks asked for runs on this node");
        check_sums(request, wanted, limits.load);
    } catch (...) {
        drop_worker(supervisor);
        throw;
    }
    if (wanted.size() > mapping->places) {
        drop_worker(supervisor);
        mapping = std::make_unique<Mapping>(wanted.size());
        start_worker(supervisor, *mapping, limits);
    }
    begin(supervisor, *mapping, wanted, limits.load);
    supervisor.wait_for_end();
    supervisor.stop_worker();
    if (supervisor.worker_fd >= 0) close(supervisor.worker_fd);
    if (supervisor.signal_fd >= 0) close(supervisor.signal_fd);
    log.end_ns = monotonic_ns();
    log.real_time = !mapping->shared->normal_priority;
    if (!log.real_time)
        log.warnings.push_back(
            "real-time priority is not allowed here (ulimit -r, CAP_SYS_NICE): the injector competes as an ordinary task, "
            "so its events come late and in pieces; the log has the CPU time that it got");
    if (mapping->shared->not_locked)
        log.warnings.push_back("the injector's memory could not be locked (ulimit -l): page faults may prolong events");
    if (mapping->shared->packets_here)
        log.warnings.push_back(
            "packets are received on the CPU that sends them, so their softirqs are part of a preemption by polter-packets: receiving them "
            "on another CPU needs a second CPU and the right to make a network namespace (CAP_SYS_ADMIN)");
    supervisor.judge();
    supervisor.note_interrupts();
    for (LoggedSource& source : log.sources)
        std::stable_sort(source.events.begin(), source.events.end(),
                         [](const Injected& a, const Injected& b) { return a.begin_ns < b.begin_ns; });
    return std::move(log);
}

}  // namespace polter::inject
