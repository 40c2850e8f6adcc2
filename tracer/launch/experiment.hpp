// SPDX-License-Identifier: BSD-3-Clause
// The experiment directory and what it says about its own origin (experiment.json).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace polter::launch {

inline constexpr const char* daemon_log = "polterd.log";  // in the directory: messages of a daemon that was started for the job

// "lmp" of {"mpirun", "-n", "2", "lmp", "-in", "x"}: the program that the flavour was found from if there is one, else the last
// that the command starts, else its first word.
std::string application_name(const std::vector<std::string>& command, const std::string& program);

// Makes the directory: `wanted`, or polter-<app>-<local time> below the current one. Never one that holds anything. Returns its
// absolute path; throws Error.
std::filesystem::path make_experiment(const std::filesystem::path& wanted, const std::string& application);

// Takes back a directory that holds nothing but what the launcher wrote: no rank has left anything there. True: it is gone.
bool take_back_experiment(const std::filesystem::path&);

// Provenance known before the job starts.
nlohmann::ordered_json provenance(const std::vector<std::string>& command);
std::string time_text();  // now, ISO 8601 with offset

// Written whole or not at all. Throws Error.
void write_json(const std::filesystem::path& file, const nlohmann::ordered_json&);

// A command as one would type it.
std::string shell_text(const std::vector<std::string>& command);

}  // namespace polter::launch
