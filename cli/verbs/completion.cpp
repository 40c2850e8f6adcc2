// SPDX-License-Identifier: BSD-3-Clause
// polter completion: for shells, made from the same declarations as the help.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <noise.h>

#include <iterator>
#include <memory>
#include <sstream>

#include "../verb.hpp"

namespace polter::cli {
namespace {

enum class Kind { nothing, words, list, directory, file, trace };  // what can be offered for a value; list: words with commas between

struct Flag {
    std::vector<std::string> names;  // with their dashes
    std::vector<std::string> values;
    std::string about;
    bool takes_value;
    Kind kind;
};

// What the help calls the value.
std::string type_of(const CLI::Option& option) {
    return option.get_option_text().empty() ? option.get_type_name() : option.get_option_text();
}

std::vector<std::string> accounts() {
    std::vector<std::string> names;
    for (unsigned a = 0; a < POLTER_ACCOUNTS; ++a)
        names.push_back((polter_account_is_service(a) ? "os-service:" : "") + std::string(polter_account_name(a)));
    return names;
}

// Of "TYPE:{one,two}", as CLI11 shows a fixed set of values, or "TYPE: one, two or three", as this command does.
std::vector<std::string> values_of(const CLI::Option& option) {
    std::string list = type_of(option);
    if (list.starts_with("SOURCE")) return accounts();
    const auto colon = list.find(" in ") == std::string::npos ? list.find(':') : std::string::npos;  // "UINT:INT in [1 - 9]" is a range
    if (colon == std::string::npos) return {};
    list.erase(0, colon + 1);
    for (const std::string between : {" or ", ",", "{", "}"})
        for (std::size_t at; (at = list.find(between)) != std::string::npos;) list.replace(at, between.size(), " ");
    std::istringstream words(list);
    return {std::istream_iterator<std::string>(words), {}};
}

Kind kind_of(const CLI::Option& option) {
    const auto type = type_of(option);
    if (type.starts_with("SOURCE")) return Kind::list;
    if (type.starts_with("DIR")) return Kind::directory;
    if (type.starts_with("FILE")) return Kind::file;
    if (option.get_name(true) == "TRACE") return Kind::trace;
    return values_of(option).empty() ? Kind::nothing : Kind::words;
}

// How bash makes the list of what is offered.
std::string offer(Kind kind, const std::vector<std::string>& values) {
    const auto words = fmt::format("{}", fmt::join(values, " "));
    switch (kind) {
        case Kind::words:
            return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))", words);
        case Kind::list:
            return fmt::format("_polter_list \"{}\"", words);
        case Kind::directory:
            return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$word\"))";
        case Kind::file:
            return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$word\"))";
        case Kind::trace:
            return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$word\"; compgen -f -X '!*.otf2' -- \"$word\"))";
        case Kind::nothing:
            break;
    }
    return "COMPREPLY=()";
}

// The first positional argument; the others would be offered the same.
const CLI::Option* positional_of(const CLI::App& app) {
    for (const CLI::Option* option : app.get_options())
        if (option->get_positional()) return option;
    return nullptr;
}

