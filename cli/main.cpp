// polter: only dispatches. One file a verb.
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "../replay/printable.hpp"
#include "../tracer/launch/standard_streams.hpp"
#include "verb.hpp"

namespace polter::cli {

void add_common(CLI::App& verb, Common& common) {
    verb.add_flag("--json", common.json, "Print the machine-readable form");
    verb.add_flag("-q,--quiet", common.quiet, "No progress");
}

void tell(const std::string& line) {
    launch::write_message(fmt::format("polter: {}\n", replay::printable(line)));
}

void tell(const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (!system || !std::ferror(stdout)) return tell(std::string(error.what()));
    // Printing has failed: what fmt says of it does not name the file. Told once, and not tried again.
    __fpurge(stdout);
    std::clearerr(stdout);
    if (system->code().value() != EPIPE)
        tell(fmt::format("standard output: {}; what was written there is not whole", system->code().message()));
}

void flush_output() {
    if (std::fflush(stdout) != 0) {
        if (errno != EPIPE) throw std::system_error(errno, std::generic_category());
    } else if (std::ferror(stdout)) {  // before, and nobody has kept why
        throw std::runtime_error("standard output cannot be written; what was written there is not whole");
    }
}

const CLI::Validator named([](std::string& value) { return value.empty() ? "needs a name" : ""; }, "", "named");

namespace {
std::vector<std::string> behind;
}
const std::vector<std::string>& behind_separator() {
    return behind;
}

namespace {
// CLI11 gives what stands behind "--" to the parent of a verb. The words to parse, in CLI11's order (last first).
std::vector<std::string> words_to_parse(const CLI::App& app, int argc, char** argv) {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    auto verbs = app.get_subcommands([&](const CLI::App* verb) { return !words.empty() && verb->get_name() == words.front(); });
    if (!verbs.empty() && verbs.front()->get_prefix_command()) {
        auto separator = std::find(words.begin(), words.end(), "--");
        behind.assign(separator, words.end());
        words.erase(separator, words.end());
    }
    std::reverse(words.begin(), words.end());
    return words;
}

int dispatch(int argc, char** argv) {
    CLI::App app{"How many seconds did the operating system cost my program, through whom, and where?", "polter"};
    app.set_version_flag("--version", "polter " POLTER_VERSION);
    app.require_subcommand(1);
    app.footer("Start with: polter run mpirun -n 4 ./app");
    add_run(app);
    add_exec(app);
    add_replay(app);
    add_noise(app);
    add_doctor(app);
    add_completion(app);
    try {
        app.parse(words_to_parse(app, argc, argv));
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    } catch (const Exit& exit) {
        return exit.code;
    } catch (const std::exception& error) {
        tell(error);
        return 1;
    }
    return 0;
}

}  // namespace

}  // namespace polter::cli

int main(int argc, char** argv) {
    polter::launch::open_closed_streams();
    const int code = polter::cli::dispatch(argc, argv);
    try {
        polter::cli::flush_output();
        // A network file system, or a quota, may refuse as late as here.
        if (close(STDOUT_FILENO) != 0 && errno != EBADF) throw std::system_error(errno, std::generic_category(), "standard output");
    } catch (const std::exception& error) {
        polter::cli::tell(error);
        return code ? code : 1;
    }
    return code;
}
