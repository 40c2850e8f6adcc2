// SPDX-License-Identifier: BSD-3-Clause
#include "counters.hpp"

#include <pthread.h>
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
    counters->size_ = plan.size();
    if (!counters->perf_.empty()) {
        counters->leader_ = counters->perf_.front();
        counters->group_.number = counters->perf_.size();
    }
    return counters;
}

Counters::~Counters() {
    for (const int file : perf_) ::close(file);
}

// What came is no group of ours: the program has closed the descriptor, and what has its number now was read.
void Counters::take_back() {
    group_.number = perf_.size();
    group_.enabled_ns = group_.running_ns = 0;
    std::copy(before_.begin(), before_.end(), group_.values);
}

void Counters::read_papi() {
    const NoCancel no_cancel;
    const int error = errno;
    long long values[most];
    if (papi.read(papi_set_, values) == PAPI_OK)
        for (size_t i = 0; i < papi_count_; i++) group_.values[perf_.size() + i] = static_cast<uint64_t>(values[i]);
    errno = error;
}

}  // namespace polter::write
