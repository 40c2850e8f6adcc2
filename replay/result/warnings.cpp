// SPDX-License-Identifier: BSD-3-Clause
// The words of the warnings. Flawed data is counted where it is found and becomes one line here.
#include "warnings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace polter::replay {

namespace {

// {0}: how many, {1}: nanoseconds where that means something. Empty: said elsewhere.
const char* words(Flaw flaw) {
    switch (flaw) {
        case Flaw::truncated_location:
            return "conditional: {0} locations break off (time repeats or the file ends early): read up to there";
        case Flaw::unmatched_message:
            return "{0} messages were never received in the trace";
        case Flaw::unmatched_receive:
            return "conditional: {0} receives or probes have no send in the trace: taken as not waiting";
        case Flaw::unmatched_collective:
            return "conditional: {0} calls of collectives lack members in the trace: those that came were waited for";
        case Flaw::noise_beyond_interval:
            return "{0} noise records are longer than the time they lie in: {1} ns dropped (they stay in the local noise)";
        case Flaw::noise_carried:
            return "{0} times the hypervisor took more than fits before the timer tick that found it: {1} ns count where the events before "
                   "it leave time for them; the bounds allow for it";
        case Flaw::no_baseline:
            return "{0} noise counters have no baseline at their location's first event: their first record was taken as one";
        case Flaw::counter_decreased:
            return "{0} noise records go backward or beyond all time: they were skipped";
        case Flaw::unknown_communicator:
            return "{0} records name a communicator that is not defined, or that their rank is not in";
        case Flaw::unknown_request:
            return "{0} completions name a request that was never begun: taken as begun there";
        case Flaw::call_not_left:
            return "{0} MPI calls were never left";
        case Flaw::collective_without_record:
            return "conditional: {0} collective calls have no record of what they were: taken as waiting for nobody";
        case Flaw::threads_with_mpi:
            return "";
        case Flaw::uncertain_order:
            return "conditional: {0} matches could not be told from the trace alone";
        case Flaw::any_source:
            return "conditional: {0} receives took whichever message came (wildcards): without noise it could have been another";
        case Flaw::handed_out:
            return "{0} of these are requests for work: in each scenario it goes to whoever asked first there, and takes as long as it did";
        case Flaw::polling:
            return "conditional: {0} polling loops (Test, Iprobe): how often they look may change without noise";
        case Flaw::locked_out:
            return "conditional: {0} locks were waited for: without noise another rank could have had them first";
        case Flaw::count_:
            break;
    }
    return "";
}

}  // namespace

std::vector<std::string> flaw_lines(const std::vector<FlawCount>& flaws, int64_t clock_disorder_ns) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < flaws.size(); ++i)
        if (flaws[i].count > 0 && *words(static_cast<Flaw>(i)))
            lines.push_back(fmt::format(fmt::runtime(words(static_cast<Flaw>(i))), flaws[i].count, flaws[i].ns));
    if (clock_disorder_ns > 0)
        lines.push_back(fmt::format("messages end up to {} ns before they begin: the clocks of the trace disagree by at least that",
                                    clock_disorder_ns));
    return lines;
}

std::string unseen_line(const std::map<uint32_t, FlawCount>& calls, const Definitions& definitions, const char* why) {
    constexpr size_t most_names = 4;
    std::vector<std::pair<FlawCount, std::string>> by_time;
    FlawCount all;
    for (const auto& [region, calls_of] : calls) {
        all.count += calls_of.count;
        all.ns += calls_of.ns;
        by_time.emplace_back(calls_of, definitions.region_name(region));
    }
    if (all.count == 0) return "";
    std::sort(by_time.begin(), by_time.end(),
              [](const auto& a, const auto& b) { return a.first.ns != b.first.ns ? a.first.ns > b.first.ns : a.second < b.second; });
    std::string names;
    for (size_t i = 0; i < std::min(by_time.size(), most_names); ++i) names += (i > 0 ? ", " : "") + by_time[i].second;
    if (by_time.size() > most_names) names += ", …";
    return fmt::format("conditional: {} calls ({:.3f} ms: {}) {}: taken as own work", all.count, static_cast<double>(all.ns) / 1e6, names,
                       why);
}

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        if (end > begin) parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

