// SPDX-License-Identifier: BSD-3-Clause
// The writer alone: the tail file and the way from a noise page to metric records. The page is in memory and written by the test.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "../../../tracer/write/archive.hpp"

using namespace polter;

namespace {

struct Folder {
    std::filesystem::path path;
    Folder() {
        char name[] = "/tmp/polter-write-XXXXXX";
        path = mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
};

// An exporter's page, one writer, nobody in between.
struct Page {
    alignas(4096) char bytes[POLTER_PAGE_SIZE] = {};
    polter_page_header& header() { return *reinterpret_cast<polter_page_header*>(bytes); }
    polter_ring_entry* ring() { return reinterpret_cast<polter_ring_entry*>(bytes + POLTER_RING_OFFSET); }
    polter_counters master{};

    Page() {
        polter_page_header& h = header();
        h.magic = POLTER_PAGE_MAGIC;
        h.version = POLTER_PAGE_VERSION;
        h.size = POLTER_PAGE_SIZE;
        h.copy_offset = POLTER_COPY_OFFSET;
        h.copy_stride = POLTER_COPY_STRIDE;
        h.ring_offset = POLTER_RING_OFFSET;
        h.ring_entries = POLTER_RING_ENTRIES;
        h.backend = POLTER_BACKEND_BPF;
        h.accounts_seen = 1u << POLTER_TIMER | 1u << POLTER_PREEMPT;
        h.state = POLTER_PAGE_LIVE;
    }
    void publish() {
        polter_page_header& h = header();
        std::memcpy(bytes + POLTER_COPY_OFFSET + ((h.seq + 1) & 1) * POLTER_COPY_STRIDE, &master, sizeof master);
        h.seq++;
    }
    void count(unsigned account, uint64_t ns) {
        master.ns[account] += ns;
        master.count[account]++;
    }
    void event(unsigned account, uint64_t end, uint64_t ns, const char* culprit) {
        polter_ring_entry& e = ring()[master.recorded % POLTER_RING_ENTRIES];
        header().reserved = master.recorded + 1;
        e = {end, ns, account, 1, {}, master.recorded};
        std::strncpy(e.culprit, culprit, sizeof e.culprit - 1);
        master.recorded++;
        count(account, ns);
        publish();
    }
    std::unique_ptr<write::NoiseFeed> feed() {
        char error[200] = "";
        polter_noise* page = polter_noise_open_memory(bytes, sizeof bytes, error, sizeof error);
        REQUIRE_MESSAGE(page, error);
        auto feed = std::make_unique<write::NoiseFeed>(page);
        feed->begin();
        return feed;
    }
};

struct Record {
    uint64_t time;
    uint32_t account;
    uint64_t value;
    bool culprit;
    uint64_t ago = 0;
    bool operator==(const Record&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Record& r) {
    return out << "{" << r.time << " " << r.account << " " << r.value << (r.culprit ? " culprit}" : "}");
}

OTF2_CallbackCode on_metric(OTF2_LocationRef, OTF2_TimeStamp time, uint64_t, void* data, OTF2_AttributeList* attributes,
                            OTF2_MetricRef metric, uint8_t, const OTF2_Type*, const OTF2_MetricValue* values) {
    uint64_t ago = 0;
    OTF2_AttributeList_GetUint64(attributes, trace::attribute_ago, &ago);
    static_cast<std::vector<Record>*>(data)->push_back(
        {time, metric, values->unsigned_int, OTF2_AttributeList_TestAttributeByID(attributes, trace::attribute_culprit), ago});
    return OTF2_CALLBACK_SUCCESS;
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

// An archive lives as long as its process, whose other threads may still be inside. So it is no leak, and neither is what tells so.
auto& archives = *new std::vector<write::Archive*>;

// One rank with one location, written to a folder and read again.
struct Rank {
    Folder folder;
    write::Archive* archive;
    write::Location* location;
    std::filesystem::path ranks = folder.path / "ranks/host.1";

    explicit Rank(std::unique_ptr<write::NoiseFeed> feed, uint64_t first, unsigned chunks = 2) {
        std::string error;
        write::Identity self;
        self.host = "host";
        self.pid = 1;
        archive = write::Archive::create({folder.path.string(), {}, chunks}, self, {}, error);
        REQUIRE_MESSAGE(archive, error);
        archives.push_back(archive);
        location = archive->add_location(0, 1, std::move(feed), first);
        REQUIRE(location);
    }
    nlohmann::json final() {
        archive->finish();
        return nlohmann::json::parse(lines_of(ranks / "rank.jsonl").back());
    }
    // The event file alone, by an anchor that only this test writes.
    std::vector<Record> metrics() {
        archive->finish();
        OTF2_Archive* whole = OTF2_Archive_Open((folder.path / "whole").c_str(), "traces", OTF2_FILEMODE_WRITE, trace::event_chunk_size,
                                                OTF2_CHUNK_SIZE_DEFINITIONS_DEFAULT, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
        OTF2_Archive_SetSerialCollectiveCallbacks(whole);
        static const OTF2_FlushCallbacks flush{
            [](void*, OTF2_FileType, OTF2_LocationRef, void*, bool) -> OTF2_FlushType { return OTF2_FLUSH; }, nullptr};
        OTF2_Archive_SetFlushCallbacks(whole, &flush, nullptr);
        OTF2_GlobalDefWriter* definitions = OTF2_Archive_GetGlobalDefWriter(whole);
        OTF2_GlobalDefWriter_WriteString(definitions, 0, "");
        OTF2_GlobalDefWriter_WriteSystemTreeNode(definitions, 0, 0, 0, OTF2_UNDEFINED_SYSTEM_TREE_NODE);
        OTF2_GlobalDefWriter_WriteLocationGroup(definitions, 0, 0, OTF2_LOCATION_GROUP_TYPE_PROCESS, 0, OTF2_UNDEFINED_LOCATION_GROUP);
        OTF2_GlobalDefWriter_WriteLocation(definitions, 0, 0, OTF2_LOCATION_TYPE_CPU_THREAD, 0, 0);
        OTF2_Archive_OpenEvtFiles(whole);
        OTF2_Archive_CloseEvtFiles(whole);
        OTF2_Archive_Close(whole);
        std::filesystem::create_directories(folder.path / "whole/traces");
        std::filesystem::copy(ranks / "traces/0.evt", folder.path / "whole/traces/0.evt",
                              std::filesystem::copy_options::overwrite_existing);

        std::vector<Record> records;
        OTF2_Reader* reader = OTF2_Reader_Open((folder.path / "whole/traces.otf2").c_str());
        REQUIRE(reader);
        OTF2_Reader_SetSerialCollectiveCallbacks(reader);
        uint64_t n = 0;
        OTF2_Reader_ReadAllGlobalDefinitions(reader, OTF2_Reader_GetGlobalDefReader(reader), &n);
        OTF2_Reader_SelectLocation(reader, 0);
        REQUIRE(OTF2_Reader_OpenEvtFiles(reader) == OTF2_SUCCESS);
        OTF2_EvtReader* events = OTF2_Reader_GetEvtReader(reader, 0);
        OTF2_EvtReaderCallbacks* callbacks = OTF2_EvtReaderCallbacks_New();
        OTF2_EvtReaderCallbacks_SetMetricCallback(callbacks, on_metric);
        OTF2_Reader_RegisterEvtCallbacks(reader, events, callbacks, &records);
        CHECK(OTF2_Reader_ReadAllLocalEvents(reader, events, &n) == OTF2_SUCCESS);
        OTF2_EvtReaderCallbacks_Delete(callbacks);
        OTF2_Reader_Close(reader);
        return records;
    }
};

constexpr uint64_t first = 1'000'000;

}  // namespace

TEST_CASE("one record for each noise event, at its end, with the account's sum since registration") {
    auto page = std::make_unique<Page>();
    page->event(POLTER_TIMER, 10, 500, "before");  // outside the trace: only in the baseline
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    page->event(POLTER_TIMER, first + 100, 30, "");
    page->event(POLTER_PREEMPT, first + 200, 70, "kworker");
    page->event(POLTER_TIMER, first + 900, 40, "");  // after the stamp: not yet
    CHECK(noise->moved(UINT64_MAX));
    noise->take(first + 500, *rank.location);
    CHECK(noise->moved(UINT64_MAX));  // what is left must not be forgotten when nothing more comes
    noise->take(first + 1000, *rank.location);
    CHECK_FALSE(noise->moved(UINT64_MAX));
    CHECK(rank.metrics() == std::vector<Record>{{first, POLTER_TIMER, 500, false},
                                                {first, POLTER_PREEMPT, 0, false},
                                                {first + 100, POLTER_TIMER, 530, false},
                                                {first + 200, POLTER_PREEMPT, 70, true},
                                                {first + 900, POLTER_TIMER, 570, false}});
}

TEST_CASE("the last line has the sums by account and culprit") {
    auto page = std::make_unique<Page>();
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    page->event(POLTER_TIMER, first + 100, 30, "");
    page->event(POLTER_PREEMPT, first + 200, 70, "cron");
    page->event(POLTER_PREEMPT, first + 400, 50, "cron");
    page->event(POLTER_PREEMPT, first + 600, 40, "");
    noise->take(first + 1000, *rank.location);
    const nlohmann::json final = rank.final();
    CHECK(final["noise"] == nlohmann::json::parse(R"([["preempt",0,120,2],["timer",null,30,1],["preempt",null,40,1]])"));
}

TEST_CASE("what the ring lost is in the counter, and is counted") {
    auto page = std::make_unique<Page>();
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    SUBCASE("never put into the ring") {
        page->event(POLTER_TIMER, first + 100, 30, "");
        page->count(POLTER_TIMER, 5);
        page->master.dropped++;
        page->publish();
        noise->take(first + 500, *rank.location);
        const nlohmann::json final = rank.final();
        CHECK(final["dropped"] == 1);
        CHECK(final["dropped_ns"] == 5);
    }
    SUBCASE("overwritten") {
        for (unsigned i = 0; i < POLTER_RING_ENTRIES + 10; i++) page->event(POLTER_TIMER, first + 100 + i, 2, "");
        noise->take(first + 5000, *rank.location);
        const std::vector<Record> records = rank.metrics();
        // Ten that end from 100 to 109 were overwritten; the first that is left begins at 108.
        REQUIRE(records.size() == 2 + 1 + POLTER_RING_ENTRIES);
        CHECK(records[2] == Record{first + 108, POLTER_TIMER, 20, false});
        CHECK(records[3] == Record{first + 110, POLTER_TIMER, 22, false});
        CHECK(records.back() == Record{first + 100 + POLTER_RING_ENTRIES + 9, POLTER_TIMER, 2 * (POLTER_RING_ENTRIES + 10), false});
        const nlohmann::json final = nlohmann::json::parse(lines_of(rank.ranks / "rank.jsonl").back());
        CHECK(final["dropped"] == 10);
        CHECK(final["dropped_ns"] == 20);
    }
    SUBCASE("overwritten, and the newest entry ended after the stamp") {
        for (unsigned i = 0; i < POLTER_RING_ENTRIES + 10; i++) page->event(POLTER_TIMER, first + 100 + i, 2, "");
        noise->take(first + 1132, *rank.location);  // the last one ends at 1133
        CHECK(noise->moved(UINT64_MAX));
        noise->take(first + 2000, *rank.location);
        CHECK_FALSE(noise->moved(UINT64_MAX));
        const std::vector<Record> records = rank.metrics();
        // What was lost can only be told once all else has been taken.
        CHECK(records[2] == Record{first + 110, POLTER_TIMER, 2, false});
        CHECK(records.back() == Record{first + 2000, POLTER_TIMER, 2 * (POLTER_RING_ENTRIES + 10), false});
        const nlohmann::json final = nlohmann::json::parse(lines_of(rank.ranks / "rank.jsonl").back());
        CHECK(final["dropped"] == 10);
        CHECK(final["dropped_ns"] == 20);
    }
    SUBCASE("overwritten during start-up") {
        const uint64_t now = write::now();
        for (unsigned i = 0; i < POLTER_RING_ENTRIES + 10; i++) page->event(POLTER_TIMER, now - 5000 + i, 2, "");
        const uint64_t end = rank.location->end_startup();
        CHECK(end >= now);
        page->event(POLTER_TIMER, end + 5, 3, "");
        noise->take(end + 10, *rank.location);
        const std::vector<Record> records = rank.metrics();
        CHECK(records.back() == Record{end + 5, POLTER_TIMER, 2 * (POLTER_RING_ENTRIES + 10) + 3, false});
        const nlohmann::json final = nlohmann::json::parse(lines_of(rank.ranks / "rank.jsonl").back());
        CHECK(final["dropped"] == 10);
        CHECK(final["dropped_ns"] == 20);
    }
}

TEST_CASE("what a long call has is put aside before the ring loses it, each event with its time and culprit") {
    auto page = std::make_unique<Page>();
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    constexpr unsigned events = 5 * POLTER_RING_ENTRIES + 7;
    for (unsigned i = 0; i < events; i++) {
        page->event(i % 3 ? POLTER_TIMER : POLTER_PREEMPT, first + 100 + 10 * i, 2, "kworker");
        if (i % 100 == 0) noise->put_aside();
    }
    noise->take(first + 100 + 10 * (events / 2), *rank.location);  // most of those after it were put aside, too
    CHECK(noise->moved(UINT64_MAX));
    noise->put_aside();
    page->event(POLTER_TIMER, first + 100 + 10 * events, 2, "last");
    noise->take(first + 100 + 10 * events, *rank.location);
    CHECK_FALSE(noise->moved(UINT64_MAX));
    const std::vector<Record> records = rank.metrics();
    REQUIRE(records.size() == 2 + events + 1);
    uint64_t sum[POLTER_ACCOUNTS] = {};
    for (unsigned i = 0; i <= events; i++) {
        const unsigned account = i % 3 || i == events ? POLTER_TIMER : POLTER_PREEMPT;
        REQUIRE(records[2 + i] == Record{first + 100 + 10 * i, account, sum[account] += 2, true});
    }
    const nlohmann::json final = nlohmann::json::parse(lines_of(rank.ranks / "rank.jsonl").back());
    CHECK(final["dropped"] == 0);
    CHECK(final["dropped_ns"] == 0);
}

TEST_CASE("a backend without events: the counter at the MPI event that saw it move") {
    auto page = std::make_unique<Page>();
    page->header().backend = POLTER_BACKEND_PROC;
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    page->count(POLTER_PREEMPT, 900);
    page->publish();
    noise->take(first + 50, *rank.location);
    CHECK(rank.metrics().back() == Record{first + 50, POLTER_PREEMPT, 900, false});
    CHECK(nlohmann::json::parse(lines_of(rank.ranks / "rank.jsonl").back())["dropped"] == 0);
}

TEST_CASE("page faults have no records in the ring: their sum is written where it was seen, and nothing is missing") {
    auto page = std::make_unique<Page>();
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    page->event(POLTER_TIMER, first + 10, 30, "");
    page->count(POLTER_FAULT, 900);
    page->publish();
    noise->take(first + 50, *rank.location);
    CHECK(rank.metrics().back() == Record{first + 50, POLTER_FAULT, 900, false});
    const nlohmann::json final = rank.final();
    CHECK(final["dropped"] == 0);
    CHECK(final["dropped_ns"] == 0);
}

TEST_CASE("a record never exceeds the counter") {
    auto page = std::make_unique<Page>();
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    page->event(POLTER_TIMER, first + 10, 100, "");
    page->master.ns[POLTER_TIMER] = 60;  // a ring that claims more than the account
    page->publish();
    noise->take(first + 50, *rank.location);
    CHECK(rank.metrics().back() == Record{first + 10, POLTER_TIMER, 60, false});
}

TEST_CASE("a frozen page says when the measuring ended") {
    auto page = std::make_unique<Page>();
    Rank rank(page->feed(), first);
    page->header().state = POLTER_PAGE_FROZEN;
    page->header().end_ns = first + 77;
    const nlohmann::json final = rank.final();
    CHECK(final["exporter_ended_ns"] == first + 77);
    CHECK(final["tracing_ended_ns"] == 0);
}

TEST_CASE("times below the last one are raised to it and counted") {
    Rank rank(nullptr, first);
    rank.location->enter(first + 100, 1, nullptr);
    rank.location->leave(first + 50, 1);
    const nlohmann::json final = rank.final();
    CHECK(final["events"]["0"] == 2);
    CHECK(final["times"]["0"] == nlohmann::json{first, first + 100});
    CHECK(final["warnings"].size() == 1);
}

TEST_CASE("noise that is made known late stands behind what was written, with the time that has passed since") {
    auto page = std::make_unique<Page>();
    auto feed = page->feed();
    write::NoiseFeed* noise = feed.get();
    Rank rank(std::move(feed), first);
    rank.location->enter(first + 300, 1, nullptr);
    page->event(POLTER_TIMER, first + 200, 30, "");
    noise->take(first + 400, *rank.location);
    rank.location->leave(first + 400, 1);
    CHECK(rank.metrics().back() == Record{first + 300, POLTER_TIMER, 30, false, 100});
}

TEST_CASE("the tail's memory may be huge pages behind its first chunk") {
    if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
        MESSAGE("this kernel has no transparent huge pages: not tested");
        return;
    }
    Rank rank(nullptr, first);
    const std::string tail = std::filesystem::canonical(rank.ranks / "0.tail");
    std::ifstream mappings("/proc/self/smaps");
    std::vector<bool> huge;
    for (std::string line; std::getline(mappings, line);) {
        if (!line.ends_with(tail)) continue;
        while (!line.starts_with("VmFlags:") && std::getline(mappings, line)) continue;
        huge.push_back((line + " ").find(" hg ") != std::string::npos);
    }
    CHECK(huge == std::vector{false, true});
    CHECK(std::filesystem::file_size(tail) % (2u << 20) == 0);
}

TEST_CASE("a thread without many events takes a few pages of memory, not a whole chunk or what would be read ahead") {
    Rank rank(nullptr, first);
    for (int i = 0; i < 100; i++) {
        rank.location->enter(first + 200 * i, 1, nullptr);
        rank.location->leave(first + 200 * i + 100, 1);
    }
    const std::string tail = rank.ranks / "0.tail";
    struct statfs system {};
    REQUIRE(statfs(tail.c_str(), &system) == 0);
    if (system.f_type == TMPFS_MAGIC) {
        MESSAGE("files in memory are there from their beginning: not tested");
        return;
    }
    const auto size = std::filesystem::file_size(tail), page = static_cast<size_t>(getpagesize());
    const int file = open(tail.c_str(), O_RDONLY | O_CLOEXEC);
    void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    REQUIRE(memory != MAP_FAILED);
    close(file);
    std::vector<unsigned char> in_memory(size / page);
    CHECK(mincore(memory, size, in_memory.data()) == 0);
    munmap(memory, size);
    CHECK(std::count_if(in_memory.begin(), in_memory.end(), [](unsigned char bits) { return bits & 1; }) * page <= 64 * 1024);
}

TEST_CASE("flushed chunks stay in the tail until the event file has grown over them") {
    Rank rank(nullptr, first, 2);
    const auto tail_path = rank.ranks / "0.tail";
    std::vector<char> image(std::filesystem::file_size(tail_path));
    uint64_t time = first, most_in_use = 0, samples = 0, ends_used = 0;
    for (int i = 0; i < 2'000'000; i++) {
        rank.location->enter(time += 100, 1, nullptr);
        rank.location->leave(time += 100, 1);
        if (i % 10000) continue;
        std::ifstream(tail_path, std::ios::binary).read(image.data(), static_cast<std::streamsize>(image.size()));
        const auto& header = *reinterpret_cast<const trace::TailHeader*>(image.data());
        REQUIRE(header.magic == trace::tail_magic);
        most_in_use = std::max(most_in_use, header.chunks_in_use);
        // The chunks in the file and those in the tail are all there are: their event numbers follow each other without a gap.
        const auto events = rank.ranks / "traces/0.evt";
        std::error_code none;
        const uint64_t on_disk = std::filesystem::exists(events) ? std::filesystem::file_size(events, none) / trace::event_chunk_size : 0;
        uint64_t next = 1;
        std::ifstream file(events, std::ios::binary);
        char chunk[18];
        const auto follow = [&](const char* bytes) {
            uint64_t from, to;
            std::memcpy(&from, bytes + 2, 8);
            std::memcpy(&to, bytes + 10, 8);
            if (from < next) return;  // in the file as well
            REQUIRE(from == next);
            next = to + 1;
        };
        for (uint64_t n = 0; n < on_disk; n++) {
            file.seekg(static_cast<std::streamoff>(n * trace::event_chunk_size));
            REQUIRE(file.read(chunk, sizeof chunk));
            follow(chunk);
        }
        for (uint64_t n = 0; n < header.chunks_in_use; n++)
            follow(image.data() + trace::tail_header_size + header.order[n] * trace::event_chunk_size);
        const char* newest = image.data() + trace::tail_header_size + header.order[header.chunks_in_use - 1] * trace::event_chunk_size;
        samples++;
        ends_used += newest[trace::event_chunk_size * 7 / 8] != 0;
    }
    CHECK(ends_used < samples / 2);  // nothing of what a chunk's place held before
    CHECK(most_in_use > 2);
    CHECK(rank.final()["events"]["0"] == 4'000'000);
    CHECK_FALSE(std::filesystem::exists(tail_path));
}

TEST_CASE("no room: one line, the tracing stops, nothing else happens") {
    Folder folder;
    std::string error;
    CHECK(write::Archive::create({(folder.path / "missing").string(), {}, 2}, {}, {}, error) == nullptr);
    CHECK(error.find("missing/ranks") != std::string::npos);

    Rank rank(nullptr, first);
    rank.archive->stop("for the test", first + 5);
    rank.location->enter(first + 10, 1, nullptr);
    const nlohmann::json final = rank.final();
    CHECK(final["events"]["0"] == 0);
    CHECK(final["tracing_ended_ns"] == first + 5);
    CHECK(final["exporter_ended_ns"] == 0);
    CHECK(final["warnings"][0] == "tracing ended early: for the test");
}
