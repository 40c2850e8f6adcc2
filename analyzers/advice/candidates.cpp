// SPDX-License-Identifier: BSD-3-Clause
#include "candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "actions.hpp"

namespace polter::advice {

namespace {

const std::set<std::string> scheduling = {"preempt", "runqueue"};  // sources whose culprits are tasks
const std::set<std::string> tick_softirqs = {"TIMER", "SCHED", "HRTIMER", "RCU"};

bool starts_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* prefix) { return name.starts_with(prefix); });
}

struct Group {
    std::string kind, name;  // name: what the title names
    auto operator<=>(const Group&) const = default;
};

// The change that would remove this noise; an empty kind: none that an administrator could make.
Group group_of(const replay::CulpritResult& noise) {
    const std::string& source = noise.source;
    const std::string& name = noise.culprit;
    if (scheduling.contains(source)) {
        if (name.starts_with("kworker")) return {"kworkers", "kworkers"};
        if (name.starts_with("migration/")) return {"pin_ranks", "migration"};
        if (starts_with_any(name, {"ksoftirqd/", "rcu", "watchdog/", "cpuhp/", "idle_inject/", "swapper/"}))
            return {"kernel_threads", "kernel threads"};
        if (name == "unknown") return {"leave_core_free", "other programs"};
        return {"process", name};
    }
    if (source == "timer" || (source == "softirq" && tick_softirqs.contains(name))) return {"tickless", "timer tick"};
    if (source == "irq") return name == "unknown" ? Group{"all_interrupts", "device interrupts"} : Group{"move_interrupt", name};
    if (source == "softirq") return {"all_interrupts", "device interrupts"};
    if (source == "throttle") return {"cpu_quota", "CPU quota"};
    if (source == "steal") return {"hypervisor", "hypervisor"};
    if (source == "nmi") return {"nmi_watchdog", "NMI watchdog"};
    if (source == "ipi") return {"isolate_cpus", "inter-processor interrupts"};
    if (source == "os-service:preempt_job") return {"own_cpu", "the job itself"};
    return {};
}

// A group's noise by source, culprit and rank.
class Noise {
  public:
    void add(const replay::CulpritResult& noise) {
        culprits_[noise.source].insert(noise.culprit);
        by_rank_[noise.rank] += noise.local_ns;
        by_culprit_[noise.culprit].first += noise.local_ns;
        by_culprit_[noise.culprit].second += noise.events;
        events_ += noise.events;
        stolen_ += noise.local_ns;
    }
    void add(const Noise& other) {
        for (const auto& [source, names] : other.culprits_) culprits_[source].insert(names.begin(), names.end());
        for (const auto& [rank, ns] : other.by_rank_) by_rank_[rank] += ns;
        for (const auto& [name, sums] : other.by_culprit_) {
            by_culprit_[name].first += sums.first;
            by_culprit_[name].second += sums.second;
        }
        events_ += other.events_;
        stolen_ += other.stolen_;
    }
    bool empty() const { return stolen_ == 0; }
    size_t culprits() const { return by_culprit_.size(); }

    Suggestion suggestion(const Group& group) const {
        Suggestion suggestion;
        suggestion.kind = group.kind;
        for (const auto& [source, names] : culprits_) suggestion.removed.push_back({source, names, {}});
        suggestion.events = events_;
        suggestion.stolen_ns = stolen_;
        for (const auto& [rank, ns] : by_rank_) suggestion.ranks.push_back(rank);
        std::stable_sort(suggestion.ranks.begin(), suggestion.ranks.end(),
                         [&](int64_t a, int64_t b) { return by_rank_.at(a) > by_rank_.at(b); });
        return suggestion;
    }
    // Most stolen first.
    std::vector<std::pair<std::string, std::pair<int64_t, int64_t>>> names() const {
        std::vector<std::pair<std::string, std::pair<int64_t, int64_t>>> list(by_culprit_.begin(), by_culprit_.end());
        std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
        return list;
    }
    int64_t stolen(int64_t rank) const { return by_rank_.at(rank); }

  private:
    std::map<std::string, std::set<std::string>> culprits_;  // by source
    std::map<int64_t, int64_t> by_rank_;
    std::map<std::string, std::pair<int64_t, int64_t>> by_culprit_;  // ns, events
    int64_t events_ = 0, stolen_ = 0;
};

std::vector<std::string> evidence_of(const Noise& noise, const Suggestion& suggestion, const Place& place) {
    constexpr size_t most = 3;
    std::vector<std::string> lines;
    const auto names = noise.names();
    for (size_t i = 0; i < std::min(most, names.size()); ++i)
        lines.push_back(fmt::format("{}: {} from the ranks in {} events", replay::printable(names[i].first),
                                    replay::short_time(names[i].second.first), names[i].second.second));
    if (names.size() > most) lines.push_back(fmt::format("and {} more", names.size() - most));
    const int64_t worst = suggestion.ranks.front();
    const std::string& host = place.host_of[static_cast<size_t>(worst)];
    if (place.ranks > 1)
        lines.push_back(fmt::format("rank {}{} lost most: {}", worst, host.empty() ? "" : " on " + replay::printable(host),
                                    replay::short_time(noise.stolen(worst))));
    return lines;
}

}  // namespace

std::vector<Suggestion> candidates(const replay::Result& result, const Place& place) {
    std::map<Group, Noise> groups;
    Noise tasks;
    for (const replay::CulpritResult& noise : result.culprits) {
        if (noise.local_ns <= 0) continue;
        const Group group = group_of(noise);
        if (group.kind.empty()) continue;
        groups[group].add(noise);
    }
    for (const auto& [group, noise] : groups)
        if (std::set<std::string>{"process", "kworkers", "kernel_threads", "leave_core_free"}.contains(group.kind)) tasks.add(noise);
    // A free core takes what all tasks do; worth a scenario where there are several.
    if (tasks.culprits() > 1) groups[{"leave_core_free", "other programs"}] = tasks;

    std::vector<Suggestion> list;
    for (const auto& [group, noise] : groups) {
        Suggestion suggestion = noise.suggestion(group);
        suggestion.evidence = evidence_of(noise, suggestion, place);
        std::vector<std::string> names;
        for (const auto& [name, sums] : noise.names()) names.push_back(name);
        describe(suggestion, names, place);
        list.push_back(std::move(suggestion));
    }
    return list;
}

}  // namespace polter::advice
