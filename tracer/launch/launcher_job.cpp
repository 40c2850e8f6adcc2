// SPDX-License-Identifier: BSD-3-Clause
#include "launcher_job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <seal.hpp>
#include <utility>

#include "../conventions.hpp"
#include "environment.hpp"
#include "launch.hpp"

namespace polter::launch {
namespace fs = std::filesystem;
namespace {

constexpr const char* processes_folder = ".processes";  // one file a process of the job: <process>.running, then <process>.ended

// How launchers name a job and its size, the more exact first. Empty second: the first alone names it.
struct Naming {
    const char *job, *step, *size;
};
constexpr Naming namings[] = {{"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"},
                              {"PMIX_NAMESPACE", "", "OMPI_COMM_WORLD_SIZE"},
                              {"OMPI_MCA_ess_base_jobid", "", "OMPI_COMM_WORLD_SIZE"},
                              {"PMI_JOBID", "", "PMI_SIZE"},
                              {"HYDRA_JOBID", "", "PMI_SIZE"},
                              // Hydra names no job. Its processes have one launcher, whose port or descriptor set they share.
                              {"PMI_PORT", "", "PMI_SIZE"}};

uint64_t hash(const std::string& text) {  // FNV-1a
    uint64_t out = 0xcbf29ce484222325ull;
    for (unsigned char c : text) out = (out ^ c) * 0x100000001b3ull;
    return out;
}

std::string host() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

std::string plain(std::string text) {
    for (char& c : text)
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
    return text;
}

// The job's name and its size, as the launcher says them; empty: it does not.
std::pair<std::string, std::string> named_by_launcher() {
    for (const auto& naming : namings) {
        auto job = value_of(naming.job);
        if (job.empty()) continue;
        if (auto step = value_of(naming.step); !step.empty()) job += "." + step;
        return {job, value_of(naming.size)};
    }
    // Hydra on one node hands down descriptors and no name: the launcher's proxy is the parent of all of its node's processes.
    auto size = value_of("PMI_SIZE");
    return {size.empty() ? "" : fmt::format("hydra-{}-{}", host(), getppid()), size};
}

uint32_t number_in(const std::string& text) {
    uint32_t number = 0;
    return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc{} ? number : 0;
}

}  // namespace

uint32_t launched_processes() {
    return std::max(number_in(named_by_launcher().second), 1u);
}

LauncherJob find_launcher_job(const std::string& application) {
    LauncherJob out;
    out.process = plain(fmt::format("{}.{}", host(), getpid()));
    const auto [job, size] = named_by_launcher();
    if (job.empty()) {
        out.id = random_job_id();
        out.name = fmt::format("polter-{}-{}", plain(application), out.process);
        out.size = 1;
        return out;
    }
    out.id = fmt::format("{:016x}", hash(job));
    out.name = fmt::format("polter-{}-{}", plain(application), plain(job));
    out.size = number_in(size);
    return out;
}

fs::path join_experiment(const fs::path& wanted, const LauncherJob& job) {
    std::error_code error;
    auto given = wanted.empty() ? fs::path(value_of(trace::env_experiment)) : wanted;
    auto path = fs::absolute(given.empty() ? fs::path(job.name) : given, error);
    auto foreign = [&] {
        return Error(
            fmt::format("{}: holds another job's experiment, and nothing is ever overwritten; choose another with -o", path.string()));
    };
    if (seal::is_sealed(path)) throw foreign();
    fs::create_directories(path / processes_folder, error);
    if (error)
        throw Error(fmt::format("{}: the experiment directory cannot be made: {}; choose another with -o", path.string(), error.message()));
    ExperimentLock lock(path);
    auto owner_file = path / processes_folder / "job";
    std::ifstream owner(owner_file);
    std::string id;
    owner >> id;
    bool used = id.empty() ? fs::exists(path / trace::ranks_folder) : id != job.id;
    if (used || seal::is_sealed(path)) throw foreign();
    if (id.empty()) std::ofstream(owner_file) << job.id << "\n";
    std::ofstream note(path / processes_folder / (job.process + ".running"));
    if (!note) throw Error(fmt::format("{}: cannot be written to; choose another with -o", path.string()));
    return path;
}

ExperimentLock::ExperimentLock(const fs::path& experiment)
    : fd_(open((experiment / processes_folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ < 0) throw Error(fmt::format("{}: cannot be locked: {}", experiment.string(), std::strerror(errno)));
    struct flock whole {};
    whole.l_type = F_WRLCK;
    while (fcntl(fd_, F_SETLKW, &whole) != 0) {
        if (errno == EINTR) continue;
        int reason = errno;
        close(fd_);
        throw Error(fmt::format("{}: cannot be locked: {}", experiment.string(), std::strerror(reason)));
    }
}
ExperimentLock::~ExperimentLock() {
    close(fd_);
}

fs::path node_note(const fs::path& experiment) {
    return experiment / processes_folder / (plain(host()) + ".node");
}

bool last_to_end(const fs::path& experiment, const LauncherJob& job) {
    auto folder = experiment / processes_folder;
    if (!fs::exists(folder / "job")) return false;  // sealed and tidied by another
    std::error_code error;
    fs::rename(folder / (job.process + ".running"), folder / (job.process + ".ended"), error);
    uint32_t running = 0, ended = 0;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        auto suffix = at->path().extension();
        running += suffix == ".running";
        ended += suffix == ".ended";
    }
    // Processes that have not begun yet have left no note: only the size that the launcher told counts them.
    return running == 0 && ended >= job.size;
}

void forget_processes(const fs::path& experiment) {
    std::error_code error;
    fs::remove_all(experiment / processes_folder, error);
}

}  // namespace polter::launch
