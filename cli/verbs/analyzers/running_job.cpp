// SPDX-License-Identifier: BSD-3-Clause
#include "running_job.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "../../../tracer/launch/remains.hpp"
#include "../../verb.hpp"
#include "analyzers/quality/features.hpp"
#include "analyzers/quality/reasons.hpp"
#include "analyzers/quality/running.hpp"
#include "analyzers/quality/store.hpp"
#include "replay/base/error.hpp"
#include "replay/trace/child_process.hpp"
#include "snapshot.hpp"

namespace polter::cli {

namespace fs = std::filesystem;

namespace {

constexpr int courtesy = 19;  // niceness: of a CPU that the job does not leave, about 1.4 % is got
constexpr std::chrono::seconds usual_interval{10};

constexpr std::chrono::minutes longest_end{10};  // from the last rank's end to the sealed trace

// For copies of what the ranks recorded; removed with all that is in it.
class Scratch {
  public:
    Scratch() {
        std::error_code error;
        std::string name = (fs::temp_directory_path(error) / "polter-running-XXXXXX").string();
        if (error || !mkdtemp(name.data()))
            throw quality::StoreError(fmt::format("{}: cannot be made: {}; set TMPDIR to a directory with room for a copy of the trace",
                                                  name, std::strerror(errno)));
        folder_ = name;
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }
    const fs::path& folder() const { return folder_; }

  private:
    fs::path folder_;
};

bool runs(const fs::path& experiment) {
    std::error_code error;
    return fs::is_directory(experiment, error) && !seal::is_sealed(experiment);
}

quality::Look look(const RunningJob& running, std::vector<quality::Job> history, const fs::path& copy) {
    const auto snapshot = seal::take_snapshot(running.experiment, copy);
    quality::Look nothing;
    nothing.point.why = "no rank has called MPI yet";
    if (!snapshot) return nothing;
    quality::Job job;
    try {
        job = quality::job_of(copy.string());
    } catch (const replay::InputError&) {
        nothing.point.why = "too little is recorded yet";
        return nothing;
    }
    job.size = running.size;
    if (snapshot->taken_ns > snapshot->report.first_ns)
        job.runtime_ns = std::max(job.runtime_ns, static_cast<int64_t>(snapshot->taken_ns - snapshot->report.first_ns));
    if (!snapshot->report.missing.empty()) {
        nothing.job = job;
        nothing.point.elapsed_ns = job.runtime_ns;
        nothing.point.why = fmt::format("{} of {} ranks have recorded nothing here yet, or run on nodes that do not see the directory",
                                        snapshot->report.missing.size(), snapshot->report.size);
        return nothing;
    }
    std::erase_if(history, [&](const quality::Job& other) { return other.application != job.application; });
    return quality::look_at(job, history);
}

// In a child process, as copies that were made while ranks write can end the OTF2 library.
void look_once(const RunningJob& running, const std::vector<quality::Job>& history) {
    const Scratch scratch;
    const pid_t self = getpid();
    std::fflush(nullptr);
    const auto end = replay::go_apart();
    if (end) {
        if (end->signal) throw Exit{128 + end->signal};
        if (!end->error.empty())
            tell(fmt::format("{}: what the ranks have recorded could not be read this time", running.experiment.string()));
        if (end->exit_code != 0) throw Exit{end->exit_code};
        return;
    }
    int code = 0;
    try {
        const quality::Look seen = look(running, history, scratch.folder() / "copy");
        fmt::print("{}\n", running.json ? quality::to_json(seen).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                        : quality::to_text(seen));
        std::fflush(stdout);
    } catch (const std::exception& error) {
        if (runs(running.experiment)) {  // else it ended meanwhile
            tell(error);
            code = 1;
        }
    }
    if (getpid() != self) _exit(code);
}

// The job goes first. Where this fails, who follows competes as an equal.
void step_back() {
    setpriority(PRIO_PROCESS, 0, courtesy);
    const sched_param none{};
    sched_setscheduler(0, SCHED_BATCH, &none);  // it takes no CPU from the job when it wakes up
}

// Of this process and those that looked.
std::chrono::nanoseconds cpu_time() {
    std::chrono::nanoseconds sum{0};
    for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
        rusage used{};
        getrusage(whose, &used);
        for (const timeval& time : {used.ru_utime, used.ru_stime}) sum += std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    }
    return sum;
}

}  // namespace

void follow_running_job(const RunningJob& running) {
    using Clock = std::chrono::steady_clock;
    step_back();
    // Read once: what is read again at each look would cost the job's node more; and the job itself is not one of them yet.
    std::vector<std::string> warnings;
    const auto history = quality::Store(running.history, false).jobs("", warnings);
    for (const std::string& warning : warnings) tell(warning);
    if (!runs(running.experiment))
        throw quality::StoreError(fmt::format("{}: no running job; give the directory that polter run -o names, while the job runs",
                                              running.experiment.string()));
    const auto interval = running.interval_ns > 0 ? std::chrono::nanoseconds(running.interval_ns) : usual_interval;
    bool begun = false;
    auto next = Clock::now(), last_here = next;
    for (;;) {
        next = std::max(next + interval, Clock::now());
        while (Clock::now() < next && runs(running.experiment)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (!runs(running.experiment)) return;
        const auto before = Clock::now();
        const auto cpu_before = cpu_time();
        const bool here = launch::still_running(running.experiment) > 0;
        if (here) last_here = before;
        if (begun && !here) {  // it is being sealed, or its launcher was killed too
            if (before - last_here < longest_end) continue;
            throw quality::StoreError(
                fmt::format("{}: the job's processes have ended, and nothing has made a trace of what they left; polter "
                            "replay {} does",
                            running.experiment.string(), running.experiment.string()));
        }
        begun = begun || here;
        look_once(running, history);
        // Looks become longer with the trace, and rarer with their length.
        const std::chrono::duration<double> rest = (cpu_time() - cpu_before) / quality::most_followed;
        next = std::max(next, before + std::chrono::duration_cast<Clock::duration>(rest) - interval);
    }
}

}  // namespace polter::cli
