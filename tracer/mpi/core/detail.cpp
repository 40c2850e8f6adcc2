// SPDX-License-Identifier: BSD-3-Clause
#include "detail.hpp"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "../../conventions.hpp"

namespace polter::mpi {
namespace {

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

// "0-3,8"
bool in_list(const char* list, uint64_t number) {
    while (std::isdigit(static_cast<unsigned char>(*list))) {
        char* end = nullptr;
        const uint64_t first = std::strtoull(list, &end, 10);
        const uint64_t last = *end == '-' ? std::strtoull(end + 1, &end, 10) : first;
        if (first <= number && number <= last) return true;
        list = *end == ',' ? end + 1 : end;
    }
    return false;
}

}  // namespace

void Detail::begin(uint32_t rank, uint64_t began_ns) {
    began_ns_ = began_ns;
    for (size_t id = 0; id < excluded_.size(); id++) excluded_[id] = trace::regions[id].recorded == trace::Recorded::on_request;
    const char* digits = variable(trace::env_exclude);
    for (size_t i = 0; digits[i] && 4 * i < excluded_.size(); i++) {
        const char text[2] = {digits[i], 0};
        const unsigned long four = std::strtoul(text, nullptr, 16);
        for (size_t bit = 0; bit < 4 && 4 * i + bit < excluded_.size(); bit++)
            if (is_local(trace::regions[4 * i + bit].recorded)) excluded_[4 * i + bit] = four >> bit & 1;
    }
    if (const char* ranks = variable(trace::env_ranks); *ranks) other_rank_ = !in_list(ranks, rank);
    if (const char* window = variable(trace::env_window); std::strchr(window, ':')) {
        from_ns_ = began_ns + std::strtoull(window, nullptr, 10);
        const uint64_t until = std::strtoull(std::strchr(window, ':') + 1, nullptr, 10);
        until_ns_ = until ? began_ns + until : UINT64_MAX;
        restricted_ = true;
    }
    restricted_ = restricted_ || other_rank_;
    reduced_ = restricted_;
}

bool Detail::on_now() const {
    if (off_.load(std::memory_order_relaxed) || other_rank_) return false;
    if (from_ns_ == 0 && until_ns_ == UINT64_MAX) return true;
    const uint64_t time = write::now();
    return time >= from_ns_ && time < until_ns_;
}

void Detail::set_level(int level, uint64_t time) {
    if (level == 0 && !off_.exchange(true)) off_since_ = time;
    if (level == 1 && off_.exchange(false)) off_ns_ += time - off_since_;
    reduced_ = restricted_ || off_;
}

nlohmann::ordered_json Detail::restrictions() const {
    nlohmann::ordered_json off = nlohmann::ordered_json::object();
    bool all_queries = true;
    for (size_t id = 0; id < excluded_.size(); id++)
        if (trace::regions[id].recorded == trace::Recorded::on_request) all_queries = all_queries && excluded_[id];
    if (all_queries) off["queries"] = true;
    for (size_t id = 0; id < excluded_.size(); id++)
        if (excluded_[id] && !(all_queries && trace::regions[id].recorded == trace::Recorded::on_request))
            off["functions"].push_back(trace::regions[id].name);
    if (other_rank_) off["rank"] = true;
    if (from_ns_ || until_ns_ != UINT64_MAX)
        off["window_ns"] = {from_ns_ ? from_ns_ - began_ns_ : 0, until_ns_ == UINT64_MAX ? 0 : until_ns_ - began_ns_};
    if (off.empty()) return nullptr;
    return {{"detail_off", off}};
}

uint64_t Detail::pcontrol_ns(uint64_t until) const {
    return off_ns_ + (off_ ? until - off_since_ : 0);
}

}  // namespace polter::mpi
