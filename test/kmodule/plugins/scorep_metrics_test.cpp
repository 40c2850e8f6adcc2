// SPDX-License-Identifier: BSD-3-Clause
// The plug-in as Score-P's metric service loads and asks it: dlopen by name, the information by value, the metrics of each word that the
// user gave, a counter for each in each thread, a value at each enter and leave. The interface is written down here once more, from
// Score-P's documentation of it and not from the plug-in's header, so that a slip in either is seen.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "../../../kmodule/plugins/thread_noise.h"
}

namespace scorep {

enum MetricPer { PER_THREAD = 0, PER_PROCESS, PER_HOST, ONCE };
enum Synchronicity { STRICTLY_SYNC = 0, SYNC, ASYNC_EVENT, ASYNC };
enum Mode { ACCUMULATED_START = 0, ACCUMULATED_POINT, ACCUMULATED_LAST, ACCUMULATED_NEXT };
enum ValueType { VALUE_INT64 = 0, VALUE_UINT64, VALUE_DOUBLE };
enum Base { BINARY = 0, DECIMAL = 1 };

struct MetricProperties {
    char* name;
    char* description;
    Mode mode;
    ValueType value_type;
    Base base;
    int64_t exponent;
    char* unit;
};

struct PluginInfo {
    uint32_t plugin_version;
    MetricPer run_per;
    Synchronicity sync;
    uint64_t delta_t;
    int32_t (*initialize)();
    void (*finalize)();
    MetricProperties* (*get_event_info)(char*);
    int32_t (*add_counter)(char*);
    uint64_t (*get_current_value)(int32_t);
    bool (*get_optional_value)(int32_t, uint64_t*);
    void (*set_clock_function)(uint64_t (*)());
    uint64_t (*get_all_values)(int32_t, void**);
    void (*synchronize)(bool, int);
    uint64_t reserved[92];
};

}  // namespace scorep

namespace {

struct Plugin {
    void* library = nullptr;
    // Behind what Score-P gives room for there must be nothing written.
    struct {
        scorep::PluginInfo info;
        uint64_t guard[16];
    } got;
    scorep::PluginInfo& info = got.info;

    Plugin() {
        setenv("POLTER_EXPORTER", "proc", 1);
        library = dlopen(POLTER_SCOREP_LIBRARY, RTLD_NOW);
        REQUIRE_MESSAGE(library, dlerror());
        const auto get = reinterpret_cast<scorep::PluginInfo (*)()>(dlsym(library, "SCOREP_MetricPlugin_polter_scorep_get_info"));
        REQUIRE(bool(get));
        std::memset(&got, 0x5a, sizeof got);
        got.info = get();
        REQUIRE(info.initialize() == 0);
    }
    std::vector<scorep::MetricProperties> metrics(const char* word) const {
        std::vector<scorep::MetricProperties> all;
        std::string text = word;
        auto* list = info.get_event_info(text.data());
        REQUIRE(list != nullptr);
        for (auto* one = list; one->name; ++one) all.push_back(*one);
        std::free(list);
        return all;
    }
};

void release(std::vector<scorep::MetricProperties>& metrics) {
    for (auto& one : metrics)
        for (char* text : {one.name, one.description, one.unit}) std::free(text);
}

long long waited_ns() {
    std::ifstream in("/proc/thread-self/schedstat");
    long long ran = 0, waited = 0;
    in >> ran >> waited;
    return waited;
}

}  // namespace

TEST_CASE("it is a plug-in of version 1 with what Score-P asks of a strictly synchronous one") {
    const Plugin plugin;
    CHECK(plugin.info.plugin_version == 1);
    CHECK(plugin.info.run_per == scorep::PER_THREAD);
    CHECK(plugin.info.sync == scorep::STRICTLY_SYNC);
    CHECK(bool(plugin.info.finalize));
    CHECK(bool(plugin.info.add_counter));
    CHECK(bool(plugin.info.get_current_value));
    CHECK(!bool(plugin.info.synchronize));
    for (const uint64_t word : plugin.info.reserved) CHECK(word == 0);
    for (const uint64_t word : plugin.got.guard) CHECK(word == 0x5a5a5a5a5a5a5a5a);
    plugin.info.finalize();
}

TEST_CASE("metrics have the names and the unit of Poltergeist's own traces") {
    const Plugin plugin;
    auto one = plugin.metrics("os:preempt"), all = plugin.metrics("*"), none = plugin.metrics("os:timer"),
         wrong = plugin.metrics("preempt");
    REQUIRE(one.size() == 1);
    CHECK(std::string(one[0].name) == "os:preempt");
    CHECK(std::string(one[0].unit) == "ns");
    CHECK(one[0].mode == scorep::ACCUMULATED_START);
    CHECK(one[0].value_type == scorep::VALUE_UINT64);
    CHECK(one[0].base == scorep::DECIMAL);
    CHECK(one[0].exponent == 0);
    REQUIRE(all.size() == 1);  // what /proc tells
    CHECK(std::string(all[0].name) == "os:preempt");
    CHECK(none.empty());  // not measured by /proc: refused rather than a zero
    CHECK(wrong.empty());
    for (auto* list : {&one, &all}) release(*list);
    char unknown[] = "os:no_such_account";
    CHECK(plugin.info.add_counter(unknown) < 0);
}

TEST_CASE("each thread gets what the kernel says that it waited") {
    const Plugin plugin;
    cpu_set_t before, own;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&own);
    CPU_SET(sched_getcpu(), &own);
    sched_setaffinity(0, sizeof own, &own);
    const pid_t rival = fork();
    if (rival == 0) {
        alarm(60);
        for (;;) continue;
    }
    const auto measure = [&] {
        constexpr long long least_ns = 20'000'000;
        char name[] = "os:preempt";
        const long long outer = waited_ns();
        const int32_t id = plugin.info.add_counter(name);
        REQUIRE(id >= 0);
        const uint64_t first = plugin.info.get_current_value(id);
        const long long inner = waited_ns();
        while (waited_ns() - inner < 2 * least_ns) continue;
        const long long inside = waited_ns() - inner;
        const auto value = static_cast<long long>(plugin.info.get_current_value(id) - first);
        CHECK(value >= inside - least_ns);  // /proc is read at intervals
        CHECK(value <= waited_ns() - outer);
    };
    measure();
    std::jthread(measure).join();
    kill(rival, SIGKILL);
    waitpid(rival, nullptr, 0);
    sched_setaffinity(0, sizeof before, &before);
}

TEST_CASE("a forked child's accounts begin anew, and its parent's go on") {
    setenv("POLTER_EXPORTER", "proc", 1);
    REQUIRE(polter_thread_noise_available());
    const uint64_t before = polter_thread_noise_ns(POLTER_PREEMPT);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        _exit(polter_thread_noise_available() && polter_thread_noise_seen() != 0 && polter_thread_noise_ns(POLTER_TIMER) == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    CHECK(polter_thread_noise_ns(POLTER_PREEMPT) >= before);
    CHECK(polter_thread_noise_ns(POLTER_ACCOUNTS) == 0);
    CHECK(polter_thread_noise_name(POLTER_ACCOUNTS) == nullptr);
}
