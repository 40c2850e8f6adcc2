// SPDX-License-Identifier: BSD-3-Clause
#include "place.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "replay/trace/archive.hpp"

namespace polter::advice {

namespace {

std::string property(const replay::Result& result, const char* name) {
    const auto found = result.provenance.find(name);
    return found == result.provenance.end() ? "" : found->second;
}

std::vector<std::string> listed(const std::string& text) {
    std::vector<std::string> list;
    std::istringstream in(text);
    for (std::string one; std::getline(in, one, ',');)
        if (!one.empty()) list.push_back(one);
    return list;
}

std::string this_host() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

std::map<std::string, int64_t> interrupts_in(const std::string& text) {
    std::map<std::string, int64_t> numbers;
    std::set<std::string> shared;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string number, word, name;
        words >> number;
        if (number.size() < 2 || number.back() != ':' ||
            !std::all_of(number.begin(), number.end() - 1, [](char c) { return c >= '0' && c <= '9'; }))
            continue;
        while (words >> word) name = word;  // the device's name is the last column
        if (!name.empty() && !numbers.try_emplace(name, std::stoll(number)).second) shared.insert(name);
    }
    for (const std::string& name : shared) numbers.erase(name);
    return numbers;
}

std::set<int64_t> cpus_in(const std::string& list) {
    constexpr int64_t most = 1 << 20;
    std::set<int64_t> cpus;
    for (const std::string& part : listed(list)) {
        int64_t first = 0, last = 0;
        const int read = std::sscanf(part.c_str(), "%" SCNd64 "-%" SCNd64, &first, &last);
        if (read == 1) last = first;
        if (read < 1 || first < 0 || last > most) continue;
        for (; first <= last; ++first) cpus.insert(first);
    }
    return cpus;
}

std::string cpu_list(const std::set<int64_t>& cpus) {
    std::string list;
    for (auto cpu = cpus.begin(); cpu != cpus.end();) {
        const int64_t first = *cpu;
        int64_t last = first;
        while (++cpu != cpus.end() && *cpu == last + 1) ++last;
        list += (list.empty() ? "" : ",") + std::to_string(first) + (last > first ? "-" + std::to_string(last) : "");
    }
    return list;
}

namespace {

// "0-1:0-3;2:4": CPUs, and the ranks that may use them. Empty unless all ranks are named.
std::vector<std::set<int64_t>> allowed_cpus(const std::string& text, int64_t ranks) {
    std::vector<std::set<int64_t>> allowed(static_cast<size_t>(ranks));
    std::istringstream in(text);
    for (std::string one; std::getline(in, one, ';');) {
        const size_t colon = one.find(':');
        if (colon == std::string::npos) return {};
        const std::set<int64_t> cpus = cpus_in(one.substr(0, colon));
        for (const int64_t rank : cpus_in(one.substr(colon + 1)))
            if (rank < ranks) allowed[static_cast<size_t>(rank)] = cpus;
    }
    if (std::any_of(allowed.begin(), allowed.end(), [](const auto& cpus) { return cpus.empty(); })) return {};
    return allowed;
}

// Assigns ranks to CPUs, one to each, moving earlier ones where that helps.
class Assignment {
  public:
    explicit Assignment(const Place& place) : place_(place) {}
    bool place(size_t rank) {
        tried_.clear();
        return find(rank);
    }

  private:
    using Cpu = std::pair<std::string, int64_t>;  // of a host
    bool find(size_t rank) {
        for (const int64_t number : place_.allowed[rank]) {
            const Cpu cpu{place_.host_of[rank], number};
            if (!tried_.insert(cpu).second) continue;
            const auto taken = taken_.find(cpu);
            if (taken != taken_.end() && !find(taken->second)) continue;
            taken_[cpu] = rank;
            return true;
        }
        return false;
    }
    const Place& place_;
    std::map<Cpu, size_t> taken_;
    std::set<Cpu> tried_;
};

}  // namespace

std::optional<bool> each_has_own(const Place& place) {
    if (place.allowed.empty()) return std::nullopt;
    if (place.hosts.size() > 1 && std::count(place.host_of.begin(), place.host_of.end(), "") > 0) return std::nullopt;
    Assignment assignment(place);
    for (size_t rank = 0; rank < place.allowed.size(); ++rank)
        if (!assignment.place(rank)) return false;
    return true;
}

Place place_of(const replay::Result& result) {
    Place place;
    place.hosts = listed(property(result, "HOSTS"));
    place.mpi = property(result, "MPI");
    place.command = property(result, "COMMAND");
    place.program = property(result, "PROGRAM");
    place.ranks = result.ranks;
    place.host_of.assign(static_cast<size_t>(result.ranks), place.hosts.size() == 1 ? place.hosts.front() : "");
    place.here = place.hosts.size() == 1 && place.hosts.front() == this_host();
    if (place.here) {
        place.cpus = sysconf(_SC_NPROCESSORS_ONLN);
        std::ifstream file("/proc/interrupts");
        std::ostringstream text;
        text << file.rdbuf();
        place.interrupt_numbers = interrupts_in(text.str());
    }
    place.allowed = allowed_cpus(property(result, "RANK_CPUS"), result.ranks);
    if (place.hosts.size() == 1 && !place.allowed.empty()) {
        std::set<int64_t> used, others;
        for (const auto& cpus : place.allowed) used.insert(cpus.begin(), cpus.end());
        place.rank_cpus = cpu_list(used);
        for (int64_t cpu = 0; place.cpus && cpu < *place.cpus; ++cpu)
            if (!used.contains(cpu)) others.insert(cpu);
        place.other_cpus = cpu_list(others);
    }
    if (place.hosts.size() > 1) {
        // The archive numbers hosts in the order in which its ranks meet them; HOSTS has the same order.
        const replay::Archive archive(result.trace);
        std::vector<int32_t> met;
        for (const replay::Location& location : archive.definitions().locations) {
            if (!location.carries_rank || location.rank < 0) continue;
            auto found = std::find(met.begin(), met.end(), location.host);
            if (found == met.end()) found = met.insert(met.end(), location.host);
            const auto index = static_cast<size_t>(found - met.begin());
            if (index < place.hosts.size() && location.rank < result.ranks)
                place.host_of[static_cast<size_t>(location.rank)] = place.hosts[index];
        }
    }
    return place;
}

}  // namespace polter::advice
