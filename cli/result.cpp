// SPDX-License-Identifier: BSD-3-Clause
#include "result.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "replay/parallel/forked.hpp"
#include "replay/replay.hpp"
#include "replay/trace/child_process.hpp"
#include "result_text.hpp"
#include "unreplayed.hpp"
#include "verb.hpp"
#include "wording.hpp"

namespace polter::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double least_limit_s = 2, part_of_run = 0.02;
constexpr double events_a_second = 2.5e6;  // what a replay gets through on one CPU of 2.6 GHz, more or less
constexpr size_t most_screens = 8;         // of one run

std::string shown(const fs::path& path) {
    std::error_code error;
    auto relative = fs::relative(path, error);
    return error || relative.string().starts_with("..") ? path.string() : relative.string();
}

json text_or_null(const std::string& text) {
    return text.empty() ? json() : json(text);
}

json run_json(const launch::Outcome& outcome, const launch::Traced* traced) {
    return {{"experiment", traced ? json(traced->experiment.string()) : text_or_null(outcome.experiment.string())},
            {"exit_code", outcome.exit_code},
            {"wall_ns", outcome.wall_ns},
            {"exporter",
             {{"name", outcome.exporter},
              {"why", outcome.exporter_why},
              {"unseen", outcome.unseen},
              {"limits", outcome.limits},
              {"events_not_shown", outcome.events_not_shown}}},
            {"own_cost_ns", traced && traced->report.own_cost_ns ? json(*traced->report.own_cost_ns) : json()},
            {"no_trace", text_or_null(outcome.no_trace)},
            {"measured_by", text_or_null(traced ? traced->report.exporter : "")},
            {"not_measured", text_or_null(traced ? traced->not_measured : "")},
            {"mpi_jobs", outcome.traced.size()},
            {"warnings", outcome.warnings}};
}

// How long the user is kept waiting for all replays of a run, in seconds.
double limit_s(const launch::Outcome& outcome) {
    if (const char* text = std::getenv("POLTER_REPLAY_LIMIT"); text && *text) {
        char* end = nullptr;
        if (const double given = std::strtod(text, &end); !*end && given >= 0) return given;
        tell(fmt::format("POLTER_REPLAY_LIMIT={}: not a number of seconds", text));
    }
    return std::max(least_limit_s, part_of_run * static_cast<double>(outcome.wall_ns) * 1e-9);
}

std::string count_text(uint64_t number) {
    return number < 10'000'000 ? fmt::format("{:.1f} million", static_cast<double>(number) / 1e6)
                               : fmt::format("{} million", number / 1'000'000);
}

