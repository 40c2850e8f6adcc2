// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "advice.hpp"
#include "replay/base/layout.hpp"
#include "replay/base/printable.hpp"
#include "replay/base/table.hpp"

namespace polter::advice {

namespace {

using nlohmann::json;

json amount(const replay::Saving& saving, int64_t measured) {
    const auto part = [&](int64_t ns) { return measured > 0 ? 100.0 * static_cast<double>(ns) / static_cast<double>(measured) : 0.0; };
    return {{"value", saving.ns},
            {"unit", "ns"},
            {"interval", {saving.low_ns, saving.high_ns}},
            {"samples", 1},
            {"percent_of_run_time", part(saving.ns)},
            {"percent_interval", {part(saving.low_ns), part(saving.high_ns)}},
            {"conditional", saving.conditional}};
}

json suggestion_json(const Suggestion& one, int64_t measured) {
    json actions = json::array();
    const auto scenario = [](const replay::Scenario& removals) {
        json list = json::array();
        for (const replay::Removal& removal : removals)
            list.push_back({{"source", removal.source}, {"culprits", removal.culprits}, {"ranks", removal.ranks}});
        return list;
    };
    for (const Action& action : one.actions) actions.push_back({{"how", action.how}, {"commands", action.commands}, {"note", action.note}});
    return {{"kind", one.kind},
            {"title", one.title},
            {"saves", amount(one.saves, measured)},
            {"removed", scenario(one.removed)},
            {"follows", scenario(one.follows)},
            {"may_be", scenario(one.may_be)},
            {"stolen_ns", one.stolen_ns},
            {"noise_events", one.events},
            {"ranks", one.ranks},
            {"evidence", one.evidence},
            {"actions", actions},
            {"overlaps", one.overlaps}};
}

std::string interval(int64_t low, int64_t high) {
    return fmt::format("({} to {})", replay::short_time(low), replay::short_time(high));
}

std::string answer(const Advice& advice) {
    using replay::short_time;
    if (advice.suggestions.empty()) {
        std::string text = fmt::format("Nothing to gain here: no change would save {:g} % of the run time of {} with certainty.",
                                       advice.least * 100, short_time(advice.measured_ns));
        if (advice.largest_not_suggested) {
            const Suggestion& one = *advice.largest_not_suggested;
            text += fmt::format(" The largest would save {} {}, {} ({}); {}.", short_time(one.saves.ns),
                                interval(one.saves.low_ns, one.saves.high_ns), replay::short_percent(one.saves.ns, advice.measured_ns),
                                one.title, advice.why_not);
        } else {
            text += " No noise was recorded that a change could remove.";
        }
        return text;
    }
    const Suggestion& best = advice.suggestions.front();
    std::string text =
        fmt::format("{}: that would save {} of {}, {} {}.", best.title, short_time(best.saves.ns), short_time(advice.measured_ns),
                    replay::short_percent(best.saves.ns, advice.measured_ns), interval(best.saves.low_ns, best.saves.high_ns));
    if (advice.together)
        text += fmt::format(" All {} suggestions together would save {} {}.", advice.suggestions.size(), short_time(advice.together->ns),
                            interval(advice.together->low_ns, advice.together->high_ns));
    return text;
}

std::string details(const Suggestion& one, size_t number, size_t columns) {
    using replay::fold, replay::printable;
    std::string out = fmt::format("\n{}\n", fold(fmt::format("{}. {}", number, printable(one.title)), 3, columns));
    const auto line = [&](const std::string& text, size_t indent, size_t further) {
        out += std::string(indent, ' ') + fold(text, indent + further, columns - indent) + "\n";
    };
    for (const std::string& evidence : one.evidence) line(printable(evidence), 3, 0);
    for (size_t i = 0; i < one.actions.size(); ++i) {
        const Action& action = one.actions[i];
        line((i > 0 ? "or " : "") + action.how + ":", 3, 0);
        for (const std::string& command : action.commands) out += "     " + printable(command) + "\n";  // stays whole: it is copied
        if (!action.note.empty()) line(printable(action.note), 5, 0);
    }
    if (!one.overlaps.empty()) {
        std::string others;
        for (const size_t other : one.overlaps) others += (others.empty() ? "" : ", ") + std::to_string(other + 1);
        line(fmt::format("Some of its noise is also in {}: the savings do not add up.", others), 3, 0);
    }
    return out;
}

}  // namespace

json to_json(const Advice& advice) {
    json suggestions = json::array(), warnings = json::array();
    for (const Suggestion& one : advice.suggestions) suggestions.push_back(suggestion_json(one, advice.measured_ns));
    for (const replay::Warning& warning : advice.warnings) warnings.push_back(warning.text);
    json largest;
    if (advice.largest_not_suggested) {
        largest = suggestion_json(*advice.largest_not_suggested, advice.measured_ns);
        largest["why_not"] = advice.why_not;
    }
    return {{"schema", "polter.advise/1"},
            {"trace", advice.trace},
            {"program", advice.program},
            {"answer", answer(advice)},
            {"measured_ns", advice.measured_ns},
            {"accumulated_noise",
             {{"value", advice.accumulated_noise_ns},
              {"unit", "ns"},
              {"interval", {advice.noise_low_ns, advice.noise_high_ns}},
              {"samples", 1}}},
            {"least_percent", advice.least * 100},
            {"candidates", advice.candidates},
            {"suggestions", suggestions},
            {"together", advice.together ? amount(*advice.together, advice.measured_ns) : json()},
            {"largest_not_suggested", largest},
            {"conditional", advice.conditional},
            {"open", advice.open},
            {"warnings", warnings},
            {"provenance", advice.provenance}};
}

std::string to_text(const Advice& advice, const replay::TextOptions& options) {
    using replay::fold, replay::short_time;
    std::string out = fold(replay::printable(answer(advice)), 0, options.columns) + "\n";
    if (advice.open)
        out += fold("The trace leaves open how much the noise cost " + interval(advice.noise_low_ns, advice.noise_high_ns) +
                        "; each figure is one of the possibilities within its bounds.",
                    2, options.columns) +
               "\n";
    if (advice.conditional)
        out += fold("Conditional: without the noise the program may behave differently (see Warnings).", 2, options.columns) + "\n";
    const auto beyond = [&](const Suggestion& one) { return one.saves.high_ns > advice.noise_high_ns; };
    if ((advice.together && advice.together->high_ns > advice.noise_high_ns) ||
        std::any_of(advice.suggestions.begin(), advice.suggestions.end(), beyond))
        out += fold("Upper bounds above the cost of all noise (" + interval(advice.noise_low_ns, advice.noise_high_ns).substr(1) +
                        ": ranks may also have needed each other's CPUs inside of MPI calls, which no trace tells.",
                    2, options.columns) +
               "\n";
    if (!advice.suggestions.empty()) {
        replay::Table table({"", "change", "saves", "", "bounds"}, {0, 1, 4}, {1}, {});
        for (size_t i = 0; i < advice.suggestions.size(); ++i) {
            const Suggestion& one = advice.suggestions[i];
            table.add({std::to_string(i + 1), one.title, short_time(one.saves.ns), replay::short_percent(one.saves.ns, advice.measured_ns),
                       interval(one.saves.low_ns, one.saves.high_ns)});
        }
        out += "\n" + table.text(options.columns);
        for (size_t i = 0; i < advice.suggestions.size(); ++i) out += details(advice.suggestions[i], i + 1, options.columns);
    }
    if (!advice.warnings.empty()) out += "\nWarnings\n";
    for (const replay::Warning& warning : advice.warnings) out += "  " + fold(replay::printable(warning.text), 4, options.columns) + "\n";
    return out;
}

}  // namespace polter::advice
