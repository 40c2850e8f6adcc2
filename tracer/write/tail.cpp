// SPDX-License-Identifier: BSD-3-Clause
#include "tail.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "own_part.hpp"

namespace polter::write {
namespace {

// stdio's buffer below OTF2, in chunks, and one for the rounding on either side.
constexpr unsigned flushed_slots = (4u << 20) / trace::event_chunk_size + 2;

// Of the page cache, where file system and kernel have them: touched one small page at a time, new memory would cost more than the events
// that go there. To zero a huge page may take milliseconds, though, which each thread of a node would spend at its start: so header and
// first chunk are small pages, touched when events get there, and only what writes more has huge ones.
constexpr size_t huge_page = 2u << 20;
constexpr unsigned first_huge_slot = (huge_page - trace::tail_header_size + trace::event_chunk_size - 1) / trace::event_chunk_size;
static_assert(first_huge_slot < flushed_slots);  // each tail has such slots

template <typename T>
void store(T& where, T value) {
    std::atomic_ref<T>(where).store(value, std::memory_order_release);
}

}  // namespace

bool Tail::open(const std::string& path, const std::string& event_file, unsigned live, std::string& error) {
    const OwnPart own_part;
    path_ = path;
    event_file_ = event_file;
    most_live_ = live;
    slots_ = live + flushed_slots;
    const size_t size = (trace::tail_header_size + slots_ * trace::event_chunk_size + huge_page - 1) / huge_page * huge_page;
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) {
        error = path + ": " + std::strerror(errno);
        return false;
    }
    const int failure = posix_fallocate(file, 0, static_cast<off_t>(size));
    void* memory = failure ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        error = path + ": " + std::strerror(failure ? failure : errno) + " (needs " + std::to_string(size >> 20) + " MiB for each thread)";
        ::close(file);
        ::unlink(path.c_str());
        return false;
    }
    ::close(file);
    const int error_before = errno;
    auto* const bytes = static_cast<char*>(memory);  // both are wishes
    madvise(bytes, huge_page, MADV_RANDOM);          // else the first touch reads ahead, which zeroes as much
    madvise(bytes + huge_page, size - huge_page, MADV_HUGEPAGE);
    errno = error_before;
    used_.assign(slots_, false);
    size_ = size;
    header_ = static_cast<trace::TailHeader*>(memory);
    header_->chunk_size = trace::event_chunk_size;
    store(header_->magic, trace::tail_magic);
    return true;
}

// Drops what is in the event file. order[] is shifted such that at any instant it names every chunk that is not; one named twice
// meanwhile is told by its event number.
void Tail::reclaim() {
    struct stat file;
    const uint64_t on_disk = stat(event_file_.c_str(), &file) == 0 ? static_cast<uint64_t>(file.st_size) / trace::event_chunk_size : 0;
    const auto in_use = static_cast<unsigned>(header_->chunks_in_use);
    unsigned drop = on_disk > first_ ? static_cast<unsigned>(std::min<uint64_t>(on_disk - first_, in_use - live_)) : 0;
    // Everything is taken, so the buffer below OTF2 is larger than known: rather lose a chunk if the process is killed than the trace.
    if (drop == 0 && in_use == slots_ && in_use > live_) drop = 1;
    if (drop == 0) return;
    for (unsigned i = 0; i + drop < in_use; i++) store(header_->order[i], header_->order[i + drop]);
    store(header_->chunks_in_use, uint64_t{in_use - drop});
    first_ += drop;
}

// One that order[] does not name: the first, then those in huge pages.
unsigned Tail::free_slot() const {
    const auto in_use = static_cast<unsigned>(header_->chunks_in_use);
    const auto* const order = header_->order;
    const auto named = [&](unsigned slot) { return std::find(order, order + in_use, slot) != order + in_use; };
    unsigned slot = in_use == 0 ? 0 : first_huge_slot;
    while (named(slot)) slot = (slot + 1) % slots_;
    return slot;
}

void* Tail::take() {
    if (live_ == most_live_) return nullptr;
    reclaim();
    const auto in_use = static_cast<unsigned>(header_->chunks_in_use);
    const unsigned slot = free_slot();
    char* chunk = reinterpret_cast<char*>(header_) + trace::tail_header_size + slot * trace::event_chunk_size;
    if (used_[slot]) std::memset(chunk, 0, trace::event_chunk_size);  // a new file is zero
    used_[slot] = true;
    store(header_->order[in_use], slot);
    store(header_->chunks_in_use, uint64_t{in_use + 1});
    live_++;
    return chunk;
}

void Tail::flushed() {
    live_ = 0;
}

void Tail::sync() {
    const OwnPart own_part;
    if (header_) msync(header_, size_, MS_SYNC);
}

void Tail::remove() {
    ::unlink(path_.c_str());
}

}  // namespace polter::write
