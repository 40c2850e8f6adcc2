// SPDX-License-Identifier: BSD-3-Clause
#include "collect.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <folder.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "../../conventions.hpp"
#include "../../node_folder.hpp"
#include "../launch.hpp"
#include "../layout.hpp"
#include "../programs/command_programs.hpp"
#include "receiver.hpp"

extern char** environ;

namespace polter::launch {
namespace fs = std::filesystem;
namespace {

constexpr int launcher_s = 60;  // for the launcher to start the first process of a node, and after the last one

const std::vector<std::string> host_options{
    POLTER_HOST_OPTIONS, "-hosts",  "--hosts",           "-f", "-hostlist", "--hostlist", "-w", "-N", "-F",
    "--nodelist",        "--nodes", "--default-hostfile"};

// What the command says of hosts; empty: it stays on this one.
std::vector<std::string> hosts_in(const std::vector<std::string>& command) {
    std::vector<std::string> out;
    for (size_t i = 0; i < command.size(); ++i)
        if (i + 1 < command.size() && std::find(host_options.begin(), host_options.end(), command[i]) != host_options.end())
            out.push_back(command[i] + " " + command[i + 1]);
    for (const char* variable : {POLTER_BATCH_VARIABLES, "HYDRA_HOST_FILE"})
        if (const char* value = std::getenv(variable); value && *value) out.push_back(fmt::format("{}={}", variable, value));
    return out;
}

struct Count {
    uint64_t there = 0, of = 0;
};

// Ranks whose files are in the experiment directory, of how many, over all its MPI jobs.
Count count_ranks(const fs::path& experiment) {
    constexpr size_t longest_header = 64u << 10;
    std::map<std::pair<std::string, uint64_t>, uint64_t> worlds;
    try {
        if (const auto ranks = seal::Folder::open(experiment).sub(trace::ranks_folder))
            for (const auto& name : ranks->folders()) {
                const auto rank = ranks->sub(name);
                const auto text = rank ? seal::text_of(*rank, trace::sidecar_name, longest_header) : "";
                const auto header = nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr, false);
                if (header.is_object() && header.contains("size") && header["size"].is_number_unsigned())
                    ++worlds[{header.value("world", ""), header["size"].get<uint64_t>()}];
            }
    } catch (const std::exception&) {  // sealing says what is wrong
    }
    Count out;
    for (const auto& [world, there] : worlds) {
        out.there += there;
        out.of += world.second * ((there + world.second - 1) / std::max<uint64_t>(world.second, 1));
    }
    return out;
}

// The job's launcher once more, with polter-collect in place of the program. Its standard error goes to `log`.
pid_t start(const std::vector<std::string>& command, const std::string& invitation, const fs::path& log) {
    std::vector<std::string> variables{fmt::format("{}={}", trace::env_collect, invitation)};
    constexpr const char* list = "OMPI_MCA_mca_base_env_list";
    std::string forwarded = fmt::format("{};{}", trace::env_collect, trace::env_node_folder);
    for (char** at = environ; *at; ++at) {
        const std::string variable = *at;
        if (variable.starts_with(std::string(list) + "="))
            forwarded = variable.substr(std::strlen(list) + 1) + ";" + forwarded;
        else
            variables.push_back(variable);
    }
    if (std::find(command.begin(), command.end(), "-x") == command.end()) variables.push_back(fmt::format("{}={}", list, forwarded));
    std::vector<char*> words, environment;
    for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
    for (const auto& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
    words.push_back(nullptr);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_t group;
    posix_spawnattr_init(&group);
    posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
    pid_t pid = -1;
    const int error = posix_spawnp(&pid, words[0], &files, &group, words.data(), environment.data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&group);
    if (error) throw Error(fmt::format("{}: {}", command.front(), std::strerror(error)));
    return pid;
}

// Until the launcher has ended. Its exit code; none: it took too long and was killed.
std::optional<int> serve(collect::Receiver& receiver, pid_t launcher) {
    auto last = std::chrono::steady_clock::now();
    for (;;) {
        const auto before = receiver.hosts().size() + receiver.failures().size();
        receiver.serve(50);
        const auto now = std::chrono::steady_clock::now();
        if (receiver.hosts().size() + receiver.failures().size() != before) last = now;
        int status = 0;
        if (waitpid(launcher, &status, WNOHANG) == launcher) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (now - last < std::chrono::seconds(launcher_s)) continue;
        kill(-launcher, SIGKILL);
        waitpid(launcher, &status, 0);
        return {};
    }
}

// What launchers print of a program that failed is long; ours is one line of it.
std::string own_words(const fs::path& log) {
    const auto text = seal::text_of(seal::Folder::open(log.parent_path()), log.filename().string(), 64u << 10);
    const auto own = text.find("polter-collect: ");
    const auto begin = own == text.npos ? 0 : own;
    return text.substr(begin, std::min<size_t>(text.find('\n', begin), begin + 500) - begin);
}

}  // namespace

void collect_from_nodes(const std::vector<std::string>& command, const fs::path& experiment, const std::string& job) {
    const auto hosts = hosts_in(command);
    const auto before = count_ranks(experiment);
    if (hosts.empty() || (before.of && before.there == before.of)) return;
    const auto folder = trace::node_folder(job);
    const fs::path log = experiment / ".collect.log";
    std::string why;
    try {
        const bool has_x = std::find(command.begin(), command.end(), "-x") != command.end();
        const auto sender = find_part(collect::program);
        if (sender.empty())
            throw Error(fmt::format("{} is not installed beside {}", collect::program, (executable_folder() / "polter").string()));
        const auto again = with_other_program(command, {sender.string()},
                                              has_x ? std::vector<std::string>{"-x", trace::env_collect} : std::vector<std::string>{});
        const bool by_srun =
            std::any_of(command.begin(), command.end(), [](const auto& word) { return fs::path(word).filename() == "srun"; });
        if (!again) throw Error("the command does not show how its launcher is started");
        if (by_srun && !std::getenv("SLURM_JOB_ID")) throw Error("srun outside of an allocation may be given other nodes");
        collect::Receiver receiver(experiment, job);
        const auto code = serve(receiver, start(*again, receiver.invitation().text(), log));
        if (!receiver.failures().empty())
            why = fmt::format("{}", fmt::join(receiver.failures(), "; "));
        else if (!code)
            why = fmt::format("{} took longer than {} s to start {} on the nodes", command.front(), launcher_s, collect::program);
        else if (*code)
            why = fmt::format("{} ended with exit code {} on the nodes: {}", command.front(), *code, own_words(log));
    } catch (const Error& error) {
        why = error.what();
    }
    std::error_code ignored;
    fs::remove(log, ignored);
    if (why.empty()) return;  // whatever is missing now is nowhere
    const auto after = count_ranks(experiment);
    if (after.of == 0)
        throw Error(fmt::format(
            "no rank left a file in {}, so the job may not have started: what it said stands above. If ranks ran on nodes that do not see "
            "this directory ({}), their files are in {} there, from where they could not be collected: {}. Copy the folders in {}/{} of "
            "each "
            "node to {}/{}",
            experiment.string(), fmt::join(hosts, ", "), folder, why, folder, trace::ranks_folder, experiment.string(),
            trace::ranks_folder));
    throw Error(fmt::format(
        "{} of {} ranks left their files in {}; nodes that do not see this directory ({}) keep theirs in {}, from where they could not be "
        "collected: {}. Copy the folders in {}/{} of each node to {}/{}; without them the trace lacks these ranks",
        after.there, after.of, experiment.string(), fmt::join(hosts, ", "), folder, why, folder, trace::ranks_folder, experiment.string(),
        trace::ranks_folder));
}

}  // namespace polter::launch
