// SPDX-License-Identifier: BSD-3-Clause
// Format of a chunk: nodes, then its size, the number of nodes, and the number of the last node before it. So the file can be read
// backward. Numbers have variable length (7 bits a byte, the sign in the lowest bit); times are relative to the previous node.
#include "event_graph.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "replay/base/error.hpp"
#include "replay/base/temporary.hpp"

namespace polter::replay {

namespace {

constexpr size_t chunk_bytes = size_t{1} << 18;
struct Trailer {
    uint64_t bytes = 0, nodes = 0, before = 0;
};

void put(std::string& out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
}

void put_signed(std::string& out, int64_t value) {
    put(out, static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}

// no_region and unnamed_region become 0 and 1, no call site 0.
void put_place(std::string& out, const Place& place) {
    put(out, place.operation - no_region);
    put(out, place.caller - no_region);
    put(out, static_cast<uint32_t>(place.call_site + 1));
}

class Reader {
  public:
    explicit Reader(const std::string& bytes) : bytes_(bytes) {}
    uint64_t number() {
        uint64_t value = 0;
        for (unsigned shift = 0;; shift += 7) {
            const auto byte = static_cast<uint8_t>(bytes_.at(at_++));
            value |= static_cast<uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
    }
    int64_t signed_number() {
        const uint64_t value = number();
        return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
    }
    Place place() {
        const auto operation = static_cast<uint32_t>(number()) + no_region, caller = static_cast<uint32_t>(number()) + no_region;
        return {operation, caller, static_cast<uint32_t>(number()) - 1};
    }

  private:
    const std::string& bytes_;
    size_t at_ = 0;
};

void put_node(std::string& out, const GraphNode& node, uint64_t number, int64_t time_before) {
    put(out, static_cast<uint32_t>(node.thread + 1));
    put_place(out, node.place);
    put_signed(out, node.time - time_before);
    put_signed(out, node.delay);
    put(out, node.edges.size());
    for (const GraphEdge& edge : node.edges) {
        put(out, number - edge.from);
        put_signed(out, edge.slack);
        put(out, edge.binds);
    }
    put(out, node.noise.size());
    for (const GraphNoise& noise : node.noise) {
        put(out, noise.thread);
        put(out, static_cast<uint32_t>(noise.culprit + 1));
        put(out, noise.account);
        put_place(out, noise.place);
        put_signed(out, node.time - noise.begin);
        put_signed(out, noise.duration);
        put_signed(out, noise.counted);
        put_signed(out, noise.effect);
    }
    put(out, node.computed.size());
    for (const auto& [region, ns] : node.computed) {
        put(out, static_cast<uint32_t>(region - no_region));
        put_signed(out, ns);
    }
}

void get_node(Reader& in, GraphNode& node, uint64_t number, int64_t time_before) {
    node.thread = static_cast<uint32_t>(in.number()) - 1;
    node.place = in.place();
    node.time = time_before + in.signed_number();
    node.delay = in.signed_number();
    node.edges.resize(in.number());
    for (GraphEdge& edge : node.edges) {
        edge.from = number - in.number();
        edge.slack = in.signed_number();
        edge.binds = in.number();
    }
    node.noise.resize(in.number());
    for (GraphNoise& noise : node.noise) {
        noise.thread = static_cast<uint32_t>(in.number());
        noise.culprit = static_cast<uint32_t>(in.number()) - 1;
        noise.account = static_cast<uint16_t>(in.number());
        noise.place = in.place();
        noise.begin = node.time - in.signed_number();
        noise.duration = in.signed_number();
        noise.counted = in.signed_number();
        noise.effect = in.signed_number();
    }
    node.computed.resize(in.number());
    for (auto& [region, ns] : node.computed) {
        region = static_cast<uint32_t>(in.number()) + no_region;
        ns = in.signed_number();
    }
}

// Reads one process's nodes, last to first.
class Cursor {
  public:
    Cursor(EventGraph::Part part, uint64_t process, uint64_t processes)
        : part_(std::move(part)), end_(part_.bytes), process_(process), processes_(processes) {
        load();
    }
    bool over() const { return left_ == 0; }
    uint64_t number() const { return numbers_[left_ - 1]; }
    const GraphNode& node() const { return nodes_[left_ - 1]; }
    void step() {
        if (--left_ == 0) load();
    }

  private:
    void load() {
        if (end_ == 0) return;
        Trailer trailer;
        part_.read(&trailer, sizeof trailer, end_ - static_cast<int64_t>(sizeof trailer));
        end_ -= static_cast<int64_t>(sizeof trailer + trailer.bytes);
        bytes_.resize(trailer.bytes);
        part_.read(bytes_.data(), bytes_.size(), end_);
        left_ = trailer.nodes;
        if (nodes_.size() < left_) nodes_.resize(left_);
        numbers_.resize(left_);
        Reader in(bytes_);
        int64_t time = 0;
        uint64_t last = trailer.before;
        for (size_t i = 0; i < left_; ++i) {
            last += 1 + in.number();
            numbers_[i] = last * processes_ + process_;
            get_node(in, nodes_[i], numbers_[i], time);
            time = nodes_[i].time;
        }
    }

    EventGraph::Part part_;
    int64_t end_;
    uint64_t process_, processes_;
    std::string bytes_;
    std::vector<GraphNode> nodes_;
    std::vector<uint64_t> numbers_;
    size_t left_ = 0;
};

}  // namespace

EventGraph::EventGraph(uint64_t process, uint64_t processes, bool local_numbers)
    : process_(process), processes_(processes), local_numbers_(local_numbers) {
    directory_ = temporary_directory();
    std::string path = directory_ + "/polter-graph-XXXXXX";
    fd_ = mkostemp(path.data(), O_CLOEXEC);
    if (fd_ < 0)
        throw InputError(
            fmt::format("{}: cannot make a temporary file there ({}); set TMPDIR to a directory with room", path, std::strerror(errno)));
    unlink(path.c_str());
}

EventGraph::~EventGraph() {
    close(fd_);
}

uint64_t EventGraph::add(const GraphNode& node) {
    const uint64_t before = last_++;
    for (const GraphEdge& edge : node.edges)
        if (!local_numbers_) last_ = std::max(last_, edge.from / processes_ + 1);
    const uint64_t number = last_ * processes_ + process_;
    put(chunk_, last_ - before - 1);
    put_node(chunk_, node, number, time_before_);
    time_before_ = node.time;
    ++nodes_in_chunk_;
    if (chunk_.size() >= chunk_bytes) write_chunk();
    return number;
}

void EventGraph::write_chunk() {
    const Trailer trailer{chunk_.size(), nodes_in_chunk_, last_of_chunk_before_};
    chunk_.append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
    if (error_ == 0 && !write_all(fd_, chunk_.data(), chunk_.size(), end_)) error_ = errno ? errno : EIO;
    end_ += static_cast<int64_t>(chunk_.size());
    chunk_.clear();
    nodes_in_chunk_ = 0;
    last_of_chunk_before_ = last_;
    time_before_ = 0;  // each chunk must be readable on its own
}

void EventGraph::finish() {
    if (nodes_in_chunk_ > 0) write_chunk();
    chunk_ = {};
    if (error_ != 0)
        throw InputError(fmt::format("{}: writing the temporary file failed ({}); set TMPDIR to a directory with room", directory_,
                                     std::strerror(error_)));
}

void EventGraph::read(void* to, size_t bytes, int64_t at) const {
    if (!read_all(fd_, static_cast<char*>(to), bytes, at))
        throw InputError(fmt::format("{}: reading the temporary file back failed ({})", directory_, std::strerror(errno)));
}

void EventGraph::backward(const Visit& visit) const {
    Cursor cursor({end_, [this](void* to, size_t bytes, int64_t at) { read(to, bytes, at); }}, process_, processes_);
    for (; !cursor.over(); cursor.step()) visit(cursor.number(), cursor.node());
}

void EventGraph::backward(const std::vector<Part>& parts, const Visit& visit) {
    std::vector<Cursor> cursors;
    for (size_t process = 0; process < parts.size(); ++process) cursors.emplace_back(parts[process], process, parts.size());
    for (;;) {
        // The process with the greatest next number, and the greatest number of the others.
        Cursor* greatest = nullptr;
        uint64_t next = none;
        for (Cursor& cursor : cursors) {
            if (cursor.over()) continue;
            if (!greatest || cursor.number() > greatest->number()) {
                if (greatest) next = greatest->number();
                greatest = &cursor;
            } else {
                next = std::max(next, cursor.number());
            }
        }
        if (!greatest) return;
        for (; !greatest->over() && greatest->number() > next; greatest->step()) visit(greatest->number(), greatest->node());
    }
}

}  // namespace polter::replay
