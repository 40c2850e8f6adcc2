// polter: only dispatches. One file a verb.
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "../tracer/launch/standard_streams.hpp"
#include "replay/base/printable.hpp"
#include "verb.hpp"
#include "wording.hpp"

namespace polter::cli {

void add_common(CLI::App& verb, Common& common) {
    verb.add_flag("--json", common.json, "Print the result as JSON");
    verb.add_flag("-q,--quiet", common.quiet, "Print no progress and no status messages");
}

void tell(const std::string& line) {
    launch::write_message(wrap(fmt::format("polter: {}\n", replay::printable(line)), terminal_width(STDERR_FILENO)));
}

void tell(const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (!system || !std::ferror(stdout)) return tell(std::string(error.what()));
    // Printing has failed: what fmt says of it does not name the file. Told once, and not tried again.
    __fpurge(stdout);
    std::clearerr(stdout);
    if (system->code().value() != EPIPE) tell(fmt::format("standard output: {}; the output is incomplete", system->code().message()));
}

void flush_output() {
    if (std::fflush(stdout) != 0) {
        if (errno != EPIPE) throw std::system_error(errno, std::generic_category());
    } else if (std::ferror(stdout)) {  // before, and nobody has kept why
        throw std::runtime_error("standard output cannot be written; the output is incomplete");
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

// The usage of a verb that takes a command names it.
class HelpText : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App* app, std::string name) const override {
        auto out = CLI::Formatter::make_usage(app, name);
        if (app->get_prefix_command()) out.insert(out.find_last_not_of('\n') + 1, " [--] COMMAND [ARGUMENT]...");
        return out;
    }
};

int no_such_verb(const CLI::App& app, const std::string& word) {
    if (word == "report") {  // in the list of a polter that has the page
        tell(
            "report: this polter was built without its page, as node or npm was missing; run scripts/setup and scripts/build, or see "
            "polter replay and polter advise");
        return 2;
    }
    std::vector<std::string> verbs;
    for (const auto* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
    const auto meant = nearest(word, verbs);
    tell(meant.empty() ? fmt::format("{}: no such subcommand; polter --help lists them", word)
                       : fmt::format("{}: no such subcommand; did you mean {}? (polter --help lists them)", word, meant));
    return 2;
}

// Words that a verb does not know. An option among them is the more likely mistake: the word behind it may have been its value.
int not_expected(const CLI::App& app, const CLI::ParseError& error) {
    const auto verbs = app.get_subcommands();
    if (verbs.empty()) return app.exit(error) == 0 ? 0 : 2;
    const auto extra = verbs.front()->remaining();
    const auto option = std::find_if(extra.begin(), extra.end(), [](const auto& word) { return word.size() > 1 && word.starts_with("-"); });
    if (option == extra.end()) return app.exit(error) == 0 ? 0 : 2;
    std::vector<std::string> options;
    for (const auto* known : verbs.front()->get_options()) {
        for (const auto& name : known->get_snames()) options.push_back("-" + name);
        for (const auto& name : known->get_lnames()) options.push_back("--" + name);
    }
    const auto meant = nearest(option->substr(0, option->find('=')), options);
    const auto verb = verbs.front()->get_name();
    tell(meant.empty()
             ? fmt::format("{}: no such option of polter {}; polter {} --help lists them", *option, verb, verb)
             : fmt::format("{}: no such option of polter {}; did you mean {}? (polter {} --help lists them)", *option, verb, meant, verb));
    return 2;
}

int show_help(const CLI::App& app) {
    fmt::print("{}", wrap(app.help(), terminal_width(STDOUT_FILENO)));
    return 0;
}

// What is said before anything is parsed; -1: nothing.
int first_word(const CLI::App& app, const std::vector<std::string>& words) {
    if (words.empty()) {
        launch::write_message(wrap(app.help(), terminal_width(STDERR_FILENO)));
        return 2;
    }
    const bool help = words.front() == "help";
    if (help && words.size() == 1) return show_help(app);
    const auto& word = help ? words[1] : words.front();
    if (word.starts_with("-")) return help ? show_help(app) : -1;
    const auto verbs = app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == word; });
    if (verbs.empty()) return no_such_verb(app, word);
    if (!help) return -1;
    fmt::print("{}", wrap(verbs.front()->help("polter"), terminal_width(STDOUT_FILENO)));
    return 0;
}

int dispatch(int argc, char** argv) {
    CLI::App app{"How many seconds did the operating system cost my MPI program, what caused it, and on which rank?", "polter"};
    app.set_version_flag("--version", "polter " POLTER_VERSION);
    app.require_subcommand(1);
    app.formatter(std::make_shared<HelpText>());
    app.footer("Start with: polter run mpirun -n 4 ./app");
    add_run(app);
    add_exec(app);
    add_replay(app);
    add_advise(app);
    add_compare(app);
    add_report(app);
    add_export(app);
    add_noise(app);
    add_inject(app);
    add_bench(app);
    add_validate(app);
    add_interference(app);
    add_latency(app);
    add_variability(app);
    add_quality(app);
    add_predict(app);
    add_doctor(app);
    add_completion(app);
    try {
        if (const int code = first_word(app, {argv + std::min(argc, 1), argv + argc}); code >= 0) return code;
        app.parse(words_to_parse(app, argc, argv));
    } catch (const CLI::CallForHelp&) {
        return show_help(app);
    } catch (const CLI::ExtrasError& error) {
        return not_expected(app, error);
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
