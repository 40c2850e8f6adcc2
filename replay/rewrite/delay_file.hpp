// SPDX-License-Identifier: BSD-3-Clause
// The delays of a replay, spilled to a file: written in the order of the replay, read location by location. So memory is bounded by the
// number of locations.
//
// The points of a location form a chain of chunks; each chunk has the position of the next. A point is stored only where the delay changes,
// with the point before the change: between two stored points that are not neighbours, the delay is constant.
//
// Between the points stand the cuts (rewrite/remaining_noise.hpp) of records after the previous point, at the latest before the next one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "remaining_noise.hpp"
#include "replay/base/file_bytes.hpp"

namespace polter::replay {

struct DelayPoint {
    uint64_t record = 0;   // 1-based index of the location's record; 0: a time between two records
    int64_t ticks = 0;     // measured, since the global offset
    int64_t delay = 0;     // ticks
    bool in_call = false;  // an MPI call is open from here to the next point
};

class DelayFile {
  public:
    // Creates a file whose name begins with `path`, and unlinks it at once, so that it vanishes with the process. Throws InputError.
    DelayFile(const std::string& path, size_t locations);
    ~DelayFile();
    DelayFile(const DelayFile&) = delete;
    DelayFile& operator=(const DelayFile&) = delete;

    // In the order of the location's records. Errors are kept for finish(): callbacks of a C library must not throw.
    void add(size_t location, const DelayPoint&);
    void add(size_t location, const NoiseCut&);
    void finish();  // after the last add(); throws InputError

    // The position of the location's first chunk, for a reader in another process; −1: no points.
    int64_t first(size_t location) const { return chains_[location].first; }
    void read(void* to, size_t bytes, int64_t at) const;  // throws InputError

    class Reader {
      public:
        Reader(const DelayFile& file, size_t location);
        Reader(ReadAt file, int64_t first);
        // Appends the cuts before the point. False: no more points. Throws InputError.
        bool next(DelayPoint* point, std::vector<NoiseCut>* cuts);

      private:
        ReadAt file_;
        int64_t at_;
        size_t used_ = 0;
        std::vector<char> chunk_;
    };

    static constexpr size_t points_per_chunk = 340;  // 8 KiB

  private:
    enum class Kind : uint8_t { computing, in_call, cut };
    struct Stored {
        uint64_t number_and_kind;  // number: of the record, or the account of a cut
        int64_t time, delay;       // of a cut: time of its noise record, ns

        Stored() = default;
        Stored(uint64_t number, Kind kind, int64_t at, int64_t by)
            : number_and_kind(number << 2 | static_cast<uint64_t>(kind)), time(at), delay(by) {}
        uint64_t number() const { return number_and_kind >> 2; }
        Kind kind() const { return static_cast<Kind>(number_and_kind & 3); }
    };
    struct Header {
        int64_t next = -1;  // position of the next chunk; −1: none
        uint64_t count = 0;
    };
    static constexpr size_t chunk_bytes = sizeof(Header) + points_per_chunk * sizeof(Stored);
    struct Chain {
        int64_t first = -1, at = -1;  // positions of the first chunk, and of the one being filled
        std::vector<Stored> points;
        DelayPoint last;
        bool held = false;  // `last` is not stored yet, as the delay has not changed
    };
    static Stored stored(const DelayPoint&);
    void append(Chain& chain, const Stored&);
    void write(Chain& chain, bool more);

    std::string path_;
    int fd_ = -1, error_ = 0;
    int64_t end_ = 0;
    std::vector<Chain> chains_;
};

}  // namespace polter::replay
