// SPDX-License-Identifier: BSD-3-Clause
#include "environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "../conventions.hpp"

namespace polter::launch {
namespace {

bool has_word(const std::vector<std::string>& command, std::initializer_list<const char*> words) {
    return std::any_of(command.begin(), command.end(), [&](const std::string& word) {
        return std::any_of(words.begin(), words.end(), [&](const char* wanted) { return word == wanted; });
    });
}

// Open MPI's launcher gives other nodes only what it is told to; MPICH's gives them everything.
bool may_leave_the_node(const std::vector<std::string>& command) {
    if (has_word(command, {POLTER_HOST_OPTIONS})) return true;
    for (const char* manager : {POLTER_BATCH_VARIABLES})
        if (std::getenv(manager)) return true;
    return false;
}

std::string names_of(const Environment& environment) {
    std::string names;
    for (const auto& [name, value] : environment) names += (names.empty() ? "" : ";") + name;
    return names;
}

}  // namespace

std::string value_of(const char* variable) {
    const char* value = *variable ? std::getenv(variable) : nullptr;
    return value ? value : "";
}

std::string random_job_id() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}", device(), device());
}

Environment job_environment(const std::vector<std::string>& command, const std::filesystem::path& experiment, const std::string& job,
                            const Flavour& flavour, const std::filesystem::path& preload, const Exporter& exporter,
                            const Environment& recording, std::vector<std::string>& warnings) {
    Environment out;
    if (!preload.empty()) {
        auto others = value_of("LD_PRELOAD");
        out.emplace_back("LD_PRELOAD", others.empty() ? preload.string() : fmt::format("{}:{}", preload.string(), others));
    }
    out.emplace_back(trace::env_experiment, experiment);
    out.emplace_back(trace::env_job, job);
    out.emplace_back(trace::env_socket, exporter.socket);
    out.emplace_back(trace::env_exporter, exporter.name);
    out.emplace_back(trace::env_exporter_why, exporter.why);
    out.emplace_back(trace::env_tracepoints, exporter.tracepoints);
    out.insert(out.end(), recording.begin(), recording.end());
    if (flavour.open) {  // the launchers themselves will know
        out.emplace_back(trace::env_forward, names_of(out));
        return out;
    }
    if (flavour.mpi != Mpi::openmpi || !may_leave_the_node(command)) return out;
    constexpr const char* list = "OMPI_MCA_mca_base_env_list";
    if (has_word(command, {"-x", "mca_base_env_list"})) {
        // Open MPI refuses the two together.
        std::string more;
        for (const auto& [name, value] : recording) more += " -x " + name;
        warnings.push_back(fmt::format(
            "mpirun's -x is in use: add -x LD_PRELOAD -x POLTER_EXPERIMENT -x POLTER_JOB -x POLTER_SOCKET -x POLTER_EXPORTER{}, or ranks "
            "on other nodes are not traced",
            more));
        return out;
    }
    const auto before = value_of(list);
    out.emplace_back(list, before.empty() ? names_of(out) : before + ";" + names_of(out));
    return out;
}

}  // namespace polter::launch
