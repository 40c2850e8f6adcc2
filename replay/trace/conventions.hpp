// SPDX-License-Identifier: BSD-3-Clause
// The names by which a trace tells what OTF2 has no record for. What they mean: tracer/README.md, "Trace conventions".
#pragma once

#include <string_view>

namespace polter::replay::names {

inline constexpr std::string_view source_prefix = "os:";           // metric members that are noise
inline constexpr std::string_view service_prefix = "os-service:";  // metric members that are the program's own requests
inline constexpr std::string_view account_unit = "ns";
inline constexpr std::string_view steal = "os:steal";

inline constexpr std::string_view culprit = "os:culprit";  // attributes
inline constexpr std::string_view posted_source = "polter:source";
inline constexpr std::string_view posted_tag = "polter:tag";
inline constexpr std::string_view posted_comm = "polter:comm";
inline constexpr std::string_view send_mode = "polter:mode";
inline constexpr std::string_view ended_ago = "polter:ago";
inline constexpr std::string_view partitioned = "polter:partitioned";
inline constexpr std::string_view operation = "polter:operation";
inline constexpr std::string_view probed_any = "polter:any";
inline constexpr std::string_view call_site = "polter:call_site";
inline constexpr std::string_view polls = "polter:polls";
inline constexpr std::string_view last_poll = "polter:last_poll";
inline constexpr std::string_view poll_gap = "polter:poll_gap";
inline constexpr unsigned neighbours_operation = 128, file_operation = 129;  // its values, and operations of completions

inline constexpr std::string_view neighbours = "polter:neighbours:";  // location property: + communicator; value "in 1 2 out 3"

inline constexpr std::string_view property_prefix = "POLTER::";           // archive properties
inline constexpr std::string_view approximated = "POLTER::APPROXIMATED";  // what was removed, and from which trace
inline constexpr std::string_view anchor = "traces.otf2";
inline constexpr std::string_view mpi_prefix = "MPI_";

}  // namespace polter::replay::names
