// SPDX-License-Identifier: BSD-3-Clause
// Page faults: their number and their time, against what the kernel counts and what the faults take.
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "guest.hpp"

namespace guest {
namespace {

constexpr std::size_t page_size = 4096;

struct Area {
    std::size_t pages;
    char* at;
    explicit Area(std::size_t n) : pages(n) {
        void* mapping = mmap(nullptr, n * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(mapping != MAP_FAILED);
        madvise(mapping, n * page_size, MADV_NOHUGEPAGE);
        at = static_cast<char*>(mapping);
    }
    ~Area() { munmap(at, pages * page_size); }
    Area(const Area&) = delete;
    void touch() {
        for (std::size_t i = 0; i < pages; i++) reinterpret_cast<volatile char*>(at)[i * page_size] = 1;
    }
};

std::uint64_t faults_by_kernel() {
    rusage use;
    getrusage(RUSAGE_THREAD, &use);
    return static_cast<std::uint64_t>(use.ru_minflt + use.ru_majflt);
}

// What happened in `body`.
struct Seen {
    std::uint64_t wall, faults, ns, count, others;
};
Seen during(polter_noise* noise, const std::function<void()>& body) {
    polter_counters a, b;
    // Once before, so that nothing of this faults in between.
    polter_noise_snapshot(noise, &b);
    (void)faults_by_kernel();
    const std::uint64_t start = now_ns();
    CHECK(polter_noise_snapshot(noise, &a) == 0);
    const std::uint64_t faults = faults_by_kernel();
    body();
    const std::uint64_t more = faults_by_kernel() - faults;
    CHECK(polter_noise_snapshot(noise, &b) == 0);
    Seen s{now_ns() - start, more, b.ns[POLTER_FAULT] - a.ns[POLTER_FAULT], b.count[POLTER_FAULT] - a.count[POLTER_FAULT],
           b.after_yield_ns - a.after_yield_ns};
    for (unsigned account = 0; account < POLTER_ACCOUNTS; account++)
        if (account != POLTER_FAULT) s.others += b.ns[account] - a.ns[account];
    CHECK_EQ(b.unbalanced, a.unbalanced);
    return s;
}

void tell(const char* what, const Seen& s) {
    std::printf("  %-22s %6lu us: %5lu faults, %5lu counted, %6lu us in them, %6lu us in other accounts\n", what, s.wall / 1000, s.faults,
                s.count, s.ns / 1000, s.others / 1000);
}

}  // namespace

void page_faults() {
    Daemon daemon;
    CHECK(daemon.serves);
    if (!daemon.serves) return;
    CHECK_EQ(in_child([] {
                 pin(1);
                 Session session(daemon_socket);
                 const auto noise = session.open();
                 CHECK(noise != nullptr);
                 if (!noise) return 1;
                 // Debian's kernels let programs be attached to the ends of functions.
                 CHECK(polter_noise_header(noise.get())->accounts_seen >> POLTER_FAULT & 1);

                 Area area(2000);
                 const Seen first = during(noise.get(), [&] { area.touch(); }), second = during(noise.get(), [&] { area.touch(); });
                 tell("touched", first);
                 tell("touched again", second);
                 CHECK(first.faults >= area.pages);
                 CHECK_EQ(first.count, first.faults);
                 CHECK_EQ(second.count, second.faults);
                 CHECK(first.ns + first.others <= first.wall);
                 // The rest is the way to the exception and back, and what measuring takes.
                 CHECK(first.ns > (first.wall - first.others - second.wall) / 3);
                 CHECK(second.ns < first.ns / 10);

                 // By the kernel's own access to the program's memory.
                 Area buffer(500);
                 const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
                 const Seen reading = during(noise.get(), [&] { CHECK(read(zeros, buffer.at, 500 * page_size) == 500 * page_size); });
                 close(zeros);
                 tell("read into", reading);
                 CHECK(reading.faults >= buffer.pages);
                 CHECK_EQ(reading.count, reading.faults);
                 CHECK(reading.ns > first.ns / first.count * reading.count / 10);
                 CHECK(reading.ns + reading.others <= reading.wall);

                 // No exception: the system call has the pages made.
                 Area locked(500);
                 const Seen locking = during(noise.get(), [&] { CHECK(mlock(locked.at, 500 * page_size) == 0); });
                 tell("locked", locking);
                 CHECK(locking.count < 50);
                 CHECK(locking.ns < first.ns / 10);
                 return 0;
             }),
             0);
    // Preempted in the middle: what others took is not the faults' too.
    const pid_t rival = child([] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(1);
        for (;;) {
            spin(3 * ms);
            sleep_ms(2);
        }
        return 0;
    });
    CHECK_EQ(in_child([] {
                 pin(1);
                 Session session(daemon_socket);
                 const auto noise = session.open();
                 if (!noise) return 1;
                 const Seen seen = during(noise.get(), [] {
                     for (const std::uint64_t stop = now_ns() + 1000 * ms; now_ns() < stop;) Area(200).touch();
                 });
                 tell("with a rival", seen);
                 CHECK_EQ(seen.count, seen.faults);
                 CHECK(seen.ns + seen.others <= seen.wall);
                 CHECK(seen.others > seen.wall / 4);
                 CHECK(seen.ns > seen.wall / 50);
                 return 0;
             }),
             0);
    kill(rival, SIGKILL);
    wait_for(rival);
}

void page_faults_that_sleep() {
    Daemon daemon;
    CHECK(daemon.serves);
    if (!daemon.serves) return;
    CHECK_EQ(in_child([] {
                 const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
                 uffdio_api api{UFFD_API, 0, 0};
                 CHECK(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
                 Area area(1);
                 uffdio_register range{{reinterpret_cast<std::uint64_t>(area.at), page_size}, UFFDIO_REGISTER_MODE_MISSING, 0};
                 CHECK(ioctl(fd, UFFDIO_REGISTER, &range) == 0);
                 std::thread pager([&] {
                     pin(0);
                     uffd_msg message;
                     CHECK(read(fd, &message, sizeof message) == sizeof message);
                     sleep_ms(80);
                     uffdio_zeropage zero{{reinterpret_cast<std::uint64_t>(area.at), page_size}, 0, 0};
                     CHECK(ioctl(fd, UFFDIO_ZEROPAGE, &zero) == 0);
                 });
                 pin(1);
                 Session session(daemon_socket);
                 const auto noise = session.open();
                 if (!noise) return 1;
                 const Seen seen = during(noise.get(), [&] { area.touch(); });
                 tell("that sleeps", seen);
                 pager.join();
                 close(fd);
                 CHECK(seen.ns > 75 * ms);
                 CHECK(seen.ns + seen.others <= seen.wall);
                 CHECK(seen.count >= 1 && seen.count <= seen.faults + 1);  // tried again, it is one exception more or less
                 return 0;
             }),
             0);
}

}  // namespace guest
