// SPDX-License-Identifier: BSD-3-Clause
// The accounts against what the kernel says itself, on a real polterd: run-delay, switch counts, /proc/interrupts, CPU quotas.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "support/measured.hpp"

TEST_CASE("a competitor on the thread's CPU is preempt, agrees with run-delay, and is named") {
    Daemon daemon;
    Pinned pinned;
    Competitor competitor("competitor", 2 * ms, 8 * ms);
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    const std::uint64_t ran = competitor.ran();
    Measured m = measure(noise.get(), 2000 * ms, spin, competitor.runs(100 * ms));
    const std::uint64_t its = competitor.ran() - ran;
    const std::uint64_t counted = m.count[POLTER_PREEMPT] + m.yields;
    CHECK(between(m.off(), m.delay, m.delay_around, 0.02));
    CHECK(counted + 2 >= m.nonvoluntary);
    CHECK(counted <= m.nonvoluntary_around + 2);
    CHECK(its > 100 * ms);
    CAPTURE(its);
    CHECK(agrees(m.culprits["preempt:competitor"], its, m.stolen));
    CHECK(m.ns[POLTER_PREEMPT_JOB] == 0);
}

TEST_CASE("after a yield a mate's time is apart, and a stranger's is preempt") {
    Daemon daemon;
    Pinned pinned;
    for (const std::uint64_t other_job : {77u, 78u}) {
        CAPTURE(other_job);
        const bool mate = other_job == 77;
        Competitor competitor("competitor", 2 * ms, 8 * ms, [&] {
            auto* session = new Session(daemon.socket(), 0, other_job);  // until it is killed
            if (!session->handle) _exit(1);
        });
        CHECK(soon([&] { return probe(daemon.socket()).processes == 1; }));
        Session session(daemon.socket(), 0, 77);
        const auto noise = session.open();
        REQUIRE(noise);
        const std::uint64_t ran = competitor.ran();
        Measured m = measure(
            noise.get(), 1000 * ms,
            [](std::uint64_t ns) {
                for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) sched_yield();
            },
            competitor.runs(100 * ms));
        const std::uint64_t its = competitor.ran() - ran;
        const std::uint64_t counted = m.count[POLTER_PREEMPT] + m.yields;
        CHECK(between(m.off(), m.delay, m.delay_around, 0.02));
        CHECK(counted <= m.nonvoluntary_around + 3);
        if (!mate) CHECK(counted + 3 >= m.nonvoluntary);  // a mate preempts, too
        const std::uint64_t taken = m.culprits["preempt:competitor"], given = m.after_yield + m.culprits["preempt_job:competitor"];
        CAPTURE(its);
        if (mate) {
            CHECK(taken == 0);
            CHECK(m.yields > 5);
            CHECK(given >= its - std::min(its, its / 20 + 10 * ms));
        } else {
            CHECK(agrees(taken, its, m.stolen));
            CHECK(m.culprits["preempt_job:competitor"] == 0);
        }
    }
}

TEST_CASE("a mate of the job is preempt_job, the same process under another job is preempt") {
    Daemon daemon;
    Pinned pinned;
    for (const std::uint64_t other_job : {77u, 78u}) {
        CAPTURE(other_job);
        Competitor mate("mate", 5 * ms, 0, [&] {
            auto* session = new Session(daemon.socket(), 0, other_job);  // until it is killed
            if (!session->handle) _exit(1);
        });
        CHECK(soon([&] { return probe(daemon.socket()).processes == 1; }));
        Session session(daemon.socket(), 0, 77);
        const auto noise = session.open();
        REQUIRE(noise);
        const std::uint64_t ran = mate.ran();
        Measured m = measure(noise.get(), 1000 * ms, spin, mate.runs(20 * ms));
        const std::uint64_t its = mate.ran() - ran;
        const unsigned expected = other_job == 77 ? POLTER_PREEMPT_JOB : POLTER_PREEMPT;
        CHECK(its > 20 * ms);
        CHECK(agrees(m.culprits[std::string(polter_account_name(expected)) + ":mate"], its, m.stolen));
        CHECK(m.culprits[std::string(polter_account_name(other_job == 77 ? POLTER_PREEMPT : POLTER_PREEMPT_JOB)) + ":mate"] == 0);
        CHECK(between(m.off(), m.delay, m.delay_around, 0.02));
    }
}

