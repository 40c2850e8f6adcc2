// SPDX-License-Identifier: BSD-3-Clause
#include "export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "aggregate.hpp"
#include "chrome.hpp"
#include "csv.hpp"
#include "goal/program.hpp"
#include "loggopsim.hpp"
#include "perfetto.hpp"
#include "replay/base/printable.hpp"
#include "replay/replay.hpp"

namespace polter::exports {

namespace fs = std::filesystem;
using replay::Archive;
using replay::InputError;

namespace {

Target::Kind kind_of(Format format) {
    switch (format) {
        case Format::perfetto:
            return PerfettoWriter::kind();
        case Format::chrome:
            return ChromeWriter::kind();
        case Format::csv:
            return CsvWriter::kind();
        case Format::loggopsim:
            return NoiseFiles::kind();
        case Format::goal:
            return GoalWriter::kind();
    }
    return {};
}

// The end of what is selected.
struct Length : Sink {
    int64_t end_ns = 0;
    void enter(int64_t time, uint32_t, bool) override { end_ns = std::max(end_ns, time); }
    void leave(int64_t time) override { end_ns = std::max(end_ns, time); }
};

// One export, and what all its steps need.
class Export {
  public:
    explicit Export(const ExportOptions& options)
        : options_(options), archive_(options.trace), origin_(first_event(options.trace)), target_(output(), kind_of(options.format)) {
        result_.trace = options.trace;
        result_.format = format_name(options.format);
        result_.output = output();
        check_ranks();
    }

    ExportResult run() {
        switch (options_.format) {
            case Format::perfetto: {
                const auto file = target_.open();
                PerfettoWriter writer(*file, size_check(most_perfetto_bytes));
                write_timelines(writer, *file);
                break;
            }
            case Format::chrome: {
                const auto file = target_.open();
                ChromeWriter writer(*file, options_.trace, size_check(most_chrome_bytes));
                write_timelines(writer, *file);
                break;
            }
            case Format::csv:
                write_tables();
                break;
            case Format::loggopsim:
                write_noise_files();
                break;
            case Format::goal:
                write_goal();
                break;
        }
        if (options_.selection.begin > 0 && options_.format != Format::loggopsim &&
            std::all_of(result_.counts.begin(), result_.counts.end(), [](const auto& one) { return one.second == 0; })) {
            end_ns();  // says so where the window begins after the run
            warn("nothing was recorded in this window");
        }
        target_.commit();
        return std::move(result_);
    }

  private:
    std::string output() const { return options_.output.empty() ? default_output(options_.trace, options_.format) : options_.output; }
    const replay::Definitions& definitions() const { return archive_.definitions(); }
    void warn(std::string text) { result_.warnings.push_back(std::move(text)); }
    void count(const char* what, uint64_t number) { result_.counts.emplace_back(what, number); }

    void check_ranks() const {
        if (options_.selection.ranks.size() > static_cast<size_t>(definitions().ranks))
            throw InputError(fmt::format("--ranks: {} has ranks 0 to {} only", options_.trace, definitions().ranks - 1));
    }

    std::function<void(uint64_t)> size_check(uint64_t usual) const {
        const uint64_t most = options_.most_bytes > 0 ? options_.most_bytes : usual;
        return [this, most](uint64_t bytes) {
            if (bytes > most) throw too_large(most);
        };
    }
    InputError too_large(uint64_t most) const {
        const auto milliseconds = std::max<int64_t>(1, (end_ns() - options_.selection.begin) / 1'000'000);
        return InputError(fmt::format(
            "{}: would be larger than {} MB, which viewers can hardly open; nothing was written. Choose: --window A-B (a part of the time, "
            "of {} ms here), --ranks LIST (some of the {} ranks), --aggregate (counters of MPI time and noise instead of single events), "
            "or "
            "--measured-only (half as much)",
            target_.shown(), most / 1'000'000, milliseconds, definitions().ranks));
    }

    int64_t end_ns() const {
        if (!end_ns_) {
            Archive again(options_.trace);
            Length length;
            auto whole = options_.selection;  // a window may reach beyond the run
            whole.begin = decltype(options_.selection){}.begin;
            whole.end = decltype(options_.selection){}.end;
            read_timeline(again, origin_, whole, length);
            if (options_.selection.begin > 0 && length.end_ns <= options_.selection.begin)
                throw InputError(fmt::format("--window: begins after the end of {}, which is {:.6f} s after its first event",
                                             options_.trace, static_cast<double>(length.end_ns) / 1e9));
            end_ns_ = std::min(options_.selection.end, length.end_ns);
        }
        return *end_ns_;
    }

    void read(Archive& archive, Sink& sink) {
        const ReadResult read = read_timeline(archive, origin_, options_.selection, sink);
        result_.events += read.events;
        if (read.noise_without_room_ns > 0)
            warn(fmt::format("{} ns of noise were longer than the time in which they were recorded; they are left out",
                             read.noise_without_room_ns));
        if (read.unreadable_locations > 0) warn(fmt::format("{} threads could not be read and are missing", read.unreadable_locations));
        if (read.damaged_locations > 0)
            warn(fmt::format("the records of {} threads are damaged; part of them is missing", read.damaged_locations));
    }

    // The replay, for its results; and for the approximated timeline, as an archive that is removed afterwards.
    replay::Result replayed(const std::string& approximated) {
        replay::Options options;
        options.trace = options_.trace;
        options.write_approximated = approximated;
        options.progress = options_.progress;
        replay::Result result = replay::replay(options);
        for (const auto& warning : result.warnings) warn(warning.text);
        return result;
    }

