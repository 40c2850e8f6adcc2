// SPDX-License-Identifier: BSD-3-Clause
#include "counters.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "../conventions.hpp"
#include "../papi.hpp"
#include "../perf_event_json.hpp"
#include "own_part.hpp"

namespace polter::write {
namespace {

trace::Papi papi;

}  // namespace

bool read_counter_plan(CounterPlan& plan, std::string& error) {
    const char* text = std::getenv(trace::env_counters);
    if (!text || !*text) return true;
    try {
        const auto list = nlohmann::json::parse(text);
        for (const auto& event : list.at("perf")) plan.perf.push_back(trace::perf_event_of(event));
        for (const auto& name : list.at("papi")) plan.papi.push_back(name);
    } catch (const nlohmann::json::exception&) {
        error = std::string(trace::env_counters) + " is not what polter run writes";
    }
    if (error.empty() && plan.size() > Counters::most) error = "too many counters";
    if (error.empty() && !plan.papi.empty()) {
        // Two users of PAPI in one process take each other's event sets away.
        if (dlopen(trace::papi_library().c_str(), RTLD_NOW | RTLD_NOLOAD))
            error = "the program uses PAPI itself; use --perf";
        else if (papi.load(error) && papi.thread_init(pthread_self) != PAPI_OK)
            error = "PAPI does not support threads here";
    }
    if (error.empty()) return true;
    plan = {};
    return false;
}

std::unique_ptr<Counters> Counters::open(const CounterPlan& plan, std::string& error) {
    std::unique_ptr<Counters> counters(new Counters);
    for (const auto& event : plan.perf) {
        const int file = trace::open_perf_event(event, counters->perf_.empty() ? -1 : counters->perf_.front());
        if (file < 0) {
            error = event.name + ": " + std::strerror(errno);
            return nullptr;
        }
        counters->perf_.push_back(file);
    }
    if (!plan.papi.empty()) {
        int set = PAPI_NULL;
        int code = papi.create_eventset(&set);
        for (size_t i = 0; code == PAPI_OK && i < plan.papi.size(); i++) code = papi.add_named_event(set, plan.papi[i].c_str());
        if (code == PAPI_OK) code = papi.start(set);
        if (code != PAPI_OK) {
            error = std::string("PAPI: ") + papi.strerror(code);
            return nullptr;
        }
        counters->papi_set_ = set;
        counters->papi_count_ = plan.papi.size();
    }
    return counters;
}

Counters::~Counters() {
    for (const int file : perf_) ::close(file);
}

namespace {

// By the system call itself: read(3) is a place where the thread may be cancelled, and guarding it against that costs a tenth of it. Behind
// a system call the processor has forgotten where branches go, on many machines: so no calls and few branches here. errno stays as it is.
inline long read_group(int file, trace::PerfGroup& group) {
#if defined(__x86_64__)
    long result;
    asm volatile("syscall" : "=a"(result) : "0"(long{SYS_read}), "D"(file), "S"(&group), "d"(sizeof group) : "rcx", "r11", "memory");
    return result;
#else
    const int error = errno;
    const long result = syscall(SYS_read, file, &group, sizeof group);
    errno = error;
    return result;
#endif
}

}  // namespace

bool Counters::take(size_t at, int64_t value) {
    const bool moved = values_[at] != value;
    values_[at] = value;
    return moved;
}

bool Counters::read_perf() {
    trace::PerfGroup group;
    const size_t size = perf_.size();
    if (read_group(perf_.front(), group) <= 0 || group.number != size) [[unlikely]]
        return false;
    shared_ |= group.running_ns < group.enabled_ns;
    bool moved = take(0, static_cast<int64_t>(group.values[0]));
    for (size_t i = 1; i < size; i++) moved |= take(i, static_cast<int64_t>(group.values[i]));
    return moved;
}

bool Counters::read_papi() {
    const NoCancel no_cancel;
    const int error = errno;
    long long values[most];
    bool moved = false;
    if (papi.read(papi_set_, values) == PAPI_OK)
        for (size_t i = 0; i < papi_count_; i++) moved |= take(perf_.size() + i, values[i]);
    errno = error;
    return moved;
}

bool Counters::read() {
    bool moved = first_;
    first_ = false;
    if (!perf_.empty()) moved |= read_perf();
    if (papi_count_) [[unlikely]]
        moved |= read_papi();
    return moved;
}

}  // namespace polter::write
