// SPDX-License-Identifier: BSD-3-Clause
#include "features.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "analyzers/export/timeline_reader.hpp"
#include "replay/base/error.hpp"

namespace polter::quality {

namespace {

using exports::Record;
using replay::Definitions;

using Sums = std::array<double, intervals>;

constexpr int64_t most_steps = 128, least_step_ns = 1'000'000;

int64_t step_of(int64_t length) {
    int64_t step = least_step_ns;
    while (step * most_steps < length) step *= 2;
    return step;
}

bool is_share(const std::string& name) {
    return name == "mpi" || name.starts_with("noise:") || name.starts_with("service:");
}

std::string total_name(const std::string& name) {
    return name.starts_with("counter:") ? name.substr(8) : name;
}

// First reading: when the run ends. Second: what lies in which part of it.
class Ends : public exports::Sink {
  public:
    void leave(int64_t time) override { last = std::max(last, time); }
    void enter(int64_t time, uint32_t, bool) override { last = std::max(last, time); }
    int64_t last = 0;
};

class Collector : public exports::Sink {
  public:
    Collector(const Definitions& definitions, int64_t length)
        : definitions_(definitions), length_(static_cast<double>(length)), ranks_(static_cast<size_t>(definitions.ranks)) {
        series_.step_ns = step_of(length);
        steps_ = static_cast<size_t>(length / series_.step_ns) + 1;
    }
    void begin(const exports::Place& place) override {
        skipped_ = place.thread > 0;
        rank_ = static_cast<size_t>(place.rank);
        open_.clear();
        last_.clear();
        in_mpi_ = 0;
    }
    void enter(int64_t time, uint32_t, bool mpi) override {
        open_.push_back(mpi);
        if (skipped_ || !mpi || in_mpi_++ > 0) return;
        entered_ = time;
        count("calls", time, 1);
    }
    void leave(int64_t time) override {
        if (open_.empty()) return;
        const bool mpi = open_.back();
        open_.pop_back();
        if (skipped_ || !mpi || --in_mpi_ > 0) return;
        spread("mpi", entered_, time, static_cast<double>(time - entered_));
    }
    void record(const Record& record) override {
        if (!skipped_ && (record.kind == Record::Kind::send || record.kind == Record::Kind::isend ||
                          record.kind == Record::Kind::collective || record.kind == Record::Kind::collective_complete))
            count("bytes", record.time, static_cast<double>(record.bytes));
    }
    void noise(const exports::NoiseSlice& slice) override {
        const auto& account = definitions_.accounts[static_cast<size_t>(slice.account)];
        if (skipped_) return;
        std::string source = replay::display_name(account);
        if (constexpr std::string_view prefix = "os-service:"; source.starts_with(prefix)) source.erase(0, prefix.size());
        spread((account.service ? "service:" : "noise:") + source, slice.begin, slice.end, static_cast<double>(slice.end - slice.begin));
        if (account.service) return;  // what the program asked for took nothing from it
        stolen_[{source, definitions_.culprit_name(slice.culprit)}][static_cast<int32_t>(rank_)] += slice.end - slice.begin;
    }
    void counter(int64_t time, size_t index, double value) override {
        if (skipped_ || !std::isfinite(value)) return;
        const auto [last, first] = last_.try_emplace(index, value);
        if (!first && value > last->second) count("counter:" + definitions_.counters[index].name, time, value - last->second);
        last->second = value;
    }
    void fill(Job& job) const {
        std::set<std::string> names;
        for (const auto& rank : ranks_)
            for (const auto& [name, sums] : rank) names.insert(name);
        const double each_s = length_ * 1e-9 / static_cast<double>(intervals);
        for (const std::string& name : names) {
            const bool share = is_share(name);
            double total = 0;
            add(job, name, [&](const auto& rank, size_t i) {
                const auto found = rank.find(name);
                const double sum = found == rank.end() ? 0 : found->second[i];
                total += sum;
                return share ? sum * 1e-9 / each_s : sum / each_s;
            });
            if (!share) job.totals[total_name(name)] = total;
        }
        job.series = series_;
        const auto of = [&](const char* part) {
            for (const std::string& name : names)
                if (name.starts_with("counter:") && name.find(part) != std::string::npos) return name;
            return std::string();
        };
        const std::string instructions = of("TOT_INS");
        for (const auto& [ratio, above, below] : {std::tuple{"instructions per cycle", instructions, of("TOT_CYC")},
                                                  std::tuple{"branch misses per instruction", of("BR_MSP"), instructions},
                                                  std::tuple{"branches per instruction", of("BR_INS"), instructions},
                                                  std::tuple{"L1 misses per instruction", of("L1_DCM"), instructions}})
            if (!above.empty() && !below.empty())
                add(job, ratio, [&](const auto& rank, size_t i) {
                    const auto a = rank.find(above), b = rank.find(below);
                    return a == rank.end() || b == rank.end() || b->second[i] <= 0 ? 0 : a->second[i] / b->second[i];
                });
        for (const auto& [cause, by_rank] : stolen_) {
            const auto most =
                std::max_element(by_rank.begin(), by_rank.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
            job.stolen.push_back({cause.first, cause.second, most->second, most->first});
        }
        std::stable_sort(job.stolen.begin(), job.stolen.end(), [](const Stolen& a, const Stolen& b) { return a.ns > b.ns; });
        constexpr size_t most_causes = 200;
        if (job.stolen.size() > most_causes) job.stolen.resize(most_causes);
    }

  private:
    template <class Value>
    void add(Job& job, const std::string& name, const Value& value) const {
        Feature feature;
        const auto n = static_cast<double>(ranks_.size());
        for (size_t i = 0; i < intervals; ++i) {
            double squares = 0;
            for (const auto& rank : ranks_) {
                const double one = value(rank, i);
                feature.mean[i] += one / n;
                squares += one * one / n;
            }
            feature.deviation[i] = std::sqrt(std::max(0.0, squares - feature.mean[i] * feature.mean[i]));
        }
        job.features[name] = feature;
    }
    size_t part(int64_t time) const {
        return std::min(intervals - 1, static_cast<size_t>(std::max(0.0, static_cast<double>(time) / length_ * intervals)));
    }
    std::vector<double>& steps(const std::string& name) {
        std::vector<double>& all = series_.steps[total_name(name)];
        all.resize(steps_);
        return all;
    }
    size_t step(int64_t time) const { return std::min(steps_ - 1, static_cast<size_t>(std::max<int64_t>(0, time) / series_.step_ns)); }
    void count(const std::string& name, int64_t time, double value) {
        ranks_[rank_][name][part(time)] += value;
        steps(name)[step(time)] += value;
    }
    void spread(const std::string& name, int64_t begin, int64_t end, double value) {
        Sums& sums = ranks_[rank_][name];
        std::vector<double>& all = steps(name);
        for (size_t i = step(begin), last = step(end); i <= last && end > begin; ++i) {
            const int64_t from = std::max(begin, static_cast<int64_t>(i) * series_.step_ns),
                          to = i == last ? end : static_cast<int64_t>(i + 1) * series_.step_ns;
            all[i] += value * static_cast<double>(std::max<int64_t>(0, to - from)) / static_cast<double>(end - begin);
        }
        const size_t first = part(begin), last = part(end);
        for (size_t i = first; i <= last; ++i) {
            const double from = std::max(static_cast<double>(begin), length_ * static_cast<double>(i) / intervals),
                         to = std::min(static_cast<double>(end), length_ * static_cast<double>(i + 1) / intervals);
            if (end > begin) sums[i] += value * std::max(0.0, to - from) / static_cast<double>(end - begin);
        }
    }

    const Definitions& definitions_;
    double length_;
    std::vector<std::map<std::string, Sums>> ranks_;
    std::map<std::pair<std::string, std::string>, std::map<int32_t, int64_t>> stolen_;
    std::map<size_t, double> last_;
    std::vector<bool> open_;
    Series series_;
    size_t steps_ = 1, rank_ = 0;
    int64_t entered_ = 0;
    int in_mpi_ = 0;
    bool skipped_ = false;
};

}  // namespace

Job job_of(const std::string& trace) {
    const int64_t origin = exports::first_event(trace);
    Ends ends;
    {
        replay::Archive archive(trace);
        exports::read_timeline(archive, origin, {}, ends);
    }
    if (ends.last <= 0) throw replay::InputError(trace + ": its events all have one time; there is no job to record");
    replay::Archive archive(trace);
    const Definitions& definitions = archive.definitions();
    Job job;
    Collector collector(definitions, ends.last);
    exports::read_timeline(archive, origin, {}, collector);
    collector.fill(job);
    job.processes = definitions.ranks;
    job.nodes = static_cast<int64_t>(std::max<size_t>(1, definitions.hosts.size()));
    job.runtime_ns = ends.last;
    const auto property = [&](const char* name) {
        const auto found = definitions.properties.find(name);
        return found == definitions.properties.end() ? std::string() : found->second;
    };
    job.application = std::filesystem::path(property("PROGRAM")).filename().string();
    const std::string exporter = property("EXPORTER");
    job.noise_known = !exporter.empty() && exporter != "none";
    return job;
}

}  // namespace polter::quality
