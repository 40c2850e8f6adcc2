// SPDX-License-Identifier: BSD-3-Clause
#include "snapshot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "../conventions.hpp"
#include "chunks.hpp"
#include "folder.hpp"

namespace polter::seal {
namespace fs = std::filesystem;

namespace {

void write_all(const File& to, const char* from, size_t size, const fs::path& path) {
    while (size > 0) {
        const ssize_t wrote = ::write(to.fd(), from, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) throw Error(fmt::format("{}: cannot be written: {}; is the disk full?", path.string(), std::strerror(errno)));
        from += wrote, size -= static_cast<size_t>(wrote);
    }
}

File open_to_read(const fs::path& path) {
    return File(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

void copy_to(const fs::path& from, const fs::path& to) {
    const File in = open_to_read(from);
    if (!in) return;  // gone, as the job ends
    const File out(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    std::vector<char> buffer(1u << 20);
    uint64_t at = 0;
    for (size_t got = 0; (got = read_at(in, buffer.data(), buffer.size(), at)) > 0; at += got) write_all(out, buffer.data(), got, to);
}

// Chunks leave the tail for the event file, so the tails are copied first. Events name definitions, so the sidecars come last.
void copy_ranks(const fs::path& from, const fs::path& to, const SnapshotFaults& faults) {
    std::vector<fs::path> tails, events, sidecars;
    std::error_code error;
    fs::create_directories(to, error);
    for (fs::recursive_directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
        const fs::path name = at->path().lexically_relative(from);
        if (at->is_symlink(error)) continue;
        if (at->is_directory(error))
            fs::create_directories(to / name, error);
        else if (at->is_regular_file(error))
            (name.extension() == ".tail" ? tails : name.extension() == ".jsonl" ? sidecars : events).push_back(name);
        error.clear();
    }
    const auto copy_tails = [&] {
        for (const fs::path& name : tails)
            if (const File tail = open_to_read(from / name)) copy_live_tail(tail, to / name);
    };
    if (!faults.events_first) copy_tails();
    if (faults.between && !faults.events_first) faults.between();
    for (const fs::path& name : events) copy_to(from / name, to / name);
    if (faults.between && faults.events_first) faults.between();
    if (faults.events_first) copy_tails();
    for (const fs::path& name : sidecars) copy_to(from / name, to / name);
}

// Rank folders are called <host>.<pid>.
bool all_here(const fs::path& ranks) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0) return false;
    std::error_code error;
    for (fs::directory_iterator at(ranks, error), end; !error && at != end; at.increment(error))
        if (at->path().stem() != host) return false;
    return !error;
}

}  // namespace

std::optional<Snapshot> take_snapshot(const fs::path& experiment, const fs::path& folder, const SnapshotFaults& faults) {
    struct stat about;
    if (stat(experiment.c_str(), &about) != 0)
        throw Error(fmt::format("{}: cannot be read: {}; give the directory of a running job", experiment.string(), std::strerror(errno)));
    if (about.st_uid != geteuid())
        throw Error(fmt::format("{}: belongs to another user; a running job is followed by the user who runs it", experiment.string()));
    const fs::path ranks = experiment / trace::ranks_folder;
    Snapshot snapshot;
    if (all_here(ranks)) {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        snapshot.taken_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
    }
    try {
        copy_ranks(ranks, folder / trace::ranks_folder, faults);
        copy_to(experiment / trace::provenance_name, folder / trace::provenance_name);
        snapshot.report = seal({folder, "", 0, Foreign::own_rights, false, 1});
    } catch (const NoRanks&) {
        return {};
    } catch (const Error&) {
        throw;
    } catch (const std::runtime_error& error) {
        throw Error(error.what());
    }
    return snapshot;
}

}  // namespace polter::seal
