// SPDX-License-Identifier: BSD-3-Clause
#include "archive_bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace polter::test {

namespace fs = std::filesystem;

ArchiveBytes read_archive_bytes(const std::string& directory) {
    ArchiveBytes archive;
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
        if (!entry.is_regular_file()) continue;
        std::ifstream in(entry.path(), std::ios::binary);
        archive.files[fs::relative(entry.path(), directory).string()] = std::string(std::istreambuf_iterator<char>(in), {});
    }
    return archive;
}

void write_archive_bytes(const ArchiveBytes& archive, const std::string& directory) {
    fs::remove_all(directory);
    for (const auto& [name, bytes] : archive.files) {
        const fs::path path = fs::path(directory) / name;
        fs::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
}

namespace {

constexpr size_t chunk_header = 18;
constexpr unsigned char file_end = 1, chunk_end = 2, chunk_begin = 3, timestamp = 5;

unsigned char byte_at(const std::string& bytes, size_t at) {
    return static_cast<unsigned char>(bytes[at]);
}

}  // namespace

std::vector<size_t> record_starts(const std::string& bytes) {
    std::vector<size_t> starts;
    if (bytes.size() < chunk_header || byte_at(bytes, 0) != chunk_begin) return starts;
    for (size_t at = chunk_header; at < bytes.size();) {
        const unsigned char kind = byte_at(bytes, at);
        if (kind == file_end || kind == chunk_end) break;  // what lies in further chunks is damaged by offset alone
        starts.push_back(at);
        if (kind == timestamp) {
            at += 9;
        } else {
            if (at + 1 >= bytes.size()) break;
            uint64_t length = byte_at(bytes, at + 1);
            size_t head = 2;
            if (length == 0xff && at + 10 <= bytes.size()) {
                std::memcpy(&length, bytes.data() + at + 2, 8);
                head = 10;
            }
            if (length > bytes.size() - at) break;
            at += head + length;
        }
    }
    return starts;
}

namespace {

constexpr uint64_t edges[] = {0,
                              1,
                              2,
                              0x7f,
                              0x80,
                              0xff,
                              0x7fff,
                              0xffff,
                              0x7fffffff,
                              0x80000000,
                              0xfffffffe,
                              0xffffffff,
                              0x7fffffffffffffff,
                              0x8000000000000000,
                              0xfffffffffffffffe,
                              0xffffffffffffffff};

std::string bytes_of(uint64_t value, size_t width) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &value, 8);
    return text.substr(0, width);
}

size_t end_of(const std::vector<size_t>& starts, size_t i, const std::string& bytes) {
    return i + 1 < starts.size() ? starts[i + 1] : bytes.size();
}

std::string flip(std::string& bytes, Random& random) {
    const size_t times = 1 + below(random, 4);
    for (size_t k = 0; k < times; ++k) bytes[below(random, bytes.size())] ^= static_cast<char>(1u << below(random, 8));
    return fmt::format("{} bits flipped", times);
}

std::string overwrite(std::string& bytes, Random& random) {
    const size_t width = size_t{1} << below(random, 4), at = below(random, bytes.size());
    const std::string value = bytes_of(edges[below(random, std::size(edges))], width);
    for (size_t i = 0; i < width && at + i < bytes.size(); ++i) bytes[at + i] = value[i];
    return fmt::format("{} bytes at {} overwritten", width, at);
}

std::string cut(std::string& bytes, Random& random) {
    bytes.resize(below(random, bytes.size()));
    return fmt::format("cut to {} bytes", bytes.size());
}

std::string lengthen(std::string& bytes, Random& random) {
    const size_t more = 1 + below(random, 4096);
    const bool zero = random() % 2;
    for (size_t i = 0; i < more; ++i) bytes.push_back(zero ? '\0' : static_cast<char>(random()));
    return fmt::format("{} bytes appended", more);
}

// A stretch once more, elsewhere: a chunk written twice, a block of a disk in the wrong place.
std::string repeat(std::string& bytes, Random& random) {
    const bool all = random() % 4 == 0;
    const size_t from = all ? 0 : below(random, bytes.size()), length = all ? bytes.size() : 1 + below(random, bytes.size() - from);
    const std::string stretch = bytes.substr(from, length);
    const size_t to = all ? bytes.size() : below(random, bytes.size() + 1);
    bytes.insert(to, stretch);
    return fmt::format("{} bytes of {} repeated at {}", length, from, to);
}

std::string drop(std::string& bytes, Random& random) {
    const size_t from = below(random, bytes.size()), length = 1 + below(random, std::min<size_t>(64, bytes.size() - from));
    bytes.erase(from, length);
    return fmt::format("{} bytes at {} dropped", length, from);
}

