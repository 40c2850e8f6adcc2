// SPDX-License-Identifier: BSD-3-Clause
#include "alongside.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "../../tracer/conventions.hpp"
#include "analyzers/export/timeline_reader.hpp"
#include "from_trace.hpp"
#include "shared.hpp"

namespace polter::inject {

namespace fs = std::filesystem;

namespace {

constexpr int64_t for_ever_ns = 3'000'000'000'000'000;
constexpr int look_every_ms = 10, wait_for_others_ms = 10'000;

struct Found {
    std::map<int32_t, Rank> here;
    size_t all = 0, size = 0;  // ranks seen on any node; of the job
};

// What the tracer has noted of each rank at the end of MPI_Init.
Found look_for_ranks(const fs::path& experiment) {
    Found found;
    char host[HOST_NAME_MAX + 1] = {};
    gethostname(host, sizeof host - 1);
    std::error_code error;
    for (const auto& folder : fs::directory_iterator(experiment / trace::ranks_folder, error)) {
        std::ifstream file(folder.path() / trace::sidecar_name);
        std::string line;
        if (!std::getline(file, line) || file.eof()) continue;  // not written to its end
        const auto header = nlohmann::json::parse(line, nullptr, false);
        if (!header.is_object()) continue;
        const auto rank = header.value("rank", -1);
        const auto pid = header.value("pid", 0);
        if (rank < 0 || pid <= 1) continue;
        ++found.all;
        found.size = header.value("size", size_t{0});
        if (header.value("host", "") == host && kill(pid, 0) == 0) found.here[rank] = {rank, pid};
    }
    return found;
}

std::vector<Rank> wait_for_ranks(const fs::path& experiment, int stop, std::vector<std::string>& warnings) {
    int waited = 0;
    Found found;
    do {
        pollfd file{stop, POLLIN, 0};
        if (poll(&file, 1, look_every_ms) > 0)
            throw Error("no noise was injected: no rank called MPI_Init, or the job ended right after it");
        found = look_for_ranks(experiment);
        if (found.all > 0) waited += look_every_ms;
    } while ((found.all == 0 || found.all < found.size) && waited < wait_for_others_ms);
    std::vector<Rank> ranks;
    for (const auto& [number, rank] : found.here) ranks.push_back(rank);
    if (ranks.size() < found.size)
        warnings.push_back(
            fmt::format("noise was injected into {} of {} ranks: the others run on other nodes, or called MPI_Init much later",
                        ranks.size(), found.size));
    return ranks;
}

void check_ranks(const std::vector<Spec>& specs, const std::vector<Rank>& ranks) {
    for (const Spec& spec : specs)
        for (const int place : spec.by_rank ? spec.places : std::vector<int>())
            if (std::none_of(ranks.begin(), ranks.end(), [&](const Rank& rank) { return rank.rank == place; }))
                throw Error(fmt::format("{}: rank {} is not among the {} ranks on this node", spec.text, place, ranks.size()));
}

// Events of a CPU belong to the rank that is bound to it.
void name_ranks(Log& log, const std::vector<Spec>& specs, const std::map<int, int32_t>& rank_on) {
    for (size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].by_rank) continue;
        const size_t before = log.sources[i].events.size();
        std::erase_if(log.sources[i].events, [&](Injected& event) {
            const auto found = rank_on.find(event.cpu);
            if (found != rank_on.end()) event.rank = found->second;
            return found == rank_on.end();
        });
        if (const size_t lost = before - log.sources[i].events.size(); lost > 0)
            log.warnings.push_back(fmt::format("{}: {} events on CPUs to which no rank is bound are not in the log", specs[i].text, lost));
    }
}

std::map<int, int32_t> bound_ranks(const std::vector<Rank>& ranks) {
    std::map<int, int32_t> on;
    for (const Rank& rank : ranks) {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (sched_getaffinity(rank.pid, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1) continue;
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) on[cpu] = rank.rank;
    }
    return on;
}

std::string read_all(int fd, int limit_ms) {
    std::string text;
    char part[4096];
    pollfd file{fd, POLLIN, 0};
    for (;;) {
        const int ready = poll(&file, 1, limit_ms);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) break;
        const ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        text.append(part, static_cast<size_t>(n));
    }
    return text;
}

}  // namespace

