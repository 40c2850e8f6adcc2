// SPDX-License-Identifier: BSD-3-Clause
#include "place.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
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
