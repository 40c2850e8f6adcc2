// SPDX-License-Identifier: BSD-3-Clause
#include "call_sites.hpp"

#include <fmt/format.h>

namespace polter::replay {

std::string CallSite::text() const {
    if (line == 0 || file.empty()) return function;
    return fmt::format("{} ({}:{})", function, file.substr(file.rfind('/') + 1), line);
}

namespace {

// Long names lose their outer scopes, which say least.
std::string fitted(std::string call_site) {
    constexpr size_t most = 36;
    for (size_t scope; call_site.size() > most && (scope = call_site.find("::")) < call_site.find_first_of("<( ");)
        call_site.erase(0, scope + 2);
    return call_site;
}

}  // namespace

std::string called_from(const std::string& caller, const std::string& call_site_text) {
    const std::string call_site = fitted(call_site_text);
    return caller.empty() || call_site.empty() ? caller + call_site : caller + ", " + call_site;
}

}  // namespace polter::replay
