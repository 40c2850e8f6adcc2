// SPDX-License-Identifier: BSD-3-Clause
#include "seal_job.hpp"

#include <fmt/format.h>
#include <otf2/otf2.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mpi_regions.hpp>
#include <stdexcept>
#include <string_view>

#include "../../tracer/conventions.hpp"

namespace seal_test {
namespace fs = std::filesystem;
namespace trace = polter::trace;
namespace {

constexpr uint32_t row = 64;  // ranks in a row's communicator
constexpr uint32_t row_comm = 2;
constexpr uint64_t start_ns = 1'000'000'000, round_ns = 1'000'000;
constexpr unsigned every_fourth = 4;

uint32_t region_of(std::string_view name) {
    const auto at =
        std::find_if(std::begin(trace::regions), std::end(trace::regions), [&](const auto& region) { return name == region.name; });
    return static_cast<uint32_t>(at - std::begin(trace::regions));
}

OTF2_FlushType flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

// One rank's events, in the order of time.
class Events {
  public:
    Events(OTF2_EvtWriter* writer, const JobSpec& job, uint32_t rank) : writer_(writer), job_(job), rank_(rank) {}

    void write() {
        noise(start_ns, 0);
        call(start_ns, 1000, "MPI_Init", [] {});
        for (unsigned round = 0; round < job_.rounds; ++round) this->round(round, start_ns + (round + 1) * round_ns);
        call(start_ns + (job_.rounds + 1) * round_ns, 1000, "MPI_Finalize", [] {});
    }
    uint64_t count() const { return count_; }
    uint64_t last() const { return time_; }