TEST_CASE("a thread of the own process is a mate, registered or not") {
    Daemon daemon;
    Pinned pinned;
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    std::atomic<bool> stop{false};
    std::thread other([&] {
        while (!stop) {
        }
    });
    const auto ran = [&] {
        clockid_t clock;
        timespec t{};
        if (pthread_getcpuclockid(other.native_handle(), &clock) == 0) clock_gettime(clock, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
    };
    const std::uint64_t before = ran();
    Measured m = measure(noise.get(), 600 * ms, spin, [&] { return ran() - before > 20 * ms; });
    const std::uint64_t its = ran() - before;
    stop = true;
    other.join();
    CHECK(its > 20 * ms);
    CHECK(agrees(m.ns[POLTER_PREEMPT_JOB], its, m.stolen));
}

TEST_CASE("waiting after a wake-up while another runs is runqueue; sleep is nothing") {
    Daemon daemon;
    Pinned pinned;
    const sched_param real_time{10};
    const bool allowed = in_child([&] { return sched_setscheduler(0, SCHED_FIFO, &real_time) == 0 ? 0 : 1; }) == 0;
    if (!allowed) MESSAGE("no real-time scheduling here, which puts a competitor first: not tested");
    std::unique_ptr<Competitor> competitor;
    if (allowed) competitor = std::make_unique<Competitor>("fifo", 6 * ms, 4 * ms, [&] { sched_setscheduler(0, SCHED_FIFO, &real_time); });
    Session session(daemon.socket());  // after it was started: it is a stranger
    const auto noise = session.open();
    REQUIRE(noise);
    std::uint64_t sleeps = 0;
    const auto sleeper = [&](std::uint64_t ns) {
        for (const std::uint64_t end = monotonic_ns() + ns; monotonic_ns() < end;) {
            const timespec t{0, static_cast<long>(ms)};
            sleeps += nanosleep(&t, nullptr) == 0;
        }
    };
    if (allowed) {
        sleep_ms(20);
        Measured m = measure(noise.get(), 1500 * ms, sleeper);
        CHECK(m.culprits["runqueue:fifo"] > m.wall / 10);
        CHECK(m.culprits["preempt:fifo"] < m.wall / 10);
        CHECK(m.ns[POLTER_PREEMPT] + m.ns[POLTER_RUNQUEUE] > 0);
        // Wake-ups on an idle CPU, which take long on some machines, the kernel's sum counts in part: it ends a wait early.
        const std::uint64_t busy = m.ns[POLTER_PREEMPT] + m.ns[POLTER_RUNQUEUE];
        CHECK(static_cast<double>(busy) <= 1.05 * static_cast<double>(m.delay_around));
        CHECK(static_cast<double>(busy + m.ns[POLTER_WAKEUP]) >= 0.95 * static_cast<double>(m.delay));
    }
    competitor.reset();
    sleeps = 0;
    Measured m = measure(noise.get(), 500 * ms, sleeper, [&] { return sleeps > 50; });
    CHECK(m.count[POLTER_WAKEUP] + m.count[POLTER_RUNQUEUE] > 20);
    CHECK(m.all() + sleeps * ms <= m.wall_around + 2 * ms);  // none of the sleep
}

TEST_CASE("the local timer's count is that of /proc/interrupts for a thread that has its CPU alone") {
    Daemon daemon;
    Pinned pinned;
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    const auto ticks = [] {
        std::ifstream file("/proc/interrupts");
        std::string line, word;
        std::getline(file, line);
        std::istringstream header(line);
        int column = -1;
        for (int i = 0; header >> word; i++)
            if (word == "CPU" + std::to_string(cpu)) column = i;
        while (std::getline(file, line)) {
            std::istringstream fields(line);
            fields >> word;
            if (word != "LOC:") continue;
            std::uint64_t n = 0;
            for (int i = 0; i <= column; i++) fields >> n;
            return n;
        }
        return std::uint64_t{0};
    };
    if (ticks() == 0) {
        MESSAGE("/proc/interrupts has no LOC line here: not tested");
        return;
    }
    const sched_param first{50}, none{0};
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) {
        MESSAGE("no real-time scheduling here, so no CPU alone: not tested");
        return;
    }
    retry([&](bool last) {
        const std::uint64_t before = ticks();
        Measured m = measure(noise.get(), 800 * ms, spin);
        const std::uint64_t counted = ticks() - before;
        // The readings lie around the measurement: some ticks apart, which weigh more where there are few in a second.
        const bool good = m.count[POLTER_TIMER] <= counted && counted - m.count[POLTER_TIMER] <= 3 + counted / 50;
        if (!good && !last) return false;
        CAPTURE(counted);
        CAPTURE(m.count[POLTER_TIMER]);
        CHECK(good);
        return true;
    });
    sched_setscheduler(0, SCHED_OTHER, &none);
}

