// SPDX-License-Identifier: BSD-3-Clause
#include "otf2.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "../conventions.hpp"
#include "workers.hpp"

namespace polter::seal {

namespace {
OTF2_FlushType flush_always(void*, OTF2_FileType, OTF2_LocationRef, void*, bool) {
    return OTF2_FLUSH;
}
// Without a post-flush callback OTF2 writes no BufferFlush records: the sealer's own flushes are no part of the program.
constexpr OTF2_FlushCallbacks flush_callbacks{flush_always, nullptr};

// A definition must fit into one chunk. OTF2 clears a chunk for each file that it writes or reads, and there is one for each rank: so the
// smallest ones (256 KiB) where they suffice.
uint64_t definition_chunk_size(uint64_t longest_definition) {
    constexpr uint64_t header = 64, unit = 4 << 20;
    const auto wanted = longest_definition + header;
    return wanted <= OTF2_CHUNK_SIZE_MIN ? OTF2_CHUNK_SIZE_MIN : std::min((wanted + unit - 1) / unit * unit, OTF2_CHUNK_SIZE_MAX);
}
}  // namespace

void check_otf2(OTF2_ErrorCode code, const std::string& what) {
    if (code != OTF2_SUCCESS) throw std::runtime_error(fmt::format("{}: {}", what, OTF2_Error_GetDescription(code)));
}

void check_whole(const std::filesystem::path& path) {
    const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    char end = 0;
    const auto size = file.size();
    if (size == 0 || read_at(file, &end, 1, size - 1) != 1 || end != trace::event_file_end)
        throw std::runtime_error(fmt::format("{} cannot be written whole; is the disk full?", path.filename().string()));
}

Archive create_archive(const std::filesystem::path& folder, uint64_t longest_definition) {
    Archive archive(OTF2_Archive_Open(folder.c_str(), trace::archive_name, OTF2_FILEMODE_WRITE, trace::event_chunk_size,
                                      definition_chunk_size(longest_definition), OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE));
    if (!archive) throw std::runtime_error(fmt::format("{}: an OTF2 archive cannot be created there", folder.string()));
    check_otf2(OTF2_Archive_SetFlushCallbacks(archive.get(), &flush_callbacks, nullptr), folder);
    check_otf2(OTF2_Archive_SetSerialCollectiveCallbacks(archive.get()), folder);
    return archive;
}

QuietOtf2::QuietOtf2() : before_(OTF2_Error_RegisterCallback(keep, this)) {}
QuietOtf2::~QuietOtf2() {
    OTF2_Error_RegisterCallback(before_, nullptr);
}

OTF2_ErrorCode QuietOtf2::keep(void* self, const char*, uint64_t, const char*, OTF2_ErrorCode code, const char* format, va_list arguments) {
    auto& first = static_cast<QuietOtf2*>(self)->first_;
    if (first.empty()) {
        char text[512];
        std::vsnprintf(text, sizeof text, format, arguments);
        first = fmt::format("{}: {}", OTF2_Error_GetDescription(code), text);
    }
    return code;
}

void frame_locations(const std::filesystem::path& folder, const std::vector<std::pair<uint64_t, const File*>>& locations) {
    namespace fs = std::filesystem;
    fs::remove_all(folder);
    fs::create_directories(folder);
    {
        auto archive = create_archive(folder);
        auto* global = OTF2_Archive_GetGlobalDefWriter(archive.get());
        OTF2_GlobalDefWriter_WriteClockProperties(global, 1'000'000'000, 0, UINT64_MAX, OTF2_UNDEFINED_TIMESTAMP);
        OTF2_GlobalDefWriter_WriteString(global, 0, "");
        OTF2_GlobalDefWriter_WriteSystemTreeNode(global, 0, 0, 0, OTF2_UNDEFINED_SYSTEM_TREE_NODE);
        OTF2_GlobalDefWriter_WriteLocationGroup(global, 0, 0, OTF2_LOCATION_GROUP_TYPE_PROCESS, 0, OTF2_UNDEFINED_LOCATION_GROUP);
        for (const auto& [location, file] : locations)
            OTF2_GlobalDefWriter_WriteLocation(global, location, 0, OTF2_LOCATION_TYPE_CPU_THREAD, 0, 0);
    }
    fs::create_directories(folder / trace::archive_name);
    for (const auto& [location, file] : locations) {
        auto link = folder / trace::archive_name / fmt::format("{}.evt", location);
        fs::remove(link);
        fs::create_symlink(fmt::format("/proc/self/fd/{}", file->fd()), link);
    }
}

bool in_child(std::chrono::seconds limit, const std::function<void()>& work) {
    const pid_t self = getpid();
    auto pid = fork();
    if (pid < 0) throw std::runtime_error(fmt::format("cannot start a process to read events: {}", std::strerror(errno)));
    if (pid == 0) {
        die_with(self);
        // The parent's handlers and dumps are not for a child that is expected to crash.
        for (int fatal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGTERM, SIGINT}) signal(fatal, SIG_DFL);
        try {
            work();
        } catch (...) {
            _exit(1);
        }
        _exit(0);
    }
    auto end = std::chrono::steady_clock::now() + limit;
    int status = 0;
    for (auto pause = std::chrono::microseconds(200);; pause = std::min(pause * 2, std::chrono::microseconds(20'000))) {
        auto done = waitpid(pid, &status, WNOHANG);
        if (done == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (done < 0 && errno != EINTR) return false;
        if (std::chrono::steady_clock::now() > end) {
            kill(pid, SIGKILL);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
            }
            return false;
        }
        std::this_thread::sleep_for(pause);
    }
}

}  // namespace polter::seal