    bool wants_approximated() {
        if (options_.measured_only) return false;
        const bool noise =
            std::any_of(definitions().accounts.begin(), definitions().accounts.end(), [](const auto& a) { return !a.service; });
        if (!noise) warn("the trace has no noise metrics, so the approximated timeline is the measured one; it is left out");
        return noise;
    }

    void write_timeline(Archive& archive, TimelineWriter& writer, const char* name, size_t number) {
        const replay::Definitions& of = archive.definitions();
        Group group{name, number, &of, {}};
        if (options_.aggregate > 0) {
            group.counters = Aggregate::names(of);
            writer.start(group);
            const int64_t begin = options_.selection.begin;
            Aggregate aggregate(writer, of, begin, end_ns() - begin, options_.aggregate);
            read(archive, aggregate);
        } else {
            for (const auto& counter : of.counters) group.counters.push_back({counter.name, counter.unit});
            writer.start(group);
            read(archive, writer);
        }
        result_.timelines.emplace_back(name);
    }

    // The measured one first: what is too large is known before the replay.
    std::optional<replay::Result> write_both(TimelineWriter& writer, bool needs_result) {
        write_timeline(archive_, writer, "measured", 0);
        std::optional<replay::Result> result;
        if (!wants_approximated()) {
            if (needs_result) result = replayed("");
            return result;
        }
        const std::string path = target_.scratch("approximated");
        result = replayed(path);
        Archive approximated(path);
        write_timeline(approximated, writer, "approximated", 1);
        return result;
    }
    void count_timeline(const Counts& counts) {
        count("calls", counts.calls);
        count("messages_sent", counts.messages_sent);
        count("messages_received", counts.messages_received);
        count("noise_slices", counts.noise);
        count("counter_values", counts.counters);
    }

    void write_timelines(TimelineWriter& writer, OutputFile& file) {
        write_both(writer, false);
        writer.finish();
        file.close();
        result_.files = 1;
        result_.bytes = file.bytes();
        count_timeline(writer.counts());
    }

    void write_tables() {
        CsvWriter writer(target_);
        const auto result = write_both(writer, true);
        writer.finish();
        result_.bytes = writer.bytes() + write_result_tables(target_, *result);
        result_.files = 8;
        count_timeline(writer.counts());
    }

    void write_noise_files() {
        if (definitions().accounts.empty())
            throw InputError(fmt::format("{}: has no noise metrics, so there is no noise to export", options_.trace));
        const int64_t begin = options_.selection.begin;
        NoiseFiles files(target_, definitions(), begin, end_ns() - begin);
        read(archive_, files);
        files.finish();
        result_.files = files.files();
        result_.bytes = files.bytes();
        count("noise_events", files.count());
    }

    void write_goal() {
        GoalSurvey survey(definitions());
        {
            Archive first(options_.trace);
            read_timeline(first, origin_, {}, survey);
        }
        const replay::Result replayed_result = replayed("");
        const auto mpi = definitions().properties.find("MPI");
        GoalAlgorithms algorithms(replayed_result.model, mpi == definitions().properties.end() ? "" : mpi->second);
        const auto file = target_.open();
        GoalWriter writer(*file, options_.trace, definitions(), survey, algorithms);
        read(archive_, writer);
        writer.finish();
        file->close();
        result_.files = 1;
        result_.bytes = file->bytes();
        const GoalWriter::Counts& counts = writer.counts();
        count("computations", counts.computations);
        count("sends", counts.sends);
        count("receives", counts.receives);
        count("collectives", counts.collectives);
        count("collectives_by_learned_algorithm", counts.by_learned_algorithm);
        if (survey.half_messages() > 0)
            warn(fmt::format("{} sends or receives have no other end in the trace; they are left out", survey.half_messages()));
        if (counts.left_out_collectives > 0)
            warn(fmt::format("{} calls of collectives are left out: not all members took part, or they join two groups",
                             counts.left_out_collectives));
        if (counts.left_out_records > 0)
            warn(fmt::format(
                "{} records have no form in GOAL and are left out: one-sided transfers, collectives of files and neighbours, and "
                "what other threads did",
                counts.left_out_records));
    }

    const ExportOptions& options_;
    Archive archive_;
    int64_t origin_;
    Target target_;
    ExportResult result_;
    mutable std::optional<int64_t> end_ns_;
};

}  // namespace

std::string format_name(Format format) {
    constexpr const char* names[] = {"perfetto", "chrome", "csv", "loggopsim", "goal"};
    return names[static_cast<size_t>(format)];
}

std::string default_output(const std::string& trace, Format format) {
    fs::path path = fs::path(trace).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (path.extension() == ".otf2") path = path.has_parent_path() ? path.parent_path() : fs::current_path();
    if (!path.has_filename() || path == "." || path == "..") {
        std::error_code error;
        path = fs::canonical(path.empty() ? "." : path, error);
    }
    const std::string name = path.has_filename() ? path.filename().string() : "trace";
    constexpr const char* endings[] = {".perfetto-trace", ".chrome.json", "-csv", "-loggopsim", ".goal"};
    return name + endings[static_cast<size_t>(format)];
}

ExportResult export_trace(const ExportOptions& options) {
    return Export(options).run();
}

}  // namespace polter::exports