std::string one_record(std::string& bytes, Random& random) {
    const auto starts = record_starts(bytes);
    if (starts.empty()) return flip(bytes, random);
    const size_t i = below(random, starts.size()), j = below(random, starts.size());
    const size_t begin = starts[i], end = end_of(starts, i, bytes), other = starts[j], other_end = end_of(starts, j, bytes);
    const bool is_time = byte_at(bytes, begin) == timestamp;
    switch (below(random, 8)) {
        case 0:  // another kind: one that there is, or any
            bytes[begin] = random() % 2 ? bytes[other] : static_cast<char>(random());
            return fmt::format("record {} has kind {}", i, byte_at(bytes, begin));
        case 1: {  // its length lies
            if (is_time || begin + 1 >= bytes.size()) return flip(bytes, random);
            if (random() % 2) {
                bytes[begin + 1] = static_cast<char>(random() % 2 ? byte_at(bytes, begin + 1) + 1 - 2 * (random() % 2) : random());
                return fmt::format("record {} has length {}", i, byte_at(bytes, begin + 1));
            }
            bytes.replace(begin + 1, 1, "\xff" + bytes_of(edges[below(random, std::size(edges))], 8));
            return fmt::format("record {} has a long length", i);
        }
        case 2:
            bytes.erase(begin, end - begin);
            return fmt::format("record {} is gone", i);
        case 3: {
            const std::string record = bytes.substr(begin, end - begin);
            const size_t times = 1 + below(random, 3);
            for (size_t k = 0; k < times; ++k) bytes.insert(other, record);
            return fmt::format("record {} {} times more before record {}", i, times, j);
        }
        case 4: {
            if (i == j) return flip(bytes, random);
            const size_t a = std::min(begin, other), a_end = a == begin ? end : other_end, b = std::max(begin, other),
                         b_end = b == begin ? end : other_end;
            const std::string first = bytes.substr(a, a_end - a), second = bytes.substr(b, b_end - b);
            bytes.replace(b, b_end - b, first);
            bytes.replace(a, a_end - a, second);
            return fmt::format("records {} and {} exchanged", i, j);
        }
        case 5: {  // a number inside
            if (end - begin < 3) return flip(bytes, random);
            const size_t at = begin + 2 + below(random, end - begin - 2);
            bytes[at] = static_cast<char>(edges[below(random, 6)]);
            return fmt::format("byte {} of record {} is {}", at - begin, i, byte_at(bytes, at));
        }
        case 6: {  // a number's width: all that follows is read askew
            if (end - begin < 3) return flip(bytes, random);
            bytes[begin + 2] = static_cast<char>(random() % 16);
            return fmt::format("record {} begins with width {}", i, byte_at(bytes, begin + 2));
        }
        default: {  // time: backward, nothing, the end of all times
            std::vector<size_t> times;
            for (const size_t at : starts)
                if (byte_at(bytes, at) == timestamp && at + 9 <= bytes.size()) times.push_back(at + 1);
            if (times.empty()) return flip(bytes, random);
            const size_t at = times[below(random, times.size())], from = times[below(random, times.size())];
            uint64_t value = edges[below(random, std::size(edges))];
            if (random() % 2) std::memcpy(&value, bytes.data() + from, 8);
            if (random() % 4 == 0) value += random() % 1'000'000'000'000;
            std::memcpy(bytes.data() + at, &value, 8);
            return fmt::format("the timestamp at {} is {}", at, value);
        }
    }
}

std::string whole_file(ArchiveBytes& archive, const std::string& name, Random& random) {
    auto other = archive.files.begin();
    std::advance(other, static_cast<std::ptrdiff_t>(below(random, archive.files.size())));
    if (random() % 3 == 0) {
        archive.files.erase(name);
        return "is gone";
    }
    if (random() % 2) {
        std::swap(archive.files[name], other->second);
        return "exchanged with " + other->first;
    }
    archive.files[name] = other->second;
    return "is " + other->first;
}

}  // namespace

std::string damage_bytes(std::string& bytes, Random& random) {
    if (bytes.empty()) return lengthen(bytes, random);
    switch (below(random, 8)) {
        case 0:
            return cut(bytes, random);
        case 1:
            return lengthen(bytes, random);
        case 2:
            return drop(bytes, random);
        case 3:
            return repeat(bytes, random);
        case 4:
        case 5:
            return overwrite(bytes, random);
        default:
            return flip(bytes, random);
    }
}

void damage(ArchiveBytes& archive, Random& random, std::string& told) {
    if (archive.files.empty()) return;
    auto victim = archive.files.begin();
    std::advance(victim, static_cast<std::ptrdiff_t>(below(random, archive.files.size())));
    const std::string name = victim->first;
    std::string& bytes = victim->second;
    std::string what;
    const size_t draw = below(random, 16);
    if (draw < 8 && !bytes.empty())
        what = one_record(bytes, random);
    else if (draw < 15)
        what = damage_bytes(bytes, random);
    else
        what = whole_file(archive, name, random);
    told += fmt::format("{}{}: {}", told.empty() ? "" : "; ", name, what);
}

}  // namespace polter::test