std::string seconds_text(double seconds) {
    return seconds < 10 ? fmt::format("{:.2g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

// A job's result, as text or as JSON.
class Job {
  public:
    Job(const launch::Outcome& outcome, const launch::Traced& traced, bool as_json) : outcome_(outcome), traced_(traced), json_(as_json) {}

    // Within `left_s`. Not replayed: why is in the result.
    std::string result(double left_s, double limit) {
        const double needed_s = static_cast<double>(traced_.report.events) / events_a_second;
        if (needed_s > left_s)
            return local(fmt::format("replaying {} events takes about {}; polter run waits at most {}", count_text(traced_.report.events),
                                     seconds_text(std::max(needed_s, 0.1)), seconds_text(limit)));
        const auto text = replayed(left_s);
        return text ? *text
                    : local(fmt::format("the replay did not finish within {}, and polter run waits no longer", seconds_text(limit)));
    }

  private:
    // Unset: it was not done in time. Empty: it failed, which has been told.
    std::optional<std::string> replayed(double left_s) {
        const int file = memfd_create("polter-result", MFD_CLOEXEC);
        const pid_t self = getpid();
        const auto end = replay::go_apart(60, {}, left_s);
        if (!end) {  // the child; or there could be none
            const auto text = replay_here();
            if (getpid() == self) return text;
            size_t written = 0;
            while (written < text.size()) {
                const ssize_t part = write(file, text.data() + written, text.size() - written);
                if (part <= 0) _exit(1);
                written += static_cast<size_t>(part);
            }
            std::fflush(nullptr);
            _exit(0);
        }
        std::string text;
        char part[65536];
        lseek(file, 0, SEEK_SET);
        for (ssize_t length; (length = read(file, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(length));
        close(file);
        if (end->late) return {};
        if (!end->error.empty()) tell(end->error);
        if (end->signal) {  // whoever waits for this process shall see the same
            signal(end->signal, SIG_DFL);
            raise(end->signal);
        }
        return end->exit_code == 0 && end->error.empty() ? text : "";
    }

    std::string replay_here() {
        replay::Options options;
        options.trace = traced_.experiment;
        try {
            options.decode_ahead = replay::fastest_division(options.trace, false).decode_ahead;
            const auto result = replay::replay(options);
            return json_ ? with_run(replay::to_json(result), "") : screen(replay::to_short_text(result, text_options()));
        } catch (const std::exception& error) {
            tell(error);
            return "";
        }
    }

    std::string local(const std::string& why) {
        const auto result = unreplayed(traced_);
        return json_ ? with_run(unreplayed_json(result), why) : screen(replay::to_unreplayed_text(result, why, text_options()));
    }

    std::string with_run(json document, const std::string& why) {
        document["run"] = run_json(outcome_, &traced_);
        document["run"]["replayed"] = why.empty();
        document["run"]["not_replayed"] = text_or_null(why);
        return document.dump(2, ' ', false, json::error_handler_t::replace);
    }

    std::string screen(const std::string& text) { return fmt::format("\n{}\nMore: polter replay {}\n", text, shown(traced_.experiment)); }

    const launch::Outcome& outcome_;
    const launch::Traced& traced_;
    bool json_;
};

void print_text(const launch::Outcome& outcome, size_t number, const std::string& text) {
    const auto& all = outcome.traced;
    if (number < most_screens) {
        const auto title = all.size() > 1 ? fmt::format("\nMPI job {} of {}", number + 1, all.size()) : "";
        fmt::print("{}", wrap(title + (title.empty() || text.empty() ? "" : "\n") + text, terminal_width(STDOUT_FILENO)));
    } else {
        if (number == most_screens) fmt::print("\n");
        fmt::print("MPI job {}: {}, {} ranks: polter replay {}\n", number + 1, all[number].report.properties.at("POLTER::PROGRAM"),
                   all[number].report.ranks, shown(all[number].experiment));
    }
}

}  // namespace

void print_results(const launch::Outcome& outcome, bool as_json) {
    using Clock = std::chrono::steady_clock;
    const double limit = limit_s(outcome);
    const auto began = Clock::now();
    json documents = json::array();
    for (size_t i = 0; i < outcome.traced.size(); ++i) {
        const bool listed = !as_json && i >= most_screens;
        const double left = limit - std::chrono::duration<double>(Clock::now() - began).count();
        const auto text = listed ? "" : Job(outcome, outcome.traced[i], as_json).result(left, limit);
        if (!as_json)
            print_text(outcome, i, text);
        else if (outcome.traced.size() == 1 && !text.empty())
            fmt::print("{}\n", text);
        else if (outcome.traced.size() > 1)
            documents.push_back(text.empty() ? json{{"run", run_json(outcome, &outcome.traced[i])}} : json::parse(text));
    }
    if (documents.empty()) return;
    auto first = std::move(documents.front());
    documents.erase(documents.begin());
    first["further"] = std::move(documents);
    fmt::print("{}\n", first.dump(2, ' ', false, json::error_handler_t::replace));
}

void print_no_trace(const launch::Outcome& outcome) {
    fmt::print("{}\n", json{{"run", run_json(outcome, nullptr)}}.dump(2));
}

}  // namespace polter::cli
