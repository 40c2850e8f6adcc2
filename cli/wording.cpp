// SPDX-License-Identifier: BSD-3-Clause
#include "wording.hpp"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace polter::cli {
namespace {

std::size_t columns(std::string_view text) {  // bytes but for those that continue a UTF-8 character
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Where the lines that continue this one begin.
std::size_t indent_of(std::string_view line, std::size_t width) {
    const auto first = std::min(line.find_first_not_of(' '), line.size());
    const auto gap = line.find("  ", first);
    if (first > 0 && gap != line.npos) {
        const auto second = line.find_first_not_of(' ', gap);
        if (second != line.npos && second + 20 <= width) return second;
    }
    return first + 2;
}

void wrap_line(std::string_view line, std::size_t width, std::string& out) {
    if (columns(line) <= width) {
        out += line;
        return;
    }
    const auto indent = indent_of(line, width);
    std::size_t at = std::min(line.find_first_not_of(' '), line.size()), column = at;
    out.append(at, ' ');
    bool fresh = true;  // nothing but blanks stands on the line yet
    while (at < line.size()) {
        const auto blank = line.find_first_not_of(' ', at);
        const auto begin = std::min(blank, line.size()), end = std::min(line.find(' ', begin), line.size());
        const auto word = line.substr(begin, end - begin);
        if (!fresh && column + (begin - at) + columns(word) > width) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        } else {
            out.append(begin - at, ' ');
            column += begin - at;
        }
        out += word;
        column += columns(word);
        fresh = false;
        at = end;
    }
}

}  // namespace

std::size_t terminal_width(int fd) {
    winsize size{};
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool shows_unicode() {
    const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
    if (!locale) return false;
    const bool unicode = std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
    freelocale(locale);
    return unicode;
}

std::string wrap(std::string_view text, std::size_t width) {
    if (width == 0) return std::string(text);
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find('\n', begin), text.size());
        wrap_line(text.substr(begin, end - begin), width, out);
        if (end < text.size()) out += '\n';
        begin = end + 1;
    }
    return out;
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
    std::string best;
    std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (const auto& name : known) {
        // Of the first i letters of the one and the first j of the other; this row and the two before it.
        std::vector<std::size_t> row(name.size() + 1), last, before;
        for (std::size_t j = 0; j <= name.size(); ++j) row[j] = j;
        for (std::size_t i = 1; i <= word.size(); ++i) {
            before = std::move(last);
            last = row;
            row[0] = i;
            for (std::size_t j = 1; j <= name.size(); ++j) {
                row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (word[i - 1] != name[j - 1])});
                if (i > 1 && j > 1 && word[i - 1] == name[j - 2] && word[i - 2] == name[j - 1])
                    row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        if (row[name.size()] < least) {
            least = row[name.size()];
            best = name;
        }
    }
    return best;
}

}  // namespace polter::cli
