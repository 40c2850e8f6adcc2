// SPDX-License-Identifier: BSD-3-Clause
#include "synthetic.hpp"

#include <otf2/otf2.h>

#include <filesystem>
#include <stdexcept>
#include <vector>

#include "trace_spec.hpp"

namespace polter::test {

namespace {

OTF2_FlushType flush(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}

enum Region : uint32_t { work, irecv, send, wait, allreduce, recv };

// One rank's events, at the same times on all ranks: so the exchange's order holds.
class RankWriter {
  public:
    RankWriter(const SyntheticOptions& options, size_t rank, OTF2_EvtWriter* events)
        : options_(options), rank_(rank), events_(events), totals_(options.sources, 0) {}

    void write() {
        for (size_t source = 0; source < options_.sources; ++source) noise(source, 0);
        const int64_t each = options_.events / static_cast<int64_t>(options_.ranks);
        int64_t in_messages = 0, noises = 0, steps = 0;
        for (int64_t i = 0; i < each; ++steps) {
            now_ = 1000 + static_cast<uint64_t>(i) * 100;
            if (in_messages * 100 < i * options_.messages) {
                const int64_t written = options_.one_way ? message() : exchange(steps % 50 == 0);
                in_messages += written;
                i += written;
                continue;
            }
            OTF2_EvtWriter_Enter(events_, nullptr, now_, work);
            if (noises * 100 < i * options_.noise) {
                now_ += 90;
                noise((rank_ + static_cast<size_t>(steps)) % options_.sources, 20);
                ++noises;
                ++i;
            }
            OTF2_EvtWriter_Leave(events_, nullptr, now_ + 5, work);
            i += 2;
        }
    }

  private:
    void noise(size_t source, uint64_t ns) {
        OTF2_MetricValue value;
        value.unsigned_int = totals_[source] += ns;
        const OTF2_Type type = OTF2_TYPE_UINT64;
        OTF2_EvtWriter_Metric(events_, nullptr, now_, static_cast<uint32_t>(source), 1, &type, &value);
    }

    int64_t exchange(bool together) {
        const auto right = static_cast<uint32_t>((rank_ + 1) % options_.ranks),
                   left = static_cast<uint32_t>((rank_ + options_.ranks - 1) % options_.ranks);
        OTF2_EvtWriter_Enter(events_, nullptr, now_, irecv);
        OTF2_EvtWriter_MpiIrecvRequest(events_, nullptr, now_, ++request_);
        OTF2_EvtWriter_Leave(events_, nullptr, now_ + 10, irecv);
        OTF2_EvtWriter_Enter(events_, nullptr, now_ + 20, send);
        OTF2_EvtWriter_MpiSend(events_, nullptr, now_ + 20, right, 0, 1, 1024);
        OTF2_EvtWriter_Leave(events_, nullptr, now_ + 30, send);
        OTF2_EvtWriter_Enter(events_, nullptr, now_ + 40, wait);
        OTF2_EvtWriter_MpiIrecv(events_, nullptr, now_ + 60, left, 0, 1, 1024, request_);
        OTF2_EvtWriter_Leave(events_, nullptr, now_ + 60, wait);
        if (!together) return 9;
        now_ += 100;
        OTF2_EvtWriter_Enter(events_, nullptr, now_, allreduce);
        OTF2_EvtWriter_MpiCollectiveBegin(events_, nullptr, now_);
        OTF2_EvtWriter_MpiCollectiveEnd(events_, nullptr, now_ + 90, OTF2_COLLECTIVE_OP_ALLREDUCE, 0, 0, 8, 8);
        OTF2_EvtWriter_Leave(events_, nullptr, now_ + 90, allreduce);
        return 13;
    }

    int64_t message() {
        constexpr int64_t behind = 3;
        if (rank_ % 2 == 0) {
            if (rank_ + 1 == options_.ranks) return 3;
            OTF2_EvtWriter_Enter(events_, nullptr, now_, send);
            OTF2_EvtWriter_MpiSend(events_, nullptr, now_, static_cast<uint32_t>(rank_ + 1), 0, 1, 1024);
            OTF2_EvtWriter_Leave(events_, nullptr, now_ + 30, send);
        } else if (messages_++ >= behind) {
            OTF2_EvtWriter_Enter(events_, nullptr, now_, recv);
            OTF2_EvtWriter_MpiRecv(events_, nullptr, now_ + 60, static_cast<uint32_t>(rank_ - 1), 0, 1, 1024);
            OTF2_EvtWriter_Leave(events_, nullptr, now_ + 60, recv);
        }
        return 3;
    }

    const SyntheticOptions& options_;
    const size_t rank_;
    OTF2_EvtWriter* events_;
    std::vector<uint64_t> totals_;
    uint64_t now_ = 1000, request_ = 0;
    int64_t messages_ = 0;
};

}  // namespace

// Definitions by the tests' writer; then the events, in an archive of their own whose files are put into it.
void write_synthetic(const SyntheticOptions& options, const std::string& directory) {
    TraceSpec spec(options.ranks);
    for (size_t i = 0; i < options.sources; ++i) spec.accounts.push_back("os:source" + std::to_string(i));
    const char* regions[] = {"work", "MPI_Irecv", "MPI_Send", "MPI_Wait", "MPI_Allreduce", "MPI_Recv"};
    for (const char* name : regions)  // the writer numbers regions as they come
        for (const auto kind : {Record::Kind::enter, Record::Kind::leave}) {
            Record record;
            record.kind = kind;
            record.name = name;
            spec.records[0].push_back(record);
        }
    write_trace(spec, directory);
    const std::string body = directory + ".body";
    std::filesystem::remove_all(body);
    OTF2_Archive* archive =
        OTF2_Archive_Open(body.c_str(), "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN, OTF2_CHUNK_SIZE_MIN,  // as the anchor says
                          OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (!archive) throw std::runtime_error("cannot write " + body);
    static const OTF2_FlushCallbacks callbacks{flush, nullptr};
    OTF2_Archive_SetFlushCallbacks(archive, &callbacks, nullptr);
    OTF2_Archive_SetSerialCollectiveCallbacks(archive);
    OTF2_Archive_OpenEvtFiles(archive);
    for (size_t rank = 0; rank < options.ranks; ++rank) {
        OTF2_EvtWriter* events = OTF2_Archive_GetEvtWriter(archive, rank);
        RankWriter(options, rank, events).write();
        if (OTF2_Archive_CloseEvtWriter(archive, events) != OTF2_SUCCESS) throw std::runtime_error("cannot write events to " + body);
    }
    OTF2_Archive_CloseEvtFiles(archive);
    OTF2_Archive_Close(archive);
    for (const auto& entry : std::filesystem::directory_iterator(body + "/traces"))
        if (entry.path().extension() == ".evt")
            std::filesystem::rename(entry.path(), directory + "/traces/" + entry.path().filename().string());
    std::filesystem::remove_all(body);
}

}  // namespace polter::test
