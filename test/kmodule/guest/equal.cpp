// SPDX-License-Identifier: BSD-3-Clause
// The module and the eBPF backend measure one thread at one time. Each also times the other's work, so that short times say nothing here;
// but each event is seen by both, and long times are the same.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>

#include "guest.hpp"

namespace guest {
namespace {

constexpr std::uint32_t bit(unsigned account) {
    return 1u << account;
}

// Both pages, read when neither moves.
bool read_both(polter_noise* one, polter_noise* other, polter_counters (&c)[2]) {
    for (int i = 0; i < 100; i++)
        if (polter_noise_snapshot(one, &c[0]) == 0 && polter_noise_snapshot(other, &c[1]) == 0 && !polter_noise_moved(one) &&
            !polter_noise_moved(other))
            return true;
    return false;
}

bool close_enough(std::uint64_t a, std::uint64_t b) {
    return std::fabs(static_cast<double>(a) - static_cast<double>(b)) <= 0.01 * static_cast<double>(std::max(a, b));
}

// Runs `body` measured by both, and compares. `long_ones`: the accounts whose times must agree. True: they do, or more is wrong than that.
bool times_agree(std::uint32_t long_ones, const std::function<void()>& body) {
    Session bpf(daemon_socket), module;
    const auto one = bpf.open(), other = module.open();
    CHECK(one && other);
    if (!one || !other) return true;
    bool agree = true;
    polter_counters begin[2], end[2];
    // What opening the second page faulted in was seen by the first alone, and is made public with its next event.
    CHECK(read_both(one.get(), other.get(), begin));
    spin(30 * ms);
    CHECK(read_both(one.get(), other.get(), begin));
    body();
    CHECK(read_both(one.get(), other.get(), end));
    const polter_page_header* headers[] = {polter_noise_header(one.get()), polter_noise_header(other.get())};
    // The time of page faults is the eBPF backend's alone.
    CHECK_EQ(headers[0]->accounts_seen & ~bit(POLTER_FAULT), headers[1]->accounts_seen);
    CHECK_EQ(headers[0]->accounts_net, headers[0]->accounts_seen);
    CHECK_EQ(headers[1]->accounts_net, headers[1]->accounts_seen);
    for (unsigned a = 0; a < POLTER_ACCOUNTS; a++) {
        const std::uint64_t ns[2] = {end[0].ns[a] - begin[0].ns[a], end[1].ns[a] - begin[1].ns[a]};
        const std::uint64_t count[2] = {end[0].count[a] - begin[0].count[a], end[1].count[a] - begin[1].count[a]};
        if (count[0] || count[1])
            std::printf("  %-11s bpf %8lu ns / %-5lu module %8lu ns / %lu\n", polter_account_name(a), ns[0], count[0], ns[1], count[1]);
        if (count[0] != count[1]) fail(__FILE__, __LINE__, std::string("counts differ: ") + polter_account_name(a));
        if (long_ones >> a & 1) {
            CHECK(ns[0] > 20 * ms);
            if (!close_enough(ns[0], ns[1])) {
                std::printf("  times differ: %s\n", polter_account_name(a));
                agree = false;
            }
        }
    }
    std::printf("  after yield bpf %8lu ns / %-5lu module %8lu ns / %lu\n", end[0].after_yield_ns - begin[0].after_yield_ns,
                end[0].yields - begin[0].yields, end[1].after_yield_ns - begin[1].after_yield_ns, end[1].yields - begin[1].yields);
    CHECK_EQ(end[0].yields - begin[0].yields, end[1].yields - begin[1].yields);
    const std::uint64_t yielded[2] = {end[0].after_yield_ns - begin[0].after_yield_ns, end[1].after_yield_ns - begin[1].after_yield_ns};
    if (yielded[0] > 5 * ms * (end[0].yields - begin[0].yields)) agree &= close_enough(yielded[0], yielded[1]);
    for (const auto& c : end) {
        CHECK_EQ(c.unbalanced, 0);
        CHECK_EQ(c.give_ups, 0);
        CHECK_EQ(c.dropped, 0);
    }
    return agree;
}

// The machine that emulates this one may itself be taken away between two readings of the clock: the counts must always be the same,
// the times in one of three runs.
void compare(std::uint32_t long_ones, const std::function<void()>& body) {
    for (int i = 0; i < 3; i++)
        if (times_agree(long_ones, body)) return;
    fail(__FILE__, __LINE__, "times differ");
}

void loopback_up() {
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ioctl(s, SIOCSIFFLAGS, &request);
    close(s);
}

struct Datagrams {
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    Datagrams() {
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        CHECK(bind(s, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        CHECK(getsockname(s, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    }
    ~Datagrams() { close(s); }
    void go() {
        char byte = 0;
        (void)!sendto(s, &byte, 1, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        (void)!recv(s, &byte, 1, MSG_DONTWAIT);
    }
};

}  // namespace

void equal_to_bpf() {
    loopback_up();
    Daemon daemon;
    CHECK(daemon.serves);
    if (!daemon.serves) return;
    // It computes, yields, sleeps, sends; others preempt it, of its job and not.
    const auto rival = [](const char* name, std::uint64_t busy, unsigned idle, std::uint64_t job) {
        return child([=] {
            prctl(PR_SET_NAME, name);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pin(1);
            Session a(daemon_socket, 0, job), b(POLTER_DEVICE, 0, job);
            for (;;) {
                spin(busy);
                sleep_ms(idle);
            }
            return 0;
        });
    };
    const pid_t rivals[] = {rival("stranger", 9 * ms, 7, 5), rival("mate", 11 * ms, 13, 9)};
    CHECK_EQ(in_child([] {
                 setenv("POLTER_JOB", "9", 1);
                 pin(1);
                 Datagrams datagrams;
                 compare(bit(POLTER_PREEMPT) | bit(POLTER_PREEMPT_JOB), [&] {
                     for (const std::uint64_t stop = now_ns() + 2500 * ms; now_ns() < stop;) {
                         spin(8 * ms);
                         for (int i = 0; i < 20; i++) datagrams.go();
                         sched_yield();
                         sleep_ms(2);
                     }
                 });
                 return 0;
             }),
             0);
    for (const pid_t pid : rivals) {
        kill(pid, SIGKILL);
        wait_for(pid);
    }
    // A thread that may go where it likes, among more threads than CPUs.
    pid_t crowd[3];
    for (auto& pid : crowd)
        pid = child([] {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) {
                spin(12 * ms);
                sleep_ms(3);
            }
            return 0;
        });
    CHECK_EQ(in_child([] {
                 compare(bit(POLTER_PREEMPT), [&] {
                     for (int i = 0; i < 40; i++) {
                         spin(30 * ms);
                         pin(i % 2);
                         if (i % 4 == 0) sleep_ms(1);
                     }
                 });
                 return 0;
             }),
             0);
    for (const pid_t pid : crowd) {
        kill(pid, SIGKILL);
        wait_for(pid);
    }
}

void quota_equal_to_bpf() {
    Daemon daemon;
    CHECK(daemon.serves);
    if (!daemon.serves) return;
    const std::string folder = "/sys/fs/cgroup/quota";
    CHECK(write_file("/sys/fs/cgroup/cgroup.subtree_control", "+cpu"));
    CHECK(mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST);
    CHECK(write_file(folder + "/cpu.max", "20000 100000"));
    CHECK_EQ(in_child([&] {
                 pin(1);
                 CHECK(write_file(folder + "/cgroup.procs", std::to_string(getpid())));
                 compare(bit(POLTER_THROTTLE), [] { spin(1200 * ms); });
                 Session session;
                 const auto noise = session.open();
                 spin(300 * ms);
                 polter_ring_entry entries[256];
                 polter_u64 lost = 0;
                 bool named = false;
                 const std::size_t n = noise ? polter_noise_drain(noise.get(), ~0ull, entries, 256, &lost) : 0;
                 for (std::size_t i = 0; i < n; i++)
                     named |= entries[i].account == POLTER_THROTTLE && std::strcmp(entries[i].culprit, "quota") == 0;
                 CHECK(named);
                 return 0;
             }),
             0);
    CHECK(soon([&] { return rmdir(folder.c_str()) == 0; }));
}

}  // namespace guest
