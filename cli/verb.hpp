// A verb of the command line, declared once: its help, the list in `polter --help` and what runs all come from here.
#pragma once

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

namespace polter::cli {

// What every verb has.
struct Common {
    bool json = false;   // the machine-readable form of whatever the verb prints
    bool quiet = false;  // no progress
};

// Each verb is one file that defines `void add_<verb>(CLI::App& parent)`: it declares a subcommand (name, summary, example in the
// footer, flags) and sets its callback. What a callback throws for a run or an input that failed main prints, exit code 1.
// Exit sets another exit code, for a wrapped job's own.
struct Exit {
    int code;
};

// Adds --json and -q to a verb.
void add_common(CLI::App& verb, Common& common);

// One line on standard error. What is in it may come from outside (replay/base/printable.hpp).
void tell(const std::string& line);
void tell(const std::exception& error);

// Throws where what a verb printed could not be written: most of it waits in a buffer until then. That nobody reads any more is no error.
void flush_output();

// Refuses an empty value, which scripts give for a name that they do not have.
extern const CLI::Validator named;

// For verbs that take a command (CLI::App::prefix_command): the words from the first "--" on, that included. Empty: there was none.
const std::vector<std::string>& behind_separator();

// Before a verb reads a trace: from here on it runs in a child process, because damaged archives can kill or hold the OTF2 library; the
// parent never returns from this, but ends as the child did (replay/trace/child_process.hpp). Call it before anything starts threads or
// MPI.
void go_apart(int exit_code_if_it_dies = 1);

void add_run(CLI::App& parent);
void add_exec(CLI::App& parent);
void add_replay(CLI::App& parent);
void add_advise(CLI::App& parent);
void add_compare(CLI::App& parent);
void add_report(CLI::App& parent);
void add_export(CLI::App& parent);
void add_noise(CLI::App& parent);
void add_inject(CLI::App& parent);
void add_bench(CLI::App& parent);
void add_validate(CLI::App& parent);
void add_interference(CLI::App& parent);
void add_latency(CLI::App& parent);
void add_variability(CLI::App& parent);
void add_quality(CLI::App& parent);
void add_predict(CLI::App& parent);
void add_doctor(CLI::App& parent);
void add_completion(CLI::App& parent);

}  // namespace polter::cli
