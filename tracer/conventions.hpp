// SPDX-License-Identifier: BSD-3-Clause
// What the ranks and the sealer must agree on: ids, names and files (README.md says what they mean). Used on both sides, so that each
// fact stands once. Plain constants: the preload library includes it and needs nothing of this project at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../kmodule/page.h"
#include "conventions.h"

namespace polter::trace {

// Definition ids in the event files that are equal in all ranks and therefore need no mapping table.
// Regions: the index in mpi/functions.txt. Metric classes and members: the number of the account in kmodule/page.h, so class i has
// the one member i. Metric records on a location are of its own class (no metric instance).
constexpr uint32_t metric_class_of(unsigned account) {
    return account;
}

// Counters are one class behind those of the accounts; its members, too, have the numbers behind the accounts.
inline constexpr uint32_t metric_class_of_counters = POLTER_ACCOUNTS;

// Attributes.
enum Attribute : uint32_t {
    attribute_culprit = 0,      // STRING, local string id
    attribute_source = 1,       // INT32, world or remote rank in the communicator as MPI was given it; -1 any
    attribute_tag = 2,          // INT32; -1 any
    attribute_comm = 3,         // COMM, local communicator id
    attribute_mode = 4,         // UINT8, see SendMode
    attribute_ago = 5,          // UINT64, ticks: the noise ended so long before its record, which came late
    attribute_partitioned = 6,  // UINT32: 1-based index of the partitioned request of that partner, tag and communicator
    attribute_operation = 7,    // UINT8: what OTF2 has no collective operation for, see Operation
    attribute_any = 8,          // UINT8, of a probe: 1 it asked for any source, 2 for any tag, 3 for any of both
    attribute_call_site = 9,    // CALLING_CONTEXT, local id of the call site; see README.md, Call sites
    attribute_polls = 10,       // UINT32, of the Leave of failing polls in a row that have one Enter and Leave: how many
    attribute_last_poll = 11,   // UINT64, ticks: so long before this Leave the last of them began
    attribute_poll_gap = 12,    // UINT64, ticks: the longest time between two of them
    attribute_count = 13
};
inline constexpr const char* attribute_names[attribute_count] = {
    "os:culprit",       "polter:source", "polter:tag",       "polter:comm",  "polter:mode",      "polter:ago",     "polter:partitioned",
    "polter:operation", "polter:any",    "polter:call_site", "polter:polls", "polter:last_poll", "polter:poll_gap"};
// Of NonBlockingCollectiveComplete, and of the attribute on its request: beyond OTF2's own operations.
enum Operation : uint8_t { operation_neighbours = 128, operation_file = 129 };
enum SendMode : uint8_t { send_standard = 0, send_synchronous = 1, send_ready = 2, send_buffered = 3 };

// Regions of the program: its own ids behind those of MPI's functions, dense in the order of the sidecar, mapped when sealing. The last one
// stands for all that are too many.
inline constexpr uint32_t most_user_regions = 1u << 16;
inline constexpr size_t longest_region_name = 1024;
// Regions of the program's OpenMP runtime, among those of the program; Score-P has these names.
inline constexpr const char* openmp_barrier_name = "!$omp barrier";
inline constexpr const char* openmp_implicit_barrier_name = "!$omp implicit barrier";
inline constexpr const char* openmp_dynamic_barrier_name =
    "!$omp implicit barrier (dynamic)";  // behind work that was handed out as threads asked
inline constexpr const char* openmp_critical_name = "!$omp critical";
inline constexpr const char* openmp_task_name = "!$omp task";
inline constexpr const char* openmp_taskwait_name = "!$omp taskwait";
inline constexpr const char* openmp_lock_name = "omp_set_lock";

// What a program may have that is not recorded, in the order of enum polter_not_recorded (threads/openmp_hooks.h).
inline constexpr std::array<const char*, 5> not_recorded_names = {"nested", "ordered", "detached", "uncontended", "teams"};

// A thread's wait for another one; Score-P's name.
inline constexpr const char* pthread_join_name = "pthread_join";
// The same for a mutex and for a condition variable, by whichever function; Score-P's names.
inline constexpr const char* pthread_mutex_name = "pthread_mutex_lock";
inline constexpr const char* pthread_condition_name = "pthread_cond_wait";

// Parameters: what MPI_Pcontrol was given.
inline constexpr uint32_t parameter_level = 0;
inline constexpr const char* parameter_level_name = "polter:level";

// Ids that are local to a rank and mapped when sealing: strings and communicators, each dense from 0 in the order of the sidecar.
// The two predefined communicators stand first in every rank.
inline constexpr uint32_t comm_world = 0;
inline constexpr uint32_t comm_self = 1;

// Call sites of a rank, and the files they lie in: no more than these; the last call site stands for all that are too many.
inline constexpr uint32_t most_call_sites = 1u << 16, most_objects = 1u << 12;

// A location's property: this and the communicator's id; value "in 1 2 out 3", ranks in that communicator.
inline constexpr const char* neighbours_property = "polter:neighbours:";

// Metric names: prefix + polter_account_name().
inline constexpr const char* noise_prefix = "os:";
inline constexpr const char* service_prefix = "os-service:";
inline constexpr const char* noise_unit = "ns";

// Locations: world rank for the thread that called MPI_Init, other threads above it.
constexpr uint64_t location_of(uint32_t rank, uint32_t thread) {
    return static_cast<uint64_t>(thread) << 32 | rank;
}
constexpr uint32_t rank_of(uint64_t location) {
    return static_cast<uint32_t>(location);
}
constexpr uint32_t thread_of(uint64_t location) {
    return static_cast<uint32_t>(location >> 32);
}

// Files, below the experiment directory.
inline constexpr const char* ranks_folder = "ranks";       // ranks/<host>.<pid>/
inline constexpr const char* sidecar_name = "rank.jsonl";  // in the rank's folder
inline constexpr const char* archive_name = "traces";      // traces.otf2, traces.def, traces/<location>.evt
inline constexpr const char* provenance_name = "experiment.json";
inline constexpr const char* further_job = "job-";       // and a number: what further MPI jobs of the same command left, before it is moved
inline constexpr const char* clocks_folder = ".clocks";  // where leaders of hosts agree on comparing clocks; removed when sealing
inline constexpr int sidecar_version = 1;

// The environment that the launcher gives to each rank.
inline constexpr const char* env_experiment = POLTER_ENV_EXPERIMENT;    // absolute path; unset: the library does nothing
inline constexpr const char* env_job = "POLTER_JOB";                    // hexadecimal, shared by the processes of a job
inline constexpr const char* env_socket = "POLTER_SOCKET";              // of the daemon
inline constexpr const char* env_exporter = "POLTER_EXPORTER";          // as chosen; "none": do not look for one
inline constexpr const char* env_exporter_why = "POLTER_EXPORTER_WHY";  // why it is none, or none better, for the trace
inline constexpr const char* env_tracepoints = "POLTER_TRACEPOINTS";    // for perf: kmodule/perf/perf.h
inline constexpr const char* env_buffer_chunks =
    "POLTER_BUFFER_CHUNKS";  // event chunks of a thread before they are flushed; 2 to 256, else 4

inline constexpr const char* env_clock = "POLTER_CLOCK";  // for tests: names the clock that a process reads, in place of the boot id

inline constexpr const char* env_clock_exchange = "POLTER_CLOCK_EXCHANGE";  // "mpi": clocks are never compared by datagrams

inline constexpr const char* env_clock_interval = "POLTER_CLOCK_INTERVAL";  // ns; unset: clocks are compared at begin and end only

// What of the details is not recorded (mpi/core/detail.hpp).
inline constexpr const char* env_each_poll = "POLTER_EACH_POLL";  // set: failing polls in a row are recorded one by one
inline constexpr const char* env_exclude = "POLTER_EXCLUDE";      // hexadecimal digits, of four functions each, the first in the lowest bit
inline constexpr const char* env_ranks = "POLTER_RANKS";          // "0-3,8": only of these
inline constexpr const char* env_window = "POLTER_WINDOW";        // "from:to", ns since MPI_Init began: only between

inline constexpr const char* env_counters = "POLTER_COUNTERS";  // perf_event.hpp has its form; unset: none

inline constexpr const char* env_node_folder = "POLTER_NODE_FOLDER";  // node_folder.hpp
inline constexpr const char* env_collect = "POLTER_COLLECT";          // launch/collect/protocol.hpp

inline constexpr const char* env_launcher = POLTER_ENV_LAUNCHER;
inline constexpr const char* env_forward = POLTER_ENV_FORWARD;

// OTF2's chunk size for events. It stands in the anchor, so it must be one for the whole archive. 256 KiB is the least that OTF2 takes.
inline constexpr uint64_t event_chunk_size = 256 * 1024;
inline constexpr char event_file_end = 1;  // OTF2's token that closes a file

// The tail file, <rank folder>/<location>.tail: the event chunks that OTF2 has not flushed yet, in a shared file mapping.
// Slot n lies at tail_header_size + n * chunk_size. order[0 … chunks_in_use) names the chunks that may not be in the event file yet,
// oldest first. The rank stores in this order, so that a kill between any two stores loses at most the chunk being taken: zero the
// slot, order[chunks_in_use], then chunks_in_use (release). OTF2 3.0 buffers what it flushes (up to 4 MiB) in its own memory before
// write(2): a chunk is dropped from order[] only once the event file's size shows that it is there. While order[] is shifted for that
// a chunk may stand in it twice, or still stand there though it is in the file: the event number in OTF2's chunk header tells.
inline constexpr uint64_t tail_magic = 0x314c4941544c4f50ull;  // "POLTAIL1" in memory order
inline constexpr uint32_t tail_header_size = 4096;
inline constexpr uint32_t tail_slots = (tail_header_size - 24) / 4;
struct TailHeader {
    uint64_t magic;
    uint64_t chunk_size;
    uint64_t chunks_in_use;
    uint32_t order[tail_slots];  // which slot holds the n-th chunk
};
static_assert(sizeof(TailHeader) == tail_header_size);

// Archive properties (OTF2 allows letters, digits and _ behind the namespace).
namespace property {
inline constexpr const char* version = "POLTER::VERSION";
inline constexpr const char* exporter = "POLTER::EXPORTER";
inline constexpr const char* exporter_why = "POLTER::EXPORTER_WHY";
inline constexpr const char* exporter_by_rank = "POLTER::EXPORTER_BY_RANK";  // "bpf:0-2,5;none:3-4"; only where the ranks differ
inline constexpr const char* accounts_seen = "POLTER::ACCOUNTS_SEEN";
inline constexpr const char* accounts_net = "POLTER::ACCOUNTS_NET";
inline constexpr const char* events_dropped = "POLTER::EVENTS_DROPPED";
inline constexpr const char* events_dropped_ns = "POLTER::EVENTS_DROPPED_NS";
inline constexpr const char* events_after_end = "POLTER::EVENTS_AFTER_END";  // only if there are any
inline constexpr const char* incomplete = "POLTER::INCOMPLETE";
inline constexpr const char* ranks_unfinished = "POLTER::RANKS_UNFINISHED";
inline constexpr const char* ranks_missing = "POLTER::RANKS_MISSING";
inline constexpr const char* own_cost_ns = "POLTER::OWN_COST_NS";
inline constexpr const char* clock_error_ns = "POLTER::CLOCK_ERROR_NS";
inline constexpr const char* measuring_ended_ns = "POLTER::MEASURING_ENDED_NS";
inline constexpr const char* command = "POLTER::COMMAND";
inline constexpr const char* program = "POLTER::PROGRAM";        // names of the ranks' programs, "+" between different ones
inline constexpr const char* mpi = "POLTER::MPI";                // "Open MPI 4.1.4", as the first rank's library says
inline constexpr const char* hosts = "POLTER::HOSTS";            // comma-separated
inline constexpr const char* rank_cpus = "POLTER::RANK_CPUS";    // that ranks may use: "0-1:0-3;2:4"
inline constexpr const char* detail_off = "POLTER::DETAIL_OFF";  // "queries;functions=MPI_File_seek;ranks=1,2;window=1.5:3;pcontrol_ns=7"
inline constexpr const char* not_recorded = "POLTER::NOT_RECORDED";  // of threads, if the program has it: not_recorded_names
inline constexpr const char* warnings = "POLTER::WARNINGS";          // newline-separated
}  // namespace property

}  // namespace polter::trace
