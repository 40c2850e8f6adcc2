// SPDX-License-Identifier: BSD-3-Clause
// Where the program called MPI from: the ranks' return addresses, as functions, files and lines.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "../sidecar.hpp"
#include "code_file.hpp"

namespace polter::seal {

struct CallSiteNames {
    std::vector<CallSiteName> names;  // of each call site given; at least "object+0x1234"
    std::string warning;              // empty, or why some have no better one
};

// Looks into the programs and libraries on this host, in a process of its own that is ended after `limit`: what it has found by then
// counts. Nothing is fetched from anywhere. Where `may_open` is false no file is opened.
CallSiteNames name_call_sites(const std::vector<SidecarObject>&, const std::vector<SidecarCallSite>&, bool may_open,
                              std::chrono::milliseconds limit = std::chrono::seconds(2));

}  // namespace polter::seal