  private:
    template <typename Inside>
    void call(uint64_t at, uint64_t length, const char* name, Inside inside) {
        put(OTF2_EvtWriter_Enter, at, region_of(name));
        inside();
        put(OTF2_EvtWriter_Leave, at + length, region_of(name));
    }
    template <typename Put, typename... Values>
    void put(Put function, uint64_t time, Values... values) {
        time_ = time;
        ++count_;
        if (function(writer_, nullptr, time, values...) != OTF2_SUCCESS) throw std::runtime_error("an event cannot be written");
    }
    void noise(uint64_t at, uint64_t total) {
        const OTF2_Type type = OTF2_TYPE_UINT64;
        OTF2_MetricValue value{};
        value.unsigned_int = total;
        put(OTF2_EvtWriter_Metric, at, uint32_t{POLTER_TIMER}, uint8_t{1}, &type, static_cast<const OTF2_MetricValue*>(&value));
    }
    void collective(uint64_t at, uint32_t comm, uint32_t members) {
        call(at, 10'000, "MPI_Allreduce", [&] {
            put(OTF2_EvtWriter_MpiCollectiveBegin, at);
            put(OTF2_EvtWriter_MpiCollectiveEnd, at + 10'000, OTF2_CollectiveOp{OTF2_COLLECTIVE_OP_ALLREDUCE}, comm,
                uint32_t{OTF2_COLLECTIVE_ROOT_NONE}, uint64_t{8} * members, uint64_t{8} * members);
        });
    }
    void round(unsigned round, uint64_t at) {
        const uint32_t size = job_.ranks, next = (rank_ + 1) % size, before = (rank_ + size - 1) % size;
        if ((rank_ + round) % 16 == 0) noise(at, total_ += 5000);
        call(at + 10'000, 1000, "MPI_Send", [&] { put(OTF2_EvtWriter_MpiSend, at + 10'000, next, trace::comm_world, 5u, uint64_t{1024}); });
        call(at + 20'000, 3000, "MPI_Recv",
             [&] { put(OTF2_EvtWriter_MpiRecv, at + 23'000, before, trace::comm_world, 5u, uint64_t{1024}); });
        if (round % every_fourth == 3) collective(at + 100'000, trace::comm_world, size);
        if (round % every_fourth == 1) collective(at + 100'000, row_comm, std::min(row, size - rank_ / row * row));
    }

    OTF2_EvtWriter* writer_;
    const JobSpec& job_;
    uint32_t rank_;
    uint64_t count_ = 0, time_ = 0, total_ = 0;
};

void write_sidecar_begin(std::ofstream& to, const JobSpec& job, uint32_t rank, const std::string& host, uint32_t pid) {
    to << fmt::format(
        R"({{"polter_rank":1,"rank":{},"size":{},"host":"{}","pid":{},"program":"ring","mpi":"m","cpus":"0-1","thread_level":"t","clock_offset_ns":0,"clock":"one","world":"w"}})"
        "\n",
        rank, job.ranks, host, pid);
    to << R"({"exporter":"bpf","seen":["timer","preempt"],"net":["timer"],"why":""})"
          "\n";
    to << fmt::format(R"({{"location":{0},"thread":0,"name":"MPI Rank {0}","tid":7}})"
                      "\n",
                      rank);
    const uint32_t first = rank / row * row, end = std::min(first + row, job.ranks);
    to << fmt::format(R"({{"comm":{},"name":"row","parent":0,"key":"row.{}","group":[)", row_comm, first);
    for (uint32_t member = first; member < end; ++member) to << (member == first ? "" : ",") << member;
    to << "]}\n";
}

void write_rank(const fs::path& experiment, const JobSpec& job, uint32_t rank) {
    const auto host = fmt::format("n{}", rank / job.ranks_a_host);
    const uint32_t pid = 1000 + rank % job.ranks_a_host;
    const auto folder = experiment / trace::ranks_folder / fmt::format("{}.{}", host, pid);
    fs::create_directories(folder);
    std::ofstream sidecar(folder / trace::sidecar_name);
    write_sidecar_begin(sidecar, job, rank, host, pid);
    auto* archive = OTF2_Archive_Open(folder.c_str(), trace::archive_name, OTF2_FILEMODE_WRITE, trace::event_chunk_size, 4 << 20,
                                      OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    const OTF2_FlushCallbacks flushes{flush, nullptr};
    OTF2_Archive_SetFlushCallbacks(archive, &flushes, nullptr);
    OTF2_Archive_SetSerialCollectiveCallbacks(archive);
    OTF2_Archive_OpenEvtFiles(archive);
    auto* writer = OTF2_Archive_GetEvtWriter(archive, rank);
    if (!writer) throw std::runtime_error("OTF2 gives no event writer");
    Events events(writer, job, rank);
    events.write();
    OTF2_Archive_CloseEvtWriter(archive, writer);
    OTF2_Archive_CloseEvtFiles(archive);
    const auto file = folder / trace::archive_name / fmt::format("{}.evt", rank);
    if (job.killed.contains(rank)) {
        fs::resize_file(file, fs::file_size(file) / 2);  // and nothing in memory was saved
        return;
    }
    sidecar << fmt::format(
        R"({{"final":true,"events":{{"{0}":{1}}},"dropped":0,"dropped_ns":0,"own_cost_ns":7,"warnings":[],"times":{{"{0}":[{2},{3}]}}}})"
        "\n",
        rank, events.count(), start_ns, events.last());
    if (!sidecar.flush()) throw std::runtime_error("a sidecar cannot be written");
    OTF2_Archive_Close(archive);
    fs::remove(folder / "traces.otf2");
    fs::remove(folder / "traces.def");
}

}  // namespace

void write_job(const fs::path& experiment, const JobSpec& job) {
    constexpr uint32_t a_child = 500;  // OTF2 keeps what it had for each archive
    for (uint32_t first = 0; first < job.ranks; first += a_child) {
        const pid_t pid = fork();
        if (pid == 0) {
            try {
                for (uint32_t rank = first; rank < std::min(first + a_child, job.ranks); ++rank) write_rank(experiment, job, rank);
            } catch (const std::exception& error) {
                fmt::print(stderr, "{}\n", error.what());
                _exit(1);
            }
            _exit(0);
        }
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) throw std::runtime_error("ranks cannot be written");
    }
}

uint64_t job_events(const JobSpec& job, uint32_t rank) {
    uint64_t events = 1 + 4 + 6ull * job.rounds;
    for (unsigned round = 0; round < job.rounds; ++round) events += ((rank + round) % 16 == 0) + (round % 2 ? 4 : 0);
    return events;
}

}  // namespace seal_test
