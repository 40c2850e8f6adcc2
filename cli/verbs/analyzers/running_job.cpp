// SPDX-License-Identifier: BSD-3-Clause
#include "running_job.hpp"

#include <fmt/format.h>
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
#include "analyzers/quality/running.hpp"
#include "analyzers/quality/store.hpp"
#include "replay/base/error.hpp"
#include "replay/trace/child_process.hpp"
#include "snapshot.hpp"

namespace polter::cli {

namespace fs = std::filesystem;

namespace {

constexpr int courtesy = 10;  // niceness: the job goes first
constexpr std::chrono::seconds usual_interval{10};
constexpr int64_t most_of_cpu = 20;  // one part in so many, where the user names no interval: looks become longer with the trace

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

quality::Look look(const RunningJob& running, const fs::path& copy) {
    // Before the job can have ended, and be one of them.
    std::vector<std::string> warnings;
    auto history = quality::Store(running.history, false).jobs("", warnings);
    for (const std::string& warning : warnings) tell(warning);
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
void look_once(const RunningJob& running) {
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
        setpriority(PRIO_PROCESS, 0, courtesy);  // where it fails, it competes as an equal
        const quality::Look seen = look(running, scratch.folder() / "copy");
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

}  // namespace

void follow_running_job(const RunningJob& running) {
    using Clock = std::chrono::steady_clock;
    const quality::Store store(running.history, false);
    if (!runs(running.experiment))
        throw quality::StoreError(fmt::format("{}: no running job; give the directory that polter run -o names, while the job runs",
                                              running.experiment.string()));
    const auto interval = running.interval_ns > 0 ? std::chrono::nanoseconds(running.interval_ns) : usual_interval;
    bool begun = false;
    auto next = Clock::now(), last_here = next;
    for (;;) {
        next = std::max(next + interval, Clock::now());
        while (Clock::now() < next && runs(running.experiment)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (!runs(running.experiment)) return;
        const auto before = Clock::now();
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
        look_once(running);
        if (running.interval_ns == 0) next = std::max(next, before + most_of_cpu * (Clock::now() - before) - interval);
    }
}

}  // namespace polter::cli
