// SPDX-License-Identifier: BSD-3-Clause
#include "counters.hpp"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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

// By the system call itself: read(3) is a place where the thread may be cancelled, and guarding it against that costs a tenth of it.
void Counters::read_perf(int64_t* now) {
    trace::PerfGroup group;
    if (syscall(SYS_read, perf_.front(), &group, sizeof group) <= 0 || group.number != perf_.size()) return;
    for (size_t i = 0; i < perf_.size(); i++) now[i] = static_cast<int64_t>(group.values[i]);
    shared_ = shared_ || group.running_ns < group.enabled_ns;
}

void Counters::read_papi(int64_t* now) {
    const NoCancel no_cancel;
    long long values[most];
    if (papi.read(papi_set_, values) == PAPI_OK) std::copy_n(values, papi_count_, now);
}

bool Counters::read() {
    const int error = errno;
    int64_t now[most];
    const auto end = values_.begin() + static_cast<std::ptrdiff_t>(size());
    std::copy(values_.begin(), end, now);
    if (!perf_.empty()) read_perf(now);
    if (papi_count_) read_papi(now + perf_.size());
    errno = error;
    if (!first_ && std::equal(values_.begin(), end, now)) return false;
    first_ = false;
    std::copy_n(now, size(), values_.begin());
    return true;
}

}  // namespace polter::write
