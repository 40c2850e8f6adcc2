// SPDX-License-Identifier: BSD-3-Clause
// A program that uses PAPI gets the accounts as events, thread by thread; what they say is what the kernel says of the same thread.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <papi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr long long least_ns = 20'000'000;

// A child process that competes for the CPU on which the test runs.
struct Competitor {
    pid_t pid;
    Competitor() {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);
        pid = fork();
        if (pid == 0) {
            alarm(60);
            for (;;) continue;
        }
    }
    ~Competitor() {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    }
};

// Nanoseconds that the calling thread was runnable without a CPU.
long long waited_ns() {
    std::ifstream in("/proc/thread-self/schedstat");
    long long ran = 0, waited = 0;
    in >> ran >> waited;
    return waited;
}

struct Events {
    int set = PAPI_NULL;
    explicit Events(const std::vector<const char*>& names) {
        REQUIRE(PAPI_create_eventset(&set) == PAPI_OK);
        for (const char* name : names) {
            CAPTURE(name);
            REQUIRE(PAPI_add_named_event(set, name) == PAPI_OK);
        }
    }
};

// The thread waits for a competitor between start and stop.
void measure_one_thread(const char* where) {
    CAPTURE(where);
    Events events({"sde:::polter::os:preempt", "sde:::polter::os", "sde:::polter::os-service:fault"});
    std::array<long long, 3> values{}, read{};
    const long long outer = waited_ns();
    REQUIRE(PAPI_start(events.set) == PAPI_OK);
    const long long inner = waited_ns();
    while (waited_ns() - inner < least_ns) continue;
    REQUIRE(PAPI_read(events.set, read.data()) == PAPI_OK);
    while (waited_ns() - inner < 2 * least_ns) continue;
    const long long waited_inside = waited_ns() - inner;
    REQUIRE(PAPI_stop(events.set, values.data()) == PAPI_OK);
    const long long waited = waited_ns() - outer;
    CHECK(values[0] <= waited);
    CHECK(values[0] >= waited_inside - least_ns);  // /proc is read at intervals that depend on what reading costs
    // Nothing else is measured by it. PAPI asks for one event after the other, and the thread may wait in between: at
    // the start this is missing in the second event, at the end in the first.
    CHECK(values[1] <= waited);
    CHECK(values[1] >= waited_inside - least_ns);
    CHECK(values[2] == 0);
    CHECK(read[0] > 0);
    CHECK(read[0] <= values[0]);
}

bool papi_is_ready() {
    static const bool ready = [] {
        setenv("POLTER_EXPORTER", "proc", 1);
        if (!dlopen(POLTER_PAPI_LIBRARY, RTLD_NOW | RTLD_GLOBAL)) return false;  // in place of LD_PRELOAD
        return PAPI_library_init(PAPI_VER_CURRENT) == PAPI_VER_CURRENT && PAPI_thread_init(pthread_self) == PAPI_OK;
    }();
    return ready;
}

std::string output_of(const std::string& command) {
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    std::string text;
    char bytes[4096];
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, pipe)) > 0;) text.append(bytes, got);
    return pclose(pipe) == 0 ? text : "failed: " + text;
}

}  // namespace

TEST_CASE("PAPI knows the accounts") {
    REQUIRE(papi_is_ready());
    int code = 0;
    CHECK(PAPI_event_name_to_code("sde:::polter::os:timer", &code) == PAPI_OK);
    CHECK(PAPI_event_name_to_code("sde:::polter::os-service:net", &code) == PAPI_OK);
    PAPI_event_info_t info;
    REQUIRE(PAPI_get_event_info(code, &info) == PAPI_OK);
    CHECK(std::string(info.long_descr).find("service of the operating system") != std::string::npos);
}

TEST_CASE("each thread's events are its own") {
    REQUIRE(papi_is_ready());
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    {
        const Competitor competitor;
        measure_one_thread("first thread");
        std::jthread([] {
            measure_one_thread("second thread");
            PAPI_unregister_thread();
        }).join();
    }
    sched_setaffinity(0, sizeof before, &before);
}

TEST_CASE("PAPI's own tools count them") {
    if (system("command -v papi_command_line > /dev/null") != 0) {
        MESSAGE("papi_command_line is not installed (package papi-tools): its test is left out");
        return;
    }
    const std::string preloaded = std::string("POLTER_EXPORTER=proc LD_PRELOAD=") + POLTER_PAPI_LIBRARY + " ";
    const auto counted = output_of(preloaded + "papi_command_line sde:::polter::os sde:::polter::os:preempt");
    CAPTURE(counted);
    CHECK(counted.find("Successfully added: sde:::polter::os:preempt") != std::string::npos);
    CHECK(counted.find("sde:::polter::os : ") != std::string::npos);
    // Without an exporter: the program goes on, and one line says why there is nothing.
    const auto refused = output_of(std::string("POLTER_EXPORTER=bpf POLTER_SOCKET=/nowhere LD_PRELOAD=") + POLTER_PAPI_LIBRARY +
                                   " papi_command_line sde:::polter::os sde:::polter::os:preempt");
    CAPTURE(refused);
    CHECK(refused.find("polter: operating-system noise is not measured in this process: ") != std::string::npos);
    CHECK(refused.find("sde:::polter::os : \t0") != std::string::npos);
}
