// SPDX-License-Identifier: BSD-3-Clause
// An OTF2 archive as files in memory, and damage done to them by somebody who knows the format.
//
// The format, as far as damage needs it (OTF2 3.0's buffers): a chunk opens with a token, the byte order and the numbers of its first and
// last record, 18 bytes; then records: 05 and eight bytes is a timestamp for what follows, 01 ends the file, 02 the chunk, anything
// else is a kind, a length (a byte, or ff and eight), and so many bytes. Integers inside are a count of bytes and the bytes.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

namespace polter::test {

using Random = std::mt19937_64;

inline size_t below(Random& random, size_t n) {
    return n == 0 ? 0 : static_cast<size_t>(random() % n);
}

struct ArchiveBytes {
    std::map<std::string, std::string> files;  // by path below the archive's directory
};

ArchiveBytes read_archive_bytes(const std::string& directory);
void write_archive_bytes(const ArchiveBytes&, const std::string& directory);  // which is replaced

// Where the records of a file of events or definitions begin; timestamps are records. Empty where the file is no such thing.
std::vector<size_t> record_starts(const std::string& bytes);

// One piece of damage by somebody who knows nothing; returns what was done. One of the kind above, appended to `told`.
std::string damage_bytes(std::string& bytes, Random&);
void damage(ArchiveBytes&, Random&, std::string& told);

}  // namespace polter::test
