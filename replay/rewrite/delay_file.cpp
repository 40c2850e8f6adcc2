// SPDX-License-Identifier: BSD-3-Clause
#include "delay_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "replay/base/error.hpp"

namespace polter::replay {

DelayFile::DelayFile(const std::string& path, size_t locations) : path_(path), chains_(locations) {
    path_ += "-XXXXXX";
    fd_ = mkostemp(path_.data(), O_CLOEXEC);
    if (fd_ < 0)
        throw InputError(fmt::format("{}: cannot make a temporary file there ({}); choose another directory", path, std::strerror(errno)));
    unlink(path_.c_str());
}

DelayFile::~DelayFile() {
    close(fd_);
}

void DelayFile::add(size_t location, const DelayPoint& point) {
    Chain& chain = chains_[location];
    if (point.delay == chain.last.delay) {
        chain.last = point;
        chain.held = true;
        return;
    }
    if (chain.held) append(chain, stored(chain.last));
    append(chain, stored(point));
    chain.last = point;
    chain.held = false;
}

void DelayFile::add(size_t location, const NoiseCut& cut) {
    append(chains_[location], {cut.account, Kind::cut, cut.recorded, cut.ns});
}

DelayFile::Stored DelayFile::stored(const DelayPoint& point) {
    return {point.record, point.in_call ? Kind::in_call : Kind::computing, point.ticks, point.delay};
}

void DelayFile::append(Chain& chain, const Stored& stored) {
    if (chain.points.size() == points_per_chunk) write(chain, true);
    if (chain.at < 0) {
        chain.first = chain.at = end_;
        end_ += chunk_bytes;
    }
    if (chain.points.capacity() == 0) chain.points.reserve(points_per_chunk);
    chain.points.push_back(stored);
}

void DelayFile::write(Chain& chain, bool more) {
    Header header;
    header.count = chain.points.size();
    if (more) {
        header.next = end_;
        end_ += chunk_bytes;
    }
    std::vector<char> chunk(chunk_bytes, 0);
    std::memcpy(chunk.data(), &header, sizeof header);
    std::memcpy(chunk.data() + sizeof header, chain.points.data(), chain.points.size() * sizeof(Stored));
    if (error_ == 0 && !write_all(fd_, chunk.data(), chunk_bytes, chain.at)) error_ = errno ? errno : EIO;
    chain.at = header.next;
    chain.points.clear();
}

void DelayFile::finish() {
    for (Chain& chain : chains_) {
        if (chain.at >= 0) write(chain, false);
        chain.points = {};
    }
    if (error_ != 0)
        throw InputError(fmt::format("{}: writing the temporary file failed ({}); make room there", path_, std::strerror(error_)));
}

void DelayFile::read(void* to, size_t bytes, int64_t at) const {
    if (!read_all(fd_, static_cast<char*>(to), bytes, at))
        throw InputError(fmt::format("{}: reading the temporary file back failed ({})", path_, std::strerror(errno)));
}

DelayFile::Reader::Reader(const DelayFile& file, size_t location)
    : Reader([&file](void* to, size_t bytes, int64_t at) { file.read(to, bytes, at); }, file.first(location)) {}

DelayFile::Reader::Reader(ReadAt file, int64_t first) : file_(std::move(file)), at_(first) {}

bool DelayFile::Reader::next(DelayPoint* point, std::vector<NoiseCut>* cuts) {
    for (;;) {
        Header header;
        if (!chunk_.empty()) std::memcpy(&header, chunk_.data(), sizeof header);
        if (used_ == header.count) {
            if (!chunk_.empty()) at_ = header.next;
            if (at_ < 0) return false;
            chunk_.resize(chunk_bytes);
            file_(chunk_.data(), chunk_bytes, at_);
            used_ = 0;
        }
        Stored stored;
        std::memcpy(&stored, chunk_.data() + sizeof header + used_++ * sizeof stored, sizeof stored);
        if (stored.kind() == Kind::cut) {
            cuts->push_back({stored.time, stored.delay, static_cast<uint16_t>(stored.number())});
            continue;
        }
        *point = {stored.number(), stored.time, stored.delay, stored.kind() == Kind::in_call};
        return true;
    }
}

}  // namespace polter::replay
