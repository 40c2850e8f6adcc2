// polter: only dispatches. One file a verb.
#include <fmt/core.h>

#include <algorithm>

#include "verb.hpp"

namespace polter::cli {

void add_common(CLI::App& verb, Common& common) {
    verb.add_flag("--json", common.json, "Print the machine-readable form");
    verb.add_flag("-q,--quiet", common.quiet, "No progress");
}

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
}  // namespace

}  // namespace polter::cli

int main(int argc, char** argv) {
    using namespace polter::cli;
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
        fmt::print(stderr, "polter: {}\n", error.what());
        return 1;
    }
    return 0;
}
