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
        by_rank_[noise.rank].first += noise.local_ns;
        by_rank_[noise.rank].second += noise.events;
        by_culprit_[noise.culprit].first += noise.local_ns;
        by_culprit_[noise.culprit].second += noise.events;
        events_ += noise.events;
        stolen_ += noise.local_ns;
    }
    void add(const Noise& other) {
        for (const auto& [source, names] : other.culprits_) culprits_[source].insert(names.begin(), names.end());
        for (const auto& [rank, sums] : other.by_rank_) {
            by_rank_[rank].first += sums.first;
            by_rank_[rank].second += sums.second;
        }
        for (const auto& [name, sums] : other.by_culprit_) {
            by_culprit_[name].first += sums.first;
            by_culprit_[name].second += sums.second;
        }
        events_ += other.events_;
        stolen_ += other.stolen_;
    }
    bool empty() const { return stolen_ == 0; }
    int64_t stolen() const { return stolen_; }
    int64_t events() const { return events_; }
    std::set<std::string> sources() const {
        std::set<std::string> names;
        for (const auto& [source, culprits] : culprits_) names.insert(source);
        return names;
    }
    size_t culprits() const { return by_culprit_.size(); }

    Suggestion suggestion(const Group& group) const {
        Suggestion suggestion;
        suggestion.kind = group.kind;
        for (const auto& [source, names] : culprits_) suggestion.removed.push_back({source, names, {}});
        suggestion.events = events_;
        suggestion.stolen_ns = stolen_;
        for (const auto& [rank, sums] : by_rank_) suggestion.ranks.push_back(rank);
        std::stable_sort(suggestion.ranks.begin(), suggestion.ranks.end(),
                         [&](int64_t a, int64_t b) { return by_rank_.at(a).first > by_rank_.at(b).first; });
        return suggestion;
    }
    // Most stolen first.
    std::vector<std::pair<std::string, std::pair<int64_t, int64_t>>> names() const {
        std::vector<std::pair<std::string, std::pair<int64_t, int64_t>>> list(by_culprit_.begin(), by_culprit_.end());
        std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
        return list;
    }
    int64_t stolen(int64_t rank) const { return by_rank_.at(rank).first; }
    // After another task had its CPU a rank refills its caches: a core's own megabyte from the next level takes some 0.15 ms, and no longer
    // than it took to replace it. On the rank where that is most.
    int64_t refill() const {
        constexpr int64_t most_each = 150'000;
        int64_t most = 0;
        for (const auto& [rank, sums] : by_rank_) most = std::max(most, std::min(sums.first, most_each * sums.second));
        return most;
    }

  private:
    std::map<std::string, std::set<std::string>> culprits_;          // by source
    std::map<int64_t, std::pair<int64_t, int64_t>> by_rank_;         // ns, events
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

namespace {

const std::string job = "os-service:preempt_job";

bool of_tasks(const Group& group) {
    return std::set<std::string>{"process", "kworkers", "kernel_threads", "leave_core_free", "keep_others_off"}.contains(group.kind);
}

// What is known of all groups, for what goes with one of them.
struct Whole {
    Noise tasks;                                          // other than the job's
    std::map<std::string, int64_t> unknown_ns, named_ns;  // by source: noise without a culprit, with one
    int64_t job_ns = 0, job_refill_ns = 0;                // that ranks took from each other
    std::optional<bool> own;                              // each rank can have a CPU of its own
    bool crowded_out() const { return own.value_or(false) && job_ns > 0 && tasks.stolen() >= job_ns / 2; }
};

// Where each rank could have a CPU of its own, ranks share one because another program has the other: without it they do not. Where it is
// not known what ranks may use, it may be so.
void add_sharing(Suggestion& suggestion, const Noise& noise, const Group& group, const Whole& whole) {
    if (!of_tasks(group) || whole.job_ns == 0 || noise.stolen() * 2 < whole.tasks.stolen()) return;
    if (whole.crowded_out())
        suggestion.follows.push_back({job, {}, {}});
    else if (!whole.own)
        suggestion.may_be.push_back({job, {}, {}});
    else
        return;
    suggestion.refill_ns += whole.job_refill_ns;
    suggestion.evidence.push_back(fmt::format("meanwhile ranks {} a CPU: {} (preempt_job){}", whole.own ? "had to share" : "shared",
                                              replay::short_time(whole.job_ns),
                                              whole.own ? "" : ", which may be for the same reason: only the upper bound has it"));
}

// Noise whose culprit was lost is anybody's of that source.
void add_unknown(Suggestion& suggestion, const Noise& noise, const Whole& whole) {
    constexpr int64_t matters = 100;  // as a part of the noise with a known culprit
    int64_t unknown = 0, named = 0;
    replay::Scenario scenario;
    for (const replay::Removal& removal : suggestion.removed) {
        const auto lost = whole.unknown_ns.find(removal.source);
        if (removal.culprits.contains("unknown") || lost == whole.unknown_ns.end()) continue;
        scenario.push_back({removal.source, {"unknown"}, {}});
        unknown += lost->second;
        named += whole.named_ns.at(removal.source);
    }
    if (unknown * matters < noise.stolen()) return;
    suggestion.evidence.push_back(fmt::format("{} more have no known culprit; they count in proportion, and in the bounds as none or all",
                                              replay::short_time(unknown)));
    // The figure has one part for all that may be: sharing that may go with it has none.
    suggestion.part =
        suggestion.may_be.empty() && named > 0 ? std::min(1.0, static_cast<double>(noise.stolen()) / static_cast<double>(named)) : 0;
    suggestion.may_be.insert(suggestion.may_be.end(), scenario.begin(), scenario.end());
}

}  // namespace

