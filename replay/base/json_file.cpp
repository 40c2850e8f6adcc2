// SPDX-License-Identifier: BSD-3-Clause
#include "json_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "replay/base/error.hpp"

namespace polter::replay {

nlohmann::json read_json(const std::string& file, const std::string& wanted) {
    std::ifstream in(file);
    if (in) in.peek();  // opening a directory succeeds; reading it does not
    if (!in.is_open() || in.bad()) throw InputError(fmt::format("{}: cannot be read ({}); {}", file, std::strerror(errno), wanted));
    const std::string text(std::istreambuf_iterator<char>(in), {});
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
        const size_t at = std::min(std::max<size_t>(error.byte, 1) - 1, text.size());
        const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
        const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
        const size_t column = before == std::string::npos ? at + 1 : at - before;
        throw InputError(fmt::format("{}: is no JSON (line {}, column {}); {}", file, line, column, wanted));
    } catch (const nlohmann::json::exception& error) {  // a number too large for any type
        throw InputError(fmt::format("{}: cannot be read ({}); {}", file, error.what(), wanted));
    }
}

}  // namespace polter::replay
