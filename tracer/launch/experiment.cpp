// SPDX-License-Identifier: BSD-3-Clause
#include "experiment.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include "../conventions.hpp"
#include "programs/command_programs.hpp"
#include "launch.hpp"

namespace polter::launch {
namespace fs = std::filesystem;

namespace {
std::tm local_time() {
    auto now = std::time(nullptr);
    std::tm out{};
    localtime_r(&now, &out);
    return out;
}

void require_empty(const fs::path& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) throw Error(fmt::format("{}: exists and is no directory; choose another with -o", path.string()));
    if (!fs::is_empty(path, error) || error)
        throw Error(fmt::format("{}: holds something already, and nothing is ever overwritten; choose another with -o", path.string()));
}
}  // namespace

std::string application_name(const std::vector<std::string>& command, const std::string& program) {
    if (!program.empty()) return fs::path(program).filename();
    const auto found = programs_of(command);
    return fs::path(found.programs.empty() ? command.front() : found.programs.back().path).filename();
}

fs::path make_experiment(const fs::path& wanted, const std::string& application) {
    std::error_code error;
    if (!wanted.empty()) {
        auto path = fs::absolute(wanted, error);
        if (!path.has_filename()) path = path.parent_path();  // "e/"
        if (fs::exists(path, error)) {
            require_empty(path);
        } else if (!fs::create_directories(path, error) && error) {
            throw Error(
                fmt::format("{}: the experiment directory cannot be made: {}; choose another with -o", path.string(), error.message()));
        }
        if (access(path.c_str(), W_OK | X_OK) != 0)
            throw Error(fmt::format("{}: cannot be written to: {}; choose another with -o", path.string(), std::strerror(errno)));
        return path;
    }
    auto stem = fmt::format("polter-{}-{:%Y%m%d-%H%M%S}", application, local_time());
    for (int n = 1;; ++n) {  // two runs in one second
        auto path = fs::current_path(error) / (n == 1 ? stem : fmt::format("{}-{}", stem, n));
        if (mkdir(path.c_str(), 0777) == 0) return path;
        if (errno != EEXIST)
            throw Error(fmt::format("{}: the experiment directory cannot be made: {}; choose another with -o", path.string(),
                                    std::strerror(errno)));
    }
}

bool take_back_experiment(const fs::path& experiment) {
    std::error_code error;
    fs::remove(experiment / trace::ranks_folder, error);  // where it is empty
    std::vector<fs::path> ours;
    for (fs::directory_iterator at(experiment, error), end; !error && at != end; at.increment(error)) {
        const auto name = at->path().filename().string();
        if (name != trace::provenance_name && name != daemon_log && name != std::string(trace::provenance_name) + ".new") return false;
        ours.push_back(at->path());
    }
    if (error) return false;
    for (const auto& file : ours) fs::remove(file, error);
    return fs::remove(experiment, error);
}

std::string time_text() {
    return fmt::format("{:%Y-%m-%dT%H:%M:%S%z}", local_time());
}

nlohmann::ordered_json provenance(const std::vector<std::string>& command) {
    utsname system{};
    uname(&system);
    std::error_code error;
    return {{"schema", "polter.experiment/1"},
            {"polter", POLTER_VERSION},
            {"command", command},
            {"directory", fs::current_path(error).string()},
            {"host", system.nodename},
            {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
            {"started", time_text()}};
}

void write_json(const fs::path& file, const nlohmann::ordered_json& content) {
    auto fresh = file;
    fresh += ".new";
    std::ofstream out(fresh);
    // Command lines need not be UTF-8.
    out << content.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    out.close();
    std::error_code error;
    if (out) fs::rename(fresh, file, error);
    if (!out || error) throw Error(fmt::format("{}: cannot be written; is the disk full?", file.string()));
}

std::string shell_text(const std::vector<std::string>& command) {
    std::string out;
    for (const auto& word : command) {
        if (!out.empty()) out += ' ';
        bool plain = !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") ==
                                          std::string::npos;
        if (plain) {
            out += word;
            continue;
        }
        out += '\'';
        for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
        out += '\'';
    }
    return out;
}

}  // namespace polter::launch
