// SPDX-License-Identifier: BSD-3-Clause
#include "chunks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "../conventions.hpp"

namespace polter::seal {
namespace {

constexpr uint64_t chunk_size = trace::event_chunk_size;
constexpr unsigned char chunk_token = 3;
constexpr size_t chunk_header = 2 + 8 + 8;
// Ranks and sealer run on machines of one byte order; the byte after the token says which it was.
constexpr unsigned char byte_order = std::endian::native == std::endian::little ? 0x42 : 0x23;

struct ChunkHeader {
    uint64_t first = 0, last = 0;  // event numbers; last 0: never closed
};

std::optional<ChunkHeader> header_of(const char* chunk, size_t size) {
    if (size < chunk_header) return {};
    if (static_cast<unsigned char>(chunk[0]) != chunk_token || static_cast<unsigned char>(chunk[1]) != byte_order) return {};
    ChunkHeader header;
    std::memcpy(&header.first, chunk + 2, 8);
    std::memcpy(&header.last, chunk + 10, 8);
    if (header.first == 0 || (header.last != 0 && header.last + 1 < header.first)) return {};
    return header;
}

// Takes chunks in order while their event numbers follow each other.
class Joiner {
  public:
    Joiner(const std::filesystem::path& out, Joined& joined) : file_(out, std::ios::binary | std::ios::trunc), path_(out), joined_(joined) {
        check();
    }

    enum Taken { taken, repeated, refused };
    Taken take(const char* chunk, size_t size) {
        auto header = header_of(chunk, size);
        if (!header) return refused;
        if (ended_) return repeated;  // the newest one, twice in the order
        if (header->first < next_) return repeated;
        if (header->first > next_) return refused;
        file_.write(chunk, static_cast<std::streamsize>(size));
        check();
        joined_.bytes += size;
        ended_ = header->last == 0 || size < chunk_size;
        next_ = header->last + 1;
        return taken;
    }
    uint64_t next() const { return next_; }
    void close() {
        file_.close();
        check();
    }

  private:
    void check() {
        if (!file_) throw std::runtime_error(fmt::format("{}: cannot be written; is the disk full?", path_.string()));
    }
    std::ofstream file_;
    std::filesystem::path path_;
    Joined& joined_;
    uint64_t next_ = 1;
    bool ended_ = false;  // after a chunk that was not full nothing can follow
};

void join_tail(const File& tail, Joiner& joiner, char* chunk, Joined& joined) {
    auto header = std::make_unique<trace::TailHeader>();
    if (read_at(tail, header.get(), sizeof *header, 0) != sizeof *header) return;
    if (header->magic != trace::tail_magic || header->chunk_size != chunk_size) {
        joined.problem = "not a tail file of this version";
        return;
    }
    auto slots = (tail.size() - trace::tail_header_size) / chunk_size;
    auto in_use = std::min<uint64_t>(header->chunks_in_use, trace::tail_slots);
    for (uint64_t n = 0; n < in_use; ++n) {
        if (header->order[n] >= slots) {
            joined.problem = fmt::format("tail: chunk {} of {} is outside the file", n, in_use);
            return;
        }
        if (read_at(tail, chunk, chunk_size, trace::tail_header_size + header->order[n] * chunk_size) != chunk_size) return;
        // The newest chunk has been taken, and nothing was written into it yet.
        if (n + 1 == in_use && std::all_of(chunk, chunk + chunk_header, [](char c) { return c == 0; })) return;
        auto taken = joiner.take(chunk, chunk_size);
        if (taken == Joiner::refused) {
            joined.problem = fmt::format("tail: chunk {} of {} does not follow event {}", n, in_use, joiner.next() - 1);
            return;
        }
        joined.from_tail += taken == Joiner::taken;
    }
}

}  // namespace

uint64_t count_closed_events(const File& event_file) {
    auto size = event_file.size();
    uint64_t next = 1;
    char bytes[chunk_header];
    for (uint64_t at = 0; at < size; at += chunk_size) {
        if (read_at(event_file, bytes, sizeof bytes, at) != sizeof bytes) return 0;
        auto header = header_of(bytes, sizeof bytes);
        if (!header || header->first != next || header->last == 0) return 0;
        next = header->last + 1;
    }
    char end = 0;
    if (size) read_at(event_file, &end, 1, size - 1);
    return end == trace::event_file_end ? next - 1 : 0;
}

Joined join_chunks(const File& event_file, const File& tail, const std::filesystem::path& out) {
    Joined joined;
    Joiner joiner(out, joined);
    std::vector<char> chunk(chunk_size), last;
    auto size = event_file.size();
    for (uint64_t at = 0; at < size; at += chunk_size) {
        auto bytes = std::min(chunk_size, size - at);
        if (read_at(event_file, chunk.data(), bytes, at) != bytes) break;
        if (bytes < chunk_size) {
            last.assign(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(bytes));
            break;
        }
        if (joiner.take(chunk.data(), bytes) != Joiner::taken) {
            joined.problem = fmt::format("no event chunk at byte {}", at);
            break;
        }
        ++joined.flushed;
    }
    if (tail) join_tail(tail, joiner, chunk.data(), joined);
    // A last chunk that is short was cut by the kill, and the tail had it whole; or the file was closed, and the tail is empty.
    if (!last.empty() && joiner.take(last.data(), last.size()) == Joiner::taken) ++joined.flushed;
    joiner.close();
    return joined;
}

void copy_live_tail(const File& tail, const std::filesystem::path& out) {
    auto header = std::make_unique<trace::TailHeader>();
    if (read_at(tail, header.get(), sizeof *header, 0) != sizeof *header || header->magic != trace::tail_magic ||
        header->chunk_size != chunk_size)
        return;
    const auto slots = (tail.size() - trace::tail_header_size) / chunk_size;
    struct Copied {
        ChunkHeader events;
        std::vector<char> bytes;
    };
    std::vector<Copied> copied;
    for (uint64_t n = 0; n < std::min<uint64_t>(header->chunks_in_use, trace::tail_slots); ++n) {
        Copied one{{}, std::vector<char>(chunk_size)};
        if (header->order[n] >= slots) continue;
        if (read_at(tail, one.bytes.data(), chunk_size, trace::tail_header_size + header->order[n] * chunk_size) != chunk_size) continue;
        const auto events = header_of(one.bytes.data(), chunk_size);
        if (!events) continue;  // taken, and nothing was written into it yet
        one.events = *events;
        copied.push_back(std::move(one));
    }
    // A slot may hold a later chunk than when the order was read.
    std::stable_sort(copied.begin(), copied.end(), [](const Copied& a, const Copied& b) { return a.events.first < b.events.first; });
    uint32_t kept = 0;
    for (uint64_t next = 0; kept < copied.size() && (kept == 0 || copied[kept].events.first <= next); ++kept) {
        header->order[kept] = kept;
        next = copied[kept].events.last + 1;
    }
    header->chunks_in_use = kept;
    std::ofstream file(out, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(header.get()), sizeof *header);
    for (uint32_t n = 0; n < kept; ++n) file.write(copied[n].bytes.data(), static_cast<std::streamsize>(chunk_size));
    file.close();
    if (!file) throw std::runtime_error(fmt::format("{}: cannot be written; is the disk full?", out.string()));
}

}  // namespace polter::seal