std::vector<Flag> flags_of(const CLI::App& app) {
    std::vector<Flag> out;
    for (const CLI::Option* option : app.get_options()) {
        Flag flag{{}, values_of(*option), option->get_description(), option->get_items_expected_max() > 0, kind_of(*option)};
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
    std::string verbs, by_verb, by_value, by_place;
    for (const CLI::App* verb : verbs_of(app)) {
        const auto flags = flags_of(*verb);
        std::string with_value;
        verbs += (verbs.empty() ? "" : " ") + verb->get_name();
        for (const auto& flag : flags)
            for (const auto& name : flag.names) {
                if (!flag.takes_value) continue;
                with_value += " " + name;
                by_value += fmt::format("        \"{} {}\") {}; return ;;\n", verb->get_name(), name, offer(flag.kind, flag.values));
            }
        by_verb += fmt::format("        {}) flags=\"{}\" valued=\"{} \" command={} ;;\n", verb->get_name(), names(flags), with_value,
                               verb->get_prefix_command() ? 1 : 0);
        if (const auto* positional = positional_of(*verb))
            by_place += fmt::format("        {}) {} ;;\n", verb->get_name(), offer(kind_of(*positional), values_of(*positional)));
    }
    return fmt::format(R"(# bash completion of polter; made by `polter completion bash`
# Of a list with commas between, the part behind the last one.
_polter_list() {{
    local before=""
    [[ $word == *,* ]] && before=${{word%,*}},
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -P "$before" -W "$1" -- "${{word##*,}}"))
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then  # readline takes what stands before a colon for a word of its own
        COMPREPLY=("${{COMPREPLY[@]#"${{word%:*}}:"}}")
    fi
}}
_polter() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} at=$COMP_CWORD verb=${{COMP_WORDS[1]}} flags="" valued="" command=0 begin
    COMPREPLY=()
    while ((at > 2)) && [[ $word == :* || ${{COMP_WORDS[at-1]}} == : ]]; do
        word=${{COMP_WORDS[at-1]}}$word
        ((at--))
    done
    local before=${{COMP_WORDS[at-1]}}
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{verbs} help --help --version" -- "$word"))
        return
    fi
    case "$verb" in
        help) COMPREPLY=($(compgen -W "{verbs}" -- "$word")); return ;;
{by_verb}    esac
    if ((command)); then  # the first word that is no option begins it
        for ((begin = 2; begin < COMP_CWORD; begin++)); do
            [[ $valued == *" ${{COMP_WORDS[begin]}} "* ]] && {{ ((begin++)); continue; }}
            [[ ${{COMP_WORDS[begin]}} == -- ]] && {{ ((begin++)); break; }}
            [[ ${{COMP_WORDS[begin]}} == -* ]] || break
        done
        if ((begin < COMP_CWORD)); then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$begin"
            else
                compopt -o filenames 2>/dev/null
                COMPREPLY=($(compgen -f -- "$word"))
            fi
            return
        fi
    fi
    case "$verb $before" in
{by_value}    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
        return
    fi
    if ((command)); then
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -c -- "$word"; [[ $word == */* ]] && compgen -d -- "$word"))
        return
    fi
    case "$verb" in
{by_place}    esac
}}
complete -F _polter polter
)",
                       fmt::arg("verbs", verbs), fmt::arg("by_value", by_value), fmt::arg("by_verb", by_verb),
                       fmt::arg("by_place", by_place));
}

// In single quotes, as fish reads them.
std::string quoted(std::string text) {
    for (std::size_t at = 0; (at = text.find_first_of("\\'", at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return "'" + text + "'";
}

std::string fish_offer(Kind kind, const std::vector<std::string>& values) {
    const auto words = quoted(fmt::format("{}", fmt::join(values, " ")));
    switch (kind) {
        case Kind::words:
            return " -x -a " + words;
        case Kind::list:
            return fmt::format(" -x -a '(__fish_append , {})'", fmt::join(values, " "));
        case Kind::directory:
            return " -x -a '(__fish_complete_directories)'";
        case Kind::file:
        case Kind::trace:
            return " -r -F";
        case Kind::nothing:
            break;
    }
    return " -x";
}

std::string fish(const CLI::App& app) {
    std::string out = "# fish completion of polter; made by `polter completion fish`\ncomplete -c polter -f -n __fish_use_subcommand\n";
    for (const CLI::App* verb : verbs_of(app)) {
        out += fmt::format("complete -c polter -n __fish_use_subcommand -a {} -d {}\n", verb->get_name(), quoted(verb->get_description()));
        const auto* positional = positional_of(*verb);
        const auto seen = fmt::format("complete -c polter -n '__fish_seen_subcommand_from {}'", verb->get_name());
        if (verb->get_prefix_command())
            out += seen + " -x -a '(__fish_complete_subcommand)'\n";
        else if (positional && kind_of(*positional) == Kind::words)
            out += seen + " -f" + fish_offer(Kind::words, values_of(*positional)) + "\n";
        for (const auto& flag : flags_of(*verb)) {
            out += fmt::format("complete -c polter -n '__fish_seen_subcommand_from {}'", verb->get_name());
            for (const auto& name : flag.names) out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
            if (flag.takes_value) out += fish_offer(flag.kind, flag.values);
            out += fmt::format(" -d {}\n", quoted(flag.about));
        }
    }
    return out;
}

}  // namespace

void add_completion(CLI::App& parent) {
    auto shell = std::make_shared<std::string>();
    auto* verb = parent.add_subcommand("completion", "Print a completion script for bash, zsh or fish");
    verb->footer("Example: polter completion bash > ~/.local/share/bash-completion/completions/polter");
    verb->add_option("SHELL", *shell, "The shell that will read it")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
    verb->callback([shell, &parent] {
        if (*shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
        fmt::print("{}", *shell == "fish" ? fish(parent) : bash(parent));
    });
}

}  // namespace polter::cli
