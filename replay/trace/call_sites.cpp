// SPDX-License-Identifier: BSD-3-Clause
#include "call_sites.hpp"

#include <fmt/format.h>

namespace polter::replay {

std::string CallSite::text() const {
    if (line == 0 || file.empty()) return function;
    return fmt::format("{} ({}:{})", function, file.substr(file.rfind('/') + 1), line);
}

std::string called_from(const std::string& caller, const std::string& call_site) {
    return caller.empty() || call_site.empty() ? caller + call_site : caller + ", " + call_site;
}

}  // namespace polter::replay
