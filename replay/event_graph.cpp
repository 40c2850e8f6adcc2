// SPDX-License-Identifier: BSD-3-Clause
// A chunk is nodes one after the other, then its size and how many they are: so the file can be read from its end. Numbers are of
// variable length (7 bits a byte, the sign in the lowest bit), times relative to the node before.
#include "event_graph.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "file_bytes.hpp"
#include "replay.hpp"

namespace polter::replay {

namespace {

constexpr size_t chunk_bytes = size_t{1} << 18;
struct Trailer {
    uint64_t bytes = 0, nodes = 0;
};

void put(std::string& out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
}

void put_signed(std::string& out, int64_t value) {
    put(out, static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
}

// no_region and unnamed_region become 0 and 1.
void put_place(std::string& out, const Place& place) {
    put(out, place.operation - no_region);
    put(out, place.caller - no_region);
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
        const auto operation = static_cast<uint32_t>(number()) + no_region;
        return {operation, static_cast<uint32_t>(number()) + no_region};
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

}  // namespace

EventGraph::EventGraph() {
    std::error_code error;
    directory_ = std::filesystem::temp_directory_path(error).string();
    std::string path = (directory_.empty() ? "/tmp" : directory_) + "/polter-graph-XXXXXX";
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
    put_node(chunk_, node, ++nodes_, time_before_);
    time_before_ = node.time;
    ++nodes_in_chunk_;
    if (chunk_.size() >= chunk_bytes) write_chunk();
    return nodes_;
}

void EventGraph::write_chunk() {
    const Trailer trailer{chunk_.size(), nodes_in_chunk_};
    chunk_.append(reinterpret_cast<const char*>(&trailer), sizeof trailer);
    if (error_ == 0 && !write_all(fd_, chunk_.data(), chunk_.size(), end_)) error_ = errno ? errno : EIO;
    end_ += static_cast<int64_t>(chunk_.size());
    chunk_.clear();
    nodes_in_chunk_ = 0;
    time_before_ = 0;  // each chunk can be read on its own
}

void EventGraph::finish() {
    if (nodes_in_chunk_ > 0) write_chunk();
    chunk_ = {};
    if (error_ != 0)
        throw InputError(fmt::format("{}: writing the temporary file failed ({}); set TMPDIR to a directory with room", directory_,
                                     std::strerror(error_)));
}

void EventGraph::backward(const std::function<void(uint64_t number, const GraphNode& node)>& visit) const {
    const auto read = [&](void* to, size_t bytes, int64_t at) {
        if (!read_all(fd_, static_cast<char*>(to), bytes, at))
            throw InputError(fmt::format("{}: reading the temporary file back failed ({})", directory_, std::strerror(errno)));
    };
    std::string bytes;
    std::vector<GraphNode> nodes;
    uint64_t number = nodes_;
    for (int64_t end = end_; end > 0;) {
        Trailer trailer;
        read(&trailer, sizeof trailer, end - static_cast<int64_t>(sizeof trailer));
        end -= static_cast<int64_t>(sizeof trailer + trailer.bytes);
        bytes.resize(trailer.bytes);
        read(bytes.data(), bytes.size(), end);
        if (nodes.size() < trailer.nodes) nodes.resize(trailer.nodes);
        Reader in(bytes);
        int64_t time = 0;
        for (uint64_t i = 0; i < trailer.nodes; ++i) {
            get_node(in, nodes[i], number - trailer.nodes + 1 + i, time);
            time = nodes[i].time;
        }
        for (uint64_t i = trailer.nodes; i-- > 0; --number) visit(number, nodes[i]);
    }
}

}  // namespace polter::replay