// Accounts that the trace defines but that are not in a property's list.
std::string missing_from(const std::string& list, const std::vector<Account>& accounts) {
    const std::vector<std::string> listed = split(list, ',');
    std::vector<std::string> missing;
    for (const Account& account : accounts) {
        const std::string name = account.name.substr(account.name.find(':') + 1);
        if (std::find(listed.begin(), listed.end(), name) == listed.end()) missing.push_back(name);
    }
    return fmt::format("{}", fmt::join(missing, ", "));
}

}  // namespace

std::vector<std::string> provenance_lines(const std::map<std::string, std::string>& properties, const std::vector<Account>& accounts) {
    std::vector<std::string> lines;
    const auto value = [&](const char* name) {
        const auto found = properties.find(name);
        return found == properties.end() ? std::string() : found->second;
    };
    const auto counts = [&](const char* name) { return !value(name).empty() && value(name) != "0"; };
    if (value("INCOMPLETE") == "yes")
        lines.push_back(counts("RANKS_UNFINISHED")
                            ? fmt::format("the run did not end properly: ranks {} never finalised", value("RANKS_UNFINISHED"))
                            : std::string("the run did not end properly"));
    if (value("EXPORTER") == "none") lines.push_back("recorded without an exporter: the operating system's noise was not measured");
    if (!value("EXPORTER_WHY").empty()) lines.push_back(fmt::format("exporter {}: {}", value("EXPORTER"), value("EXPORTER_WHY")));
    if (properties.contains("ACCOUNTS_SEEN")) {
        const std::string unseen = missing_from(value("ACCOUNTS_SEEN"), accounts);
        if (!unseen.empty()) lines.push_back(fmt::format("not seen by the exporter {}: {}", value("EXPORTER"), unseen));
        std::vector<Account> seen;
        for (const Account& account : accounts)
            if ((", " + unseen + ",").find(", " + account.name.substr(account.name.find(':') + 1) + ",") == std::string::npos)
                seen.push_back(account);
        const std::string gross = properties.contains("ACCOUNTS_NET") ? missing_from(value("ACCOUNTS_NET"), seen) : "";
        if (!gross.empty()) lines.push_back(fmt::format("not net of what is nested in it, so possibly counted twice: {}", gross));
    }
    if (counts("RANKS_MISSING")) lines.push_back(fmt::format("ranks {} left nothing", value("RANKS_MISSING")));
    if (counts("CLOCK_ERROR_NS")) lines.push_back(fmt::format("the hosts' clocks are known to {} ns", value("CLOCK_ERROR_NS")));
    for (const std::string& line : split(value("WARNINGS"), '\n')) lines.push_back(line);
    if (counts("EVENTS_DROPPED"))
        lines.push_back(
            fmt::format("{} noise events ({} ns) were lost to a full ring: their counters are right, their places in time are not",
                        value("EVENTS_DROPPED"), value("EVENTS_DROPPED_NS")));
    if (counts("MEASURING_ENDED_NS") && value("WARNINGS").find("exporter ended") == std::string::npos)
        lines.push_back("the exporter ended before the program did: later noise is missing");
    return lines;
}

std::string oversubscription_line(const Result& result) {
    for (const ServiceResult& service : result.services) {
        if (service.name != "preempt_job" || service.local.mean * 100 < static_cast<double>(result.measured_ns)) continue;
        return fmt::format(
            "the job's own threads took {:.3f} ms of each rank's CPU on average ({:.1f} % of the run): there are more of them than CPUs. "
            "That "
            "is the service preempt_job, not noise; --remove os-service:preempt_job shows what it costs",
            service.local.mean / 1e6, 100 * service.local.mean / static_cast<double>(result.measured_ns));
    }
    return {};
}

}  // namespace polter::replay
