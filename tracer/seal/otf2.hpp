// SPDX-License-Identifier: BSD-3-Clause
// OTF2 handles that close themselves, and errors that reach us instead of standard error.
#pragma once

#include <otf2/otf2.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folder.hpp"

namespace polter::seal {

struct CloseArchive {
    void operator()(OTF2_Archive* archive) const { OTF2_Archive_Close(archive); }
};
struct CloseReader {
    void operator()(OTF2_Reader* reader) const { OTF2_Reader_Close(reader); }
};
using Archive = std::unique_ptr<OTF2_Archive, CloseArchive>;
using Reader = std::unique_ptr<OTF2_Reader, CloseReader>;

// Opens `folder`/traces.otf2 for writing by this process alone, with definitions up to that many bytes long. Throws std::runtime_error with
// OTF2's reason.
Archive create_archive(const std::filesystem::path& folder, uint64_t longest_definition = 0);

// While one exists, OTF2's messages are kept (the first one) and not printed. Not nested, one thread.
class QuietOtf2 {
  public:
    QuietOtf2();
    ~QuietOtf2();
    QuietOtf2(const QuietOtf2&) = delete;
    QuietOtf2& operator=(const QuietOtf2&) = delete;
    const std::string& first_error() const { return first_; }

  private:
    static OTF2_ErrorCode keep(void* self, const char* file, uint64_t line, const char* function, OTF2_ErrorCode code, const char* format,
                               va_list arguments);
    std::string first_;
    OTF2_ErrorCallback before_;
};

// An archive of these locations around their event files, for the reader will open nothing less. It is to be read by this process or its
// children.
void frame_locations(const std::filesystem::path& folder, const std::vector<std::pair<uint64_t, const File*>>& locations);

// OTF2's reader may loop for ever or crash on damaged files: a child process uses it. True if it did the work to its end in time; an
// exception of the work is none.
bool in_child(std::chrono::seconds limit, const std::function<void()>& work);

// OTF2 does not say that the last bytes of a file could not be written (a full disk, a limit of file sizes). Throws std::runtime_error
// unless the file of events or definitions ends as a whole one does.
void check_whole(const std::filesystem::path& file);

// Throws std::runtime_error naming `what` unless `code` is success.
void check_otf2(OTF2_ErrorCode code, const std::string& what);

}  // namespace polter::seal