Alongside::Alongside(const std::vector<std::string>& specs) {
    for (const std::string& text : specs) {
        Spec spec = parse_spec(text);
        if (spec.places.empty() && text.find("cpus=") == std::string::npos) spec.by_rank = true;  // of a job: all its ranks
        request_.specs.push_back(std::move(spec));
        request_.listed.push_back(request_.specs.back().kind == Kind::replay ? listed_events(request_.specs.back()) : EventsOf());
    }
    check(request_.specs, limits_here());
    for (size_t i = 0; i < request_.specs.size(); ++i)
        for (size_t k = 0; k < i; ++k)
            if (request_.specs[i].name == request_.specs[k].name) request_.specs[i].name += fmt::format("-{}", i + 1);
}

Alongside::~Alongside() {
    if (child_ > 0) end();
}

void Alongside::supervise(const fs::path& experiment, int stop, int report) {
    // Nothing of the launcher's stays open here but our ends of the pipes.
    constexpr int our_stop = 3, our_report = 4, first_free = 10;
    const int stop_copy = fcntl(stop, F_DUPFD, first_free), report_copy = fcntl(report, F_DUPFD, first_free);
    dup2(stop_copy, our_stop);
    dup2(report_copy, our_report);
    close_range(our_report + 1, ~0u, 0);
    setpgid(0, 0);  // Ctrl-C means the job
    prctl(PR_SET_NAME, "polter-watch");
    nlohmann::json said{{"warnings", nlohmann::json::array()}};
    try {
        std::vector<std::string> warnings;
        request_.stop_fd = our_stop;
        request_.length_ns = for_ever_ns;
        std::map<int, int32_t> on;
        request_.find_ranks = [&] {
            auto ranks = wait_for_ranks(experiment, our_stop, warnings);
            check_ranks(request_.specs, ranks);
            on = bound_ranks(ranks);
            return ranks;
        };
        Log log = inject(request_);
        name_ranks(log, request_.specs, on);
        log.warnings.insert(log.warnings.begin(), warnings.begin(), warnings.end());
        write_log(log, experiment / log_name);
        said["warnings"] = log.warnings;
        if (!log.incomplete.empty()) said["warnings"].push_back(log.incomplete);
        said["events"] = log.events();
    } catch (const std::exception& error) {
        said["warnings"].push_back(error.what());
    }
    const std::string text = said.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    [[maybe_unused]] const auto written = write(our_report, text.data(), text.size());
    _exit(0);
}

void Alongside::begin(const fs::path& experiment) {
    int stop[2], report[2];
    if (pipe2(stop, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0)
        throw launch::Error(fmt::format("the injector cannot be started: {}", std::strerror(errno)));
    child_ = fork();
    if (child_ < 0) throw launch::Error(fmt::format("the injector cannot be started: {}", std::strerror(errno)));
    if (child_ == 0) {
        close(stop[1]);
        close(report[0]);
        supervise(fs::absolute(experiment), stop[0], report[1]);
    }
    close(stop[0]);
    close(report[1]);
    stop_ = stop[1];
    report_ = report[0];
}

std::vector<std::string> Alongside::end() {
    if (child_ < 0) return {};
    close(stop_);
    constexpr int limit_ms = 20'000;
    const auto said = nlohmann::json::parse(read_all(report_, limit_ms), nullptr, false);
    close(report_);
    std::vector<std::string> warnings;
    if (said.is_object()) {
        for (const auto& warning : said["warnings"]) warnings.push_back("inject: " + warning.get<std::string>());
    } else {
        kill(child_, SIGKILL);
        warnings.push_back("inject: the injector was killed; how much noise it injected is not known, and there is no log of it");
    }
    waitpid(child_, nullptr, 0);
    child_ = -1;
    return warnings;
}

int64_t first_event_ns(const fs::path& experiment) {
    const replay::Archive archive(experiment);
    return static_cast<int64_t>(archive.definitions().global_offset) + exports::first_event(experiment);
}

void align_log(const fs::path& log, const fs::path& experiment) {
    Log aligned = read_log(log);
    aligned.origin_ns = first_event_ns(experiment);
    write_log(aligned, experiment / log_name);
}

}  // namespace polter::inject
