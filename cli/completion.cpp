// SPDX-License-Identifier: BSD-3-Clause
// polter completion: for shells, made from the same declarations as the help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <memory>
#include <sstream>

#include "verb.hpp"

namespace polter::cli {
namespace {

struct Flag {
    std::vector<std::string> names;  // with their dashes
    std::vector<std::string> values;
    std::string about;
    bool takes_value;
};

// Of "TYPE:{one,two}", as CLI11 shows a fixed set of values, or "TYPE: one, two or three", as this command does.
std::vector<std::string> values_of(const CLI::Option& option) {
    std::string list = option.get_type_name();
    const auto colon = list.find(':');
    if (colon == std::string::npos) return {};
    list.erase(0, colon + 1);
    for (const std::string between : {" or ", ",", "{", "}"})
        for (std::size_t at; (at = list.find(between)) != std::string::npos;) list.replace(at, between.size(), " ");
    std::istringstream words(list);
    return {std::istream_iterator<std::string>(words), {}};
}

std::vector<Flag> flags_of(const CLI::App& app) {
    std::vector<Flag> out;
    for (const CLI::Option* option : app.get_options()) {
        Flag flag{{}, values_of(*option), option->get_description(), option->get_items_expected_max() > 0};
        for (const auto& name : option->get_snames()) flag.names.push_back("-" + name);
        for (const auto& name : option->get_lnames()) flag.names.push_back("--" + name);
        if (!flag.names.empty()) out.push_back(std::move(flag));
    }
    return out;
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
    auto verbs = app.get_subcommands([](const CLI::App* verb) { return !verb->get_name().empty(); });
    return {verbs.begin(), verbs.end()};
}

std::string names(const std::vector<Flag>& flags) {
    std::vector<std::string> all;
    for (const auto& flag : flags) all.insert(all.end(), flag.names.begin(), flag.names.end());
    return fmt::format("{}", fmt::join(all, " "));
}

std::string bash(const CLI::App& app) {
    std::string verbs, by_verb, by_value;
    for (const CLI::App* verb : verbs_of(app)) {
        const auto flags = flags_of(*verb);
        verbs += (verbs.empty() ? "" : " ") + verb->get_name();
        by_verb +=
            fmt::format("        {}) flags=\"{}\" command={} ;;\n", verb->get_name(), names(flags), verb->get_prefix_command() ? 1 : 0);
        for (const auto& flag : flags) {
            if (!flag.takes_value) continue;
            for (const auto& name : flag.names)
                by_value += fmt::format("        \"{} {}\") {} ;;\n", verb->get_name(), name,
                                        flag.values.empty() ? std::string("COMPREPLY=($(compgen -f -- \"$word\")); return")
                                                            : fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return",
                                                                          fmt::join(flag.values, " ")));
        }
    }
    return fmt::format(R"(# bash completion of polter; made by `polter completion bash`
_polter() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} flags="" command=0 i
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{verbs} --help --version" -- "$word"))
        return
    fi
    case "$verb $before" in
{by_value}    esac
    case "$verb" in
{by_verb}    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    elif ((command)); then
        COMPREPLY=($(compgen -c -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _polter polter
)",
                       fmt::arg("verbs", verbs), fmt::arg("by_value", by_value), fmt::arg("by_verb", by_verb));
}

// In single quotes, as fish reads them.
std::string quoted(std::string text) {
    for (std::size_t at = 0; (at = text.find_first_of("\\'", at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return "'" + text + "'";
}

std::string fish(const CLI::App& app) {
    std::string out = "# fish completion of polter; made by `polter completion fish`\ncomplete -c polter -f -n __fish_use_subcommand\n";
    for (const CLI::App* verb : verbs_of(app)) {
        out += fmt::format("complete -c polter -n __fish_use_subcommand -a {} -d {}\n", verb->get_name(), quoted(verb->get_description()));
        for (const auto& flag : flags_of(*verb)) {
            out += fmt::format("complete -c polter -n '__fish_seen_subcommand_from {}'", verb->get_name());
            for (const auto& name : flag.names) out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
            if (flag.takes_value)
                out += flag.values.empty() ? " -r" : fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(flag.values, " "))));
            out += fmt::format(" -d {}\n", quoted(flag.about));
        }
    }
    return out;
}

}  // namespace

void add_completion(CLI::App& parent) {
    auto shell = std::make_shared<std::string>();
    auto* verb = parent.add_subcommand("completion", "Print the completion script of a shell");
    verb->footer("Example: polter completion bash > ~/.local/share/bash-completion/completions/polter");
    verb->add_option("SHELL", *shell, "Which")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
    verb->callback([shell, &parent] {
        if (*shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
        fmt::print("{}", *shell == "fish" ? fish(parent) : bash(parent));
    });
}

}  // namespace polter::cli