std::vector<Suggestion> candidates(const replay::Result& result, const Place& place) {
    std::map<Group, Noise> groups;
    Whole whole;
    whole.own = each_has_own(place);
    for (const replay::CulpritResult& noise : result.culprits) {
        if (noise.local_ns <= 0) continue;
        const Group group = group_of(noise);
        if (group.kind.empty()) continue;
        groups[group].add(noise);
        (noise.culprit == "unknown" ? whole.unknown_ns : whole.named_ns)[noise.source] += noise.local_ns;
    }
    // Ranks that share a CPU take turns of the scheduler's slices, which are milliseconds. Helper threads of MPI take microseconds, and
    // would also on a CPU of the rank's own.
    constexpr int64_t least_turn = 100'000;
    const auto sharing = groups.find({"own_cpu", "the job itself"});
    if (sharing != groups.end() && sharing->second.stolen() < least_turn * std::max<int64_t>(1, sharing->second.events()))
        groups.erase(sharing);
    else if (sharing != groups.end())
        whole.job_ns = sharing->second.stolen(), whole.job_refill_ns = sharing->second.refill();
    for (const auto& [source, ns] : whole.unknown_ns) whole.named_ns.try_emplace(source, 0);
    for (const auto& [group, noise] : groups)
        if (of_tasks(group)) whole.tasks.add(noise);
    // A free core takes what all tasks do; worth a scenario where there are several. Where there is a free one, they have to keep to it.
    if (whole.tasks.culprits() > 1 || groups.contains({"leave_core_free", "other programs"})) {
        groups.erase({"leave_core_free", "other programs"});
        groups[{place.cpus && *place.cpus > place.ranks ? "keep_others_off" : "leave_core_free", "other programs"}] = whole.tasks;
    }

    std::vector<Suggestion> list;
    for (const auto& [group, noise] : groups) {
        if (group.kind == "own_cpu" && whole.crowded_out()) continue;  // it comes with other programs
        Suggestion suggestion = noise.suggestion(group);
        suggestion.evidence = evidence_of(noise, suggestion, place);
        if (of_tasks(group) || group.kind == "own_cpu" || group.kind == "cpu_quota" || group.kind == "pin_ranks")
            suggestion.refill_ns = noise.refill();
        // The quota throttles the launcher too, for which ranks wait in MPI_Init and MPI_Finalize; nobody records that.
        if (group.kind == "cpu_quota") suggestion.refill_ns += result.init_ns + result.finalize_ns;
        add_sharing(suggestion, noise, group, whole);
        add_unknown(suggestion, noise, whole);
        std::vector<std::string> names;
        for (const auto& [name, sums] : noise.names()) names.push_back(name);
        describe(suggestion, names, place);
        list.push_back(std::move(suggestion));
    }
    return list;
}

}  // namespace polter::advice
