// SPDX-License-Identifier: BSD-3-Clause
// What the probes add to a switch, an interrupt, a page fault, in instructions: for a machine whose clock is the number of instructions
// (guest_test.py --count-instructions). A time says nothing there, this number says the same each time.
#include <sys/prctl.h>
#include <sys/time.h>

#include <thread>

#include "guest.hpp"

namespace guest {
namespace {

// Per switch between two threads that wake each other.
double of_switch(const std::function<void()>& as_each) {
    constexpr int rounds = 3000;
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0) return -1;
    std::thread other([&] {
        as_each();
        char byte;
        while (read(there[0], &byte, 1) == 1) (void)!write(back[1], &byte, 1);
    });
    const auto round = [&] {
        char byte = 0;
        (void)!write(there[1], &byte, 1);
        (void)!read(back[0], &byte, 1);
    };
    for (int i = 0; i < 100; i++) round();
    const std::uint64_t start = now_ns();
    for (int i = 0; i < rounds; i++) round();
    const std::uint64_t took = now_ns() - start;
    close(there[1]);
    other.join();
    close(there[0]), close(back[0]), close(back[1]);
    return static_cast<double>(took) / (2 * rounds);
}

volatile int came;

// As many instructions each turn, whatever ends it.
[[gnu::noinline]] std::uint64_t turn_until(int signals, std::uint64_t turns) {
    std::uint64_t i = 0;
    while (came < signals && i < turns) i++;
    return i;
}

// Per timer interrupt, the signal that it sends included.
double of_interrupt() {
    constexpr int interrupts = 1500;
    came = 0;
    signal(SIGALRM, [](int) { came = came + 1; });
    const itimerval every{{0, 200}, {0, 200}}, never{};
    setitimer(ITIMER_REAL, &every, nullptr);
    turn_until(100, ~0ull);
    came = 0;
    const std::uint64_t start = now_ns(), turns = turn_until(interrupts, ~0ull), with = now_ns() - start;
    setitimer(ITIMER_REAL, &never, nullptr);
    came = 0;
    const std::uint64_t again = now_ns();
    turn_until(interrupts, turns);
    const std::uint64_t without = now_ns() - again;
    return (static_cast<double>(with) - static_cast<double>(without)) / interrupts;
}

// Per page that is touched for the first time.
double of_fault() {
    constexpr std::size_t pages = 3000, size = pages * 4096;
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, size, MADV_NOHUGEPAGE);
    const std::uint64_t start = now_ns();
    for (std::size_t i = 0; i < size; i += 4096) static_cast<volatile char*>(at)[i] = 1;
    const std::uint64_t took = now_ns() - start;
    munmap(at, size);
    return static_cast<double>(took) / pages;
}

void measure(const char* what, const std::function<void()>& as_each) {
    const pid_t pid = child([&] {
        as_each();
        const double a = of_switch(as_each);
        sleep_ms(500);  // the daemon puts away the page of the thread that has left
        const double b = of_interrupt(), c = of_fault();
        std::printf("  %-38s %7.0f a switch %7.0f an interrupt %7.0f a page fault\n", what, a, b, c);
        return 0;
    });
    CHECK_EQ(wait_for(pid), 0);
}

// Measures as one who is registered there, and as a stranger to those who are.
void with_exporter(const char* name, const char* path) {
    measure((std::string(name) + ", registered").c_str(), [&] {
        static Session session(path, 4);
        static thread_local Session::Page page = session.open();
        CHECK(page != nullptr);
    });
    const pid_t registered = child([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        Session session(path);
        const auto page = session.open();
        for (;;) sleep_ms(10000);
        return 0;
    });
    sleep_ms(200);
    measure((std::string(name) + ", others registered").c_str(), [] {});
    kill(registered, SIGKILL);
    wait_for(registered);
    sleep_ms(2000);  // the module's probes stay for a second
}

}  // namespace

void costs() {
    pin(0);
    measure("nobody is measured", [] {});
    with_exporter("module", POLTER_DEVICE);
    measure("nobody is measured", [] {});
    Daemon daemon;
    CHECK(daemon.serves);
    if (daemon.serves) with_exporter("bpf", daemon_socket);
}

}  // namespace guest
