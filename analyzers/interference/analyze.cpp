// SPDX-License-Identifier: BSD-3-Clause
// Runs of traces: the estimate of each, the replay's noise beside it, and how the runs compare.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "analyzers/export/timeline_reader.hpp"
#include "interference.hpp"
#include "mutations.hpp"
#include "profile.hpp"
#include "replay/base/temporary.hpp"
#include "replay/replay.hpp"

namespace polter::interference {

namespace {

// The first process makes a folder for all, which vanishes with its owner.
class Folder {
  public:
    explicit Folder(replay::Group* group) : mine_(!group || group->rank() == 0) {
        if (mine_) {
            path_ = replay::temporary_directory() + "/polter-interference-XXXXXX";
            if (!mkdtemp(path_.data())) throw replay::InputError(path_ + ": no temporary folder can be made; set TMPDIR");
        }
        if (!group) return;
        replay::Bytes path;
        path.put(path_.data(), path_.size());
        const replay::Bytes first = group->gather(path).front();
        path_.assign(first.data.begin(), first.data.end());
    }
    ~Folder() {
        std::error_code ignored;
        if (mine_) std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    std::string path(const char* name) const { return path_ + "/" + name; }

  private:
    bool mine_;
    std::string path_;
};

// How much longer each segment took because of OS noise: by how much the delay grew in it, measured against the timeline without noise.
std::vector<double> growth_of(const Run& run, const Run& without) {
    std::vector<double> growth;
    for (size_t i = 0; i < std::min(run.segments.size(), without.segments.size()); ++i)
        growth.push_back(static_cast<double>(run.segments[i].duration - without.segments[i].duration));
    return growth;
}

void split_by_cause(Hit& hit, const SegmentNoise& noise) {
    double all = 0;
    for (const auto& [cause, ns] : noise.by_cause) all += static_cast<double>(ns);
    if (all <= 0) {
        if (*hit.os_noise_ns > 0) hit.causes[{"unknown", "unknown"}] = *hit.os_noise_ns;
        return;
    }
    for (const auto& [cause, ns] : noise.by_cause) hit.causes[cause] = *hit.os_noise_ns * static_cast<double>(ns) / all;
}

// All processes of the group call it, the first one with the run.
replay::Result without_noise(const Folder& folder, const std::string& trace, replay::Group* group,
                             const std::function<void(double)>& progress) {
    replay::Options options;
    options.trace = trace;
    options.write_approximated = folder.path("without-noise");
    options.progress = progress;
    options.group = group;
    return replay::replay(options);
}

void add_noise(Analyzed& analyzed, int64_t origin, bool keep_without, replay::Group* group,
               const std::function<void(double)>& progress) {
    const Folder folder(group);
    const replay::Result result = without_noise(folder, analyzed.run.trace, group, progress);
    analyzed.measured_ns = result.measured_ns;
    analyzed.noise_unknown = not_measured(result);
    analyzed.noise_known = analyzed.noise_unknown.empty();
    if (!analyzed.noise_known) return;
    analyzed.accumulated_noise_ns = result.accumulated_noise_ns;
    analyzed.bounds_low_ns = result.measured_ns - result.bounds_high_ns;
    analyzed.bounds_high_ns = result.measured_ns - result.bounds_low_ns;
    if (result.conditional)
        analyzed.warnings.push_back(
            "without noise the program may behave differently, so the OS noise in segments is one of the "
            "possibilities (polter replay says why)");
    Estimate& estimate = analyzed.estimate;
    if (estimate.hits.empty() && !keep_without) return;
    Run without = read_segments(folder.path("without-noise"), origin);
    const std::vector<double> growth = growth_of(analyzed.run, without);
    if (keep_without) analyzed.without = std::move(without);
    std::vector<size_t> wanted;
    for (const Hit& hit : estimate.hits) wanted.push_back(hit.segment);
    const auto noise = read_noise(analyzed.run.trace, origin, analyzed.run, wanted);
    std::vector<double> usual;  // by group: what noise costs a segment that it hits as it always does
    for (const GroupTimes& group : estimate.groups) {
        std::vector<double> all;
        for (const size_t i : group.group.members)
            if (i < growth.size()) all.push_back(growth[i]);
        usual.push_back(all.empty() ? 0 : samples::median(std::move(all)));
    }
    for (Hit& hit : estimate.hits) {
        if (hit.segment >= growth.size()) continue;
        hit.os_noise_ns = std::clamp(growth[hit.segment] - usual[hit.group], 0.0, hit.over_median_ns);
        const auto found = noise.find(hit.segment);
        if (mutated(Mutation::noise_in_waits) && found != noise.end()) {
            hit.os_noise_ns = 0;
            for (const auto& [cause, ns] : found->second.by_cause) *hit.os_noise_ns += static_cast<double>(ns);
        }
        split_by_cause(hit, found == noise.end() ? SegmentNoise() : found->second);
    }
}

void compare_runs(Result& result) {
    size_t fastest = 0;
    for (size_t i = 1; i < result.runs.size(); ++i)
        if (result.runs[i].run.total() < result.runs[fastest].run.total()) fastest = i;
    result.fastest = fastest;
    const Run& reference = result.runs[fastest].run;
    for (const Analyzed& one : result.runs)
        if (one.run.ranks != reference.ranks || one.run.segments.size() != reference.segments.size()) {
            result.warnings.push_back(fmt::format(
                "the runs differ in ranks or in their number of segments ({} and {}): what they differ by is not interference alone, so it "
                "is not measured",
                one.run.segments.size(), reference.segments.size()));
            result.fastest.reset();
            return;
        }
    for (Analyzed& one : result.runs) one.measured = measure(one.run, reference, one.estimate.percent);
}

}  // namespace

Result analyze(const Options& options) {
    Result result;
    const auto all = static_cast<double>(options.traces.size());
    for (size_t i = 0; i < options.traces.size(); ++i) {
        Analyzed analyzed;
        const bool profile = is_profile(options.traces[i]);
        if (options.group && options.group->rank() > 0) {
            if (options.noise && !profile) without_noise(Folder(options.group), options.traces[i], options.group, {});
            continue;
        }
        const int64_t origin = profile ? 0 : exports::first_event(options.traces[i]);
        analyzed.run = profile ? read_profile(options.traces[i]) : read_segments(options.traces[i], origin);
        analyzed.estimate = estimate(analyzed.run);
        if (profile)
            analyzed.noise_unknown = "a profile has no noise; a trace has (polter run without --profile)";
        else if (!options.noise)
            analyzed.noise_unknown = "the run was not replayed (--no-noise)";
        else
            try {
                add_noise(analyzed, origin, options.keep_without, options.group, [&](double part) {
                    if (options.progress) options.progress((static_cast<double>(i) + part) / all);
                });
            } catch (const replay::InputError& error) {  // the estimate stands without the replay
                if (options.group) throw;                // the others would wait
                analyzed.noise_known = false;
                analyzed.noise_unknown = std::string("the run cannot be replayed: ") + error.what();
            }
        result.runs.push_back(std::move(analyzed));
    }
    if (options.progress) options.progress(1);
    if (result.runs.size() > 1) compare_runs(result);
    return result;
}

}  // namespace polter::interference
