// SPDX-License-Identifier: BSD-3-Clause
// Warnings that the engine does not count: from the archive's properties, and calls without a record. Their texts: base/flaws.cpp.
#include "warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "replay/base/layout.hpp"

namespace polter::replay {

void limit_open_questions(std::vector<Warning>& warnings, const OpenQuestions& questions, const std::map<Flaw, int64_t>& occurrences,
                          int64_t run_time_ns) {
    for (Warning& warning : warnings) {
        const auto question = questions.find(warning.flaw);
        const auto count = occurrences.find(warning.flaw);
        if (warning.effect() != Effect::conditional || question == questions.end() || count == occurrences.end()) continue;
        if (question->second.limited < count->second) continue;  // what the others can change is not known
        limit(warning, {question->second.concerned.length(), question->second.change.length()}, run_time_ns);
    }
}

std::vector<Warning> flaw_lines(const std::vector<FlawCount>& flaws, int64_t clock_disorder_ns) {
    std::vector<Warning> lines;
    for (size_t i = 0; i < flaws.size(); ++i)
        if (flaws[i].count > 0) lines.push_back(warning(static_cast<Flaw>(i), flaws[i].count, flaws[i].ns, short_time(flaws[i].ns)));
    if (clock_disorder_ns > 0) lines.push_back(warning(Flaw::clock_disorder, clock_disorder_ns, short_time(clock_disorder_ns)));
    return lines;
}

std::vector<Warning> unrecorded_lines(Flaw flaw, const std::map<uint32_t, FlawCount>& calls, const Definitions& definitions) {
    constexpr size_t most_names = 4;
    std::vector<std::pair<FlawCount, std::string>> by_time;
    FlawCount all;
    for (const auto& [region, calls_of] : calls) {
        all.count += calls_of.count;
        all.ns += calls_of.ns;
        by_time.emplace_back(calls_of, definitions.region_name(region));
    }
    if (all.count == 0) return {};
    std::sort(by_time.begin(), by_time.end(),
              [](const auto& a, const auto& b) { return a.first.ns != b.first.ns ? a.first.ns > b.first.ns : a.second < b.second; });
    std::string names;
    for (size_t i = 0; i < std::min(by_time.size(), most_names); ++i) names += (i > 0 ? ", " : "") + by_time[i].second;
    if (by_time.size() > most_names) names += ", …";
    return {warning(flaw, all.count, static_cast<double>(all.ns) / 1e6, names, short_time(all.ns))};
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

// Accounts that the trace defines and that the property's list lacks.
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

std::vector<Warning> provenance_lines(const std::map<std::string, std::string>& properties, const std::vector<Account>& accounts) {
    std::vector<Warning> lines;
    const auto value = [&](const char* name) {
        const auto found = properties.find(name);
        return found == properties.end() ? std::string() : found->second;
    };
    const auto counts = [&](const char* name) { return !value(name).empty() && value(name) != "0"; };
    const auto add = [&](Flaw flaw, const auto&... arguments) { lines.push_back(warning(flaw, arguments...)); };
    if (value("INCOMPLETE") == "yes")
        add(Flaw::run_incomplete,
            counts("RANKS_UNFINISHED") ? fmt::format(": ranks {} never finalised", value("RANKS_UNFINISHED")) : std::string());
    if (value("EXPORTER") == "none") add(Flaw::no_exporter);
    if (!value("EXPORTER_WHY").empty()) add(Flaw::exporter_reason, value("EXPORTER"), value("EXPORTER_WHY"));
    if (properties.contains("ACCOUNTS_SEEN")) {
        const std::string missing = missing_from(value("ACCOUNTS_SEEN"), accounts);
        if (!missing.empty()) add(Flaw::source_not_seen, value("EXPORTER"), missing);
        std::vector<Account> seen;
        for (const Account& account : accounts)
            if ((", " + missing + ",").find(", " + account.name.substr(account.name.find(':') + 1) + ",") == std::string::npos)
                seen.push_back(account);
        const std::string gross = properties.contains("ACCOUNTS_NET") ? missing_from(value("ACCOUNTS_NET"), seen) : "";
        if (!gross.empty()) add(Flaw::source_not_net, gross);
    }
    if (counts("RANKS_MISSING")) add(Flaw::ranks_without_files, value("RANKS_MISSING"));
    if (value("CLOCK_ERROR_NS") == "unknown")
        add(Flaw::clocks_unknown);
    else if (counts("CLOCK_ERROR_NS"))
        add(Flaw::clock_error, value("CLOCK_ERROR_NS"));
    for (const std::string& line : split(value("WARNINGS"), '\n')) add(Flaw::recorder, line);
    std::string not_recorded;
    for (const std::string& what : split(value("NOT_RECORDED"), ',')) {
        const char* name = what == "nested"        ? "regions within regions"
                           : what == "ordered"     ? "ordered sections"
                           : what == "teams"       ? "teams that run at the same time"
                           : what == "uncontended" ? "mutexes that were free when a thread asked for them"
                                                   : "tasks that may be detached";
        not_recorded += (not_recorded.empty() ? "" : ", ") + std::string(name);
    }
    if (!not_recorded.empty()) add(Flaw::threads_not_recorded, not_recorded);
    if (counts("EVENTS_DROPPED")) add(Flaw::events_dropped, value("EVENTS_DROPPED"), value("EVENTS_DROPPED_NS"));
    if (counts("MEASURING_ENDED_NS") && value("WARNINGS").find("exporter ended") == std::string::npos) add(Flaw::exporter_ended);
    return lines;
}

int64_t clock_error_ns(const std::map<std::string, std::string>& properties) {
    const auto found = properties.find("CLOCK_ERROR_NS");
    int64_t error = 0;
    if (found == properties.end()) return 0;
    const std::string& text = found->second;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), error);
    return failed == std::errc{} && end == text.data() + text.size() && error > 0 ? std::min<int64_t>(error, INT64_MAX / 4) : 0;
}

std::vector<Warning> clock_error_lines(const Result& result) {
    const int64_t error = clock_error_ns(result.provenance);
    int64_t latency = INT64_MAX;
    for (const LearnedCost& learned : result.model.costs)
        if (learned.of.kind == CostKind::receive_after_send && !learned.of.same_host) latency = std::min(latency, learned.cost.mid);
    if (latency == INT64_MAX)  // no messages: what a collective takes at least
        for (const LearnedCost& learned : result.model.costs)
            if (learned.of.kind == CostKind::collective_tail && !learned.of.same_host) latency = std::min(latency, learned.cost.mid);
    if (error <= latency) return {};
    return {warning(Flaw::clock_error_large, error, latency, short_time(error), short_time(latency))};
}

std::vector<Warning> oversubscription_lines(const Result& result) {
    for (const ServiceResult& service : result.services) {
        if (service.name != "preempt_job" || service.local.mean * 100 < static_cast<double>(result.measured_ns)) continue;
        return {warning(Flaw::oversubscription, service.local.mean / 1e6,
                        100 * service.local.mean / static_cast<double>(result.measured_ns),
                        short_time(static_cast<int64_t>(service.local.mean)))};
    }
    return {};
}

}  // namespace polter::replay
