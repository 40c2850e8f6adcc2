// SPDX-License-Identifier: BSD-3-Clause
#include "archive.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>

#include "definitions_read.hpp"
#include "names.hpp"
#include "replay.hpp"

namespace polter::replay {

namespace {

thread_local std::string otf2_error;

// OTF2 prints to standard error; what it has to say belongs into our one line.
OTF2_ErrorCode keep_error(void*, const char*, uint64_t, const char*, OTF2_ErrorCode code, const char* format, va_list arguments) {
    char text[256] = "";
    if (format) std::vsnprintf(text, sizeof text, format, arguments);
    otf2_error = fmt::format("{}{}{}", OTF2_Error_GetDescription(code), *text ? ": " : "", text);
    return code;
}

std::string find_anchor(const std::string& trace) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (!fs::exists(trace, error)) throw InputError(fmt::format("{}: no such trace; give an experiment directory or an .otf2 file", trace));
    if (!fs::is_directory(trace, error)) return trace;
    const fs::path anchor = fs::path(trace) / names::anchor;
    if (fs::exists(anchor, error)) return anchor.string();
    if (fs::exists(fs::path(trace) / "ranks", error))
        throw InputError(
            fmt::format("{}: the run was never sealed (no {}); its `polter run` was killed or still runs", trace, names::anchor));
    throw InputError(fmt::format("{}: holds no {}; give the directory that `polter run` printed, or an .otf2 file", trace, names::anchor));
}

// An open file for each location, and more than one for some.
void raise_file_limit(size_t locations) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t wanted = locations + 256;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= wanted ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Archive::Archive(const std::string& trace) : anchor_(find_anchor(trace)) {
    OTF2_Error_RegisterCallback(keep_error, nullptr);
    otf2_error.clear();
    reader_ = OTF2_Reader_Open(anchor_.c_str());
    if (!reader_) throw InputError(fmt::format("{}: not a readable OTF2 archive ({})", anchor_, last_error()));
    try {
        if (OTF2_Reader_SetSerialCollectiveCallbacks(reader_) != OTF2_SUCCESS)
            throw InputError(fmt::format("{}: OTF2 refuses to read it ({})", anchor_, last_error()));
        definitions_ = read_definitions(reader_, anchor_);
    } catch (...) {
        OTF2_Reader_Close(reader_);
        throw;
    }
    raise_file_limit(definitions_.locations.size());
}

Archive::~Archive() {
    for (OTF2_EvtReader* events : events_)
        if (events) OTF2_Reader_CloseEvtReader(reader_, events);
    if (!events_.empty()) OTF2_Reader_CloseEvtFiles(reader_);
    OTF2_Reader_Close(reader_);
}

std::string Archive::last_error() const {
    return otf2_error.empty() ? "no reason given" : otf2_error;
}

void Archive::open_events(const OTF2_EvtReaderCallbacks* callbacks, const std::vector<void*>& user_data,
                          std::vector<std::string>& warnings) {
    const auto& locations = definitions_.locations;
    for (const Location& location : locations) OTF2_Reader_SelectLocation(reader_, location.id);
    if (OTF2_Reader_OpenDefFiles(reader_) == OTF2_SUCCESS) {
        for (const Location& location : locations) {
            OTF2_DefReader* local = OTF2_Reader_GetDefReader(reader_, location.id);
            if (!local) continue;  // a location without local definitions has no mapping
            uint64_t read = 0;
            OTF2_Reader_ReadAllLocalDefinitions(reader_, local, &read);
            OTF2_Reader_CloseDefReader(reader_, local);
        }
        OTF2_Reader_CloseDefFiles(reader_);
    }
    if (OTF2_Reader_OpenEvtFiles(reader_) != OTF2_SUCCESS)
        throw InputError(fmt::format("{}: its event files cannot be opened ({})", anchor_, last_error()));
    events_.assign(locations.size(), nullptr);
    size_t opened = 0, failed = 0;
    std::string first_failure;
    for (size_t i = 0; i < locations.size(); ++i) {
        events_[i] = OTF2_Reader_GetEvtReader(reader_, locations[i].id);
        if (!events_[i] || OTF2_Reader_RegisterEvtCallbacks(reader_, events_[i], callbacks, user_data[i]) != OTF2_SUCCESS) {
            if (failed++ == 0) first_failure = fmt::format("location {} ({})", locations[i].id, last_error());
            continue;
        }
        ++opened;
    }
    if (opened == 0) throw InputError(fmt::format("{}: not one event file can be read: {}", anchor_, first_failure));
    if (failed > 0) warnings.push_back(fmt::format("{} event files cannot be read, the first of {}: read as empty", failed, first_failure));
}

Archive::Progress Archive::read(size_t location, uint64_t* events) {
    constexpr uint64_t batch = 1u << 16;
    if (!events_[location]) return Progress::ended;
    uint64_t read = 0;
    const OTF2_ErrorCode code = OTF2_Reader_ReadLocalEvents(reader_, events_[location], batch, &read);
    *events += read;
    if (code == OTF2_ERROR_INTERRUPTED_BY_CALLBACK) return Progress::interrupted;
    return code == OTF2_SUCCESS && read == batch ? Progress::more : Progress::ended;
}

uint64_t Archive::event_file_bytes(size_t location) const {
    namespace fs = std::filesystem;
    const fs::path anchor(anchor_);
    std::error_code error;
    const auto size =
        fs::file_size(anchor.parent_path() / anchor.stem() / fmt::format("{}.evt", definitions_.locations[location].id), error);
    return error ? 0 : size;
}

}  // namespace polter::replay