TEST_CASE("the program's own communication is net, not noise") {
    Daemon daemon;
    Pinned pinned;
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(s, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        getsockname(s, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        MESSAGE("no loopback interface here: not tested");
        return;
    }
    std::uint64_t sent = 0;
    Measured m = measure(
        noise.get(), 300 * ms,
        [&](std::uint64_t) {
            char byte = 0;
            for (int i = 0; i < 100; i++) {
                if (sendto(s, &byte, 1, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 1) continue;
                (void)!recv(s, &byte, 1, MSG_DONTWAIT);
                sent++;
            }
        },
        [&] { return sent > 2000; });
    close(s);
    CHECK(m.count[POLTER_NET] > 1000);
    for (const auto& [name, time] : m.culprits)
        if (name.rfind("softirq:", 0) == 0) CHECK(name.find("NET") == std::string::npos);
}

namespace {

// A cgroup with a CPU quota of 1 %, less than its share of a busy machine, of either version; an empty path where there is none to be had.
struct Quota {
    std::string path;
    Quota() {
        const std::string name = "/polter-quota";
        const auto write = [](const std::string& file, const std::string& text) {
            std::ofstream out(file);
            out << text;
            out.flush();
            return out.good();
        };
        for (const std::string root : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"}) {
            std::error_code error;
            if (!std::filesystem::exists(root + (root == "/sys/fs/cgroup" ? "/cgroup.controllers" : "/tasks"))) continue;
            if (root == "/sys/fs/cgroup") write(root + "/cgroup.subtree_control", "+cpu");
            std::filesystem::create_directory(root + name, error);
            if (write(root + name + "/cpu.cfs_period_us", "100000") && write(root + name + "/cpu.cfs_quota_us", "1000")) path = root + name;
            if (path.empty() && write(root + name + "/cpu.max", "1000 100000")) path = root + name;
            if (!path.empty()) return;
            std::filesystem::remove(root + name, error);
        }
    }
    ~Quota() {
        if (!path.empty()) soon([&] { return rmdir(path.c_str()) == 0; });
    }
    bool enter() const {
        std::ofstream out(path + "/cgroup.procs");
        out << getpid();
        out.flush();
        return out.good();
    }
};

}  // namespace

TEST_CASE("a CPU quota is throttle, under the cgroup's name") {
    Quota quota;
    if (quota.path.empty()) {
        MESSAGE("no cgroup with a CPU quota can be made here: not tested");
        return;
    }
    Daemon daemon;
    const int result = in_child([&] {
        pin(cpu);
        Session session(daemon.socket());
        const auto noise = session.open();
        if (!noise) return 1;
        if (!quota.enter()) return 77;
        const auto throttled = [&] {
            polter_counters c{};
            polter_noise_snapshot(noise.get(), &c);
            return c.ns[POLTER_THROTTLE];
        };
        // Half a second: a busy machine may leave it so little that it is hardly throttled.
        Measured m = measure(noise.get(), 2000 * ms, spin, [&, first = throttled()] { return throttled() > first + 500 * ms; });
        std::printf("in the cgroup: %s\n", m.text().c_str());
        std::fflush(stdout);
        if (m.ns[POLTER_THROTTLE] < 500 * ms) return 2;
        if (m.culprits["throttle:polter-quota"] < 500 * ms) return 3;
        // Nothing is missing: what it did not run it was throttled, or waited. A whole throttle (100 ms) can lie between two of the
        // readings that begin the measurement, hence the readings around it.
        if (!between(m.off() + m.cpu, m.wall, m.wall_around, 0.03)) return 4;
        if (!between(m.off(), m.delay, m.delay_around, 0.02)) return 5;
        return 0;
    });
    if (result == 77)
        MESSAGE("no process can be put into a cgroup here: not tested");
    else
        CHECK(result == 0);
}

TEST_CASE("reading from elsewhere while the kernel writes: nothing torn, nothing backward") {
    Daemon daemon;
    Session session(daemon.socket());
    Session::Page page;
    std::atomic<bool> ready{false}, stop{false};
    std::thread worker([&] {  // much scheduling, many interrupts: it yields, sleeps and sends
        pin(cpu);
        page = session.open();
        ready = true;
        while (!stop) {
            for (int i = 0; i < 50; i++) sched_yield();
            const timespec t{0, 1000};
            nanosleep(&t, nullptr);
        }
    });
    Competitor competitor("nagger", 100'000, 50'000);
    while (!ready) sched_yield();
    REQUIRE(page);
    polter_counters last{}, now;
    std::uint64_t reads = 0, beaten = 0, backward = 0, changes = 0;
    for (const std::uint64_t begin = monotonic_ns();
         monotonic_ns() - begin < 2000 * ms || (changes <= 20 && monotonic_ns() - begin < patience); reads++) {
        if (polter_noise_snapshot(page.get(), &now) != 0) {
            beaten++;
            continue;
        }
        changes += now.updated_ns != last.updated_ns;
        for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) backward += now.ns[a] < last.ns[a] || now.count[a] < last.count[a];
        backward += now.updated_ns < last.updated_ns || now.recorded < last.recorded || now.yields < last.yields;
        // Each event is in the ring, and a wait may have several entries; nothing is counted that is not recorded, but for what never is.
        std::uint64_t counted = 0;
        for (unsigned a = 0; a < POLTER_ACCOUNTS; a++)
            if (!(POLTER_WITHOUT_RECORDS >> a & 1)) counted += now.count[a];
        backward += counted > now.recorded;
        last = now;
    }
    stop = true;
    worker.join();
    MESSAGE(reads, " reads, ", changes, " states seen, ", beaten, " beaten by the writer");
    CHECK(changes > 20);
    CHECK(backward == 0);
    CHECK(last.give_ups == 0);
}

TEST_CASE("what the hypervisor takes agrees with what the kernel books") {
    Daemon daemon;
    Pinned pinned;
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    if (!(polter_noise_header(noise.get())->accounts_seen >> POLTER_STEAL & 1)) {
        MESSAGE("this machine's hypervisor does not tell what it takes: not tested");
        return;
    }
    const std::uint64_t tick = 1'000'000'000u / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
    const std::uint64_t before = booked_steal();
    Measured m = measure(noise.get(), 2000 * ms, spin);
    const std::uint64_t booked = booked_steal() - before;
    // Off the CPU it is part of the wait, and not in this account; the kernel books whole ticks.
    const std::uint64_t off = m.off();
    CHECK(m.ns[POLTER_STEAL] <= booked + 2 * tick);
    CHECK(m.ns[POLTER_STEAL] + off + 2 * tick >= booked);
    if (m.ns[POLTER_STEAL] > 0) CHECK(m.culprits["steal:hypervisor"] > 0);
}

TEST_CASE("a kworker goes by what it does") {
    const int other = cpu == 0 ? -1 : 0;
    if (other < 0 || access("/proc/sys/vm/drop_caches", W_OK) != 0) {
        MESSAGE("nothing at hand that gives a kworker of another CPU work: not tested");
        return;
    }
    Daemon daemon;
    Pinned pinned;
    Session session(daemon.socket());
    const auto noise = session.open();
    REQUIRE(noise);
    std::atomic<bool> stop{false};
    // Empties the page lists of all CPUs, each by a kworker of its own.
    std::thread instigator([&] {
        pin(other);
        while (!stop) {
            std::ofstream("/proc/sys/vm/drop_caches") << "1";
            sleep_ms(20);
        }
    });
    bool named = false, came = false;
    std::vector<char> pages;
    polter_ring_entry e;
    polter_u64 lost = 0;
    for (const std::uint64_t begin = monotonic_ns();
         !named && monotonic_ns() - begin < (came ? patience : 2000 * ms);) {  // one without a name may be between two works
        for (int k = 0; k < 20; k++) {                                         // new pages, so that there is something on this CPU's lists
            std::vector<char>(1 << 20, 'x').swap(pages);
            spin(5 * ms);
        }
        while (polter_noise_drain(noise.get(), ~0ull, &e, 1, &lost) == 1) {
            const std::string culprit = e.account == POLTER_PREEMPT ? e.culprit : "";
            came |= culprit.starts_with("kworker/");
            named |= culprit.starts_with("lru_add_drain");
        }
    }
    stop = true;
    instigator.join();
    if (!named && !came) {
        MESSAGE("no kworker came: not tested");
        return;
    }
    CHECK(named);
}
