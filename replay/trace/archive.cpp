// SPDX-License-Identifier: BSD-3-Clause
#include "archive.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <filesystem>

#include "conventions.hpp"
#include "definitions_reader.hpp"
#include "otf2_watchdog.hpp"
#include "replay/base/error.hpp"

namespace polter::replay {

namespace {

thread_local std::string otf2_error;

// OTF2 prints to standard error; its message belongs into our own error message.
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

// OTF2 would block on a pipe and read a device without end. Missing files it reports itself.
void require_file(const std::filesystem::path& path) {
    std::error_code error;
    if (const auto kind = std::filesystem::status(path, error).type();
        !error && kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found)
        throw InputError(fmt::format("{}: not a regular file; is this an archive that was copied whole?", path.string()));
}

// Beside `traces.otf2` lie `traces.def` and the folder `traces`.
std::string beside(const std::string& anchor, const std::string& ending) {
    return std::filesystem::path(anchor).replace_extension().string() + ending;
}

// OTF2 keeps a file open for each location, for some more than one.
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
    require_file(anchor_);
    require_file(beside(anchor_, ".def"));
    if (watch) watch_path(watch->anchor, anchor_);
    {
        const InOtf2 inside(Reading::anchor);
        reader_ = OTF2_Reader_Open(anchor_.c_str());
    }
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
    close_events();
    OTF2_Reader_Close(reader_);
}

void Archive::close_events() {
    for (OTF2_EvtReader* events : events_)
        if (events) OTF2_Reader_CloseEvtReader(reader_, events);
    if (!events_.empty()) OTF2_Reader_CloseEvtFiles(reader_);
    events_.clear();
}

std::string Archive::last_error() const {
    return otf2_error.empty() ? "no reason given" : otf2_error;
}

// For a single process: opens all locations, and judges the outcome.
void Archive::open_events(const OTF2_EvtReaderCallbacks* callbacks, const std::vector<void*>& user_data, std::vector<Warning>& warnings) {
    judge(open_events(callbacks, user_data, std::vector<bool>(definitions_.locations.size(), true)), warnings);
}

Archive::Opened Archive::open_events(const OTF2_EvtReaderCallbacks* callbacks, const std::vector<void*>& user_data,
                                     const std::vector<bool>& own) {
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < own.size(); ++i)
        if (own[i]) ids.push_back(definitions_.locations[i].id);
    Opened opened;
    if (ids.empty()) return opened;
    events_.assign(definitions_.locations.size(), nullptr);
    opened.damaged = read_mappings(reader_, anchor_, ids);
    if (opened.damaged > 0) opened.damage = last_error();
    if (OTF2_Reader_OpenEvtFiles(reader_) != OTF2_SUCCESS)
        throw InputError(fmt::format("{}: its event files cannot be opened ({})", anchor_, last_error()));
    for (size_t i = 0; i < own.size(); ++i) {
        if (!own[i]) continue;
        const Location& location = definitions_.locations[i];
        require_file(beside(anchor_, fmt::format("/{}.evt", location.id)));
        const InOtf2 inside(Reading::events, location.id);
        events_[i] = OTF2_Reader_GetEvtReader(reader_, location.id);
        if (!events_[i] || OTF2_Reader_RegisterEvtCallbacks(reader_, events_[i], callbacks, user_data[i]) != OTF2_SUCCESS) {
            if (opened.failed++ > 0) continue;
            opened.first_failure = i;
            opened.why = fmt::format("location {} ({})", location.id, last_error());
            continue;
        }
        ++opened.files;
    }
    return opened;
}

void Archive::judge(const Opened& opened, std::vector<Warning>& warnings) const {
    if (opened.damaged > 0) warnings.push_back(warning(Flaw::damaged_definitions, opened.damaged, opened.damage));
    if (opened.files == 0) throw InputError(fmt::format("{}: not one event file can be read: {}", anchor_, opened.why));
    if (opened.failed > 0) warnings.push_back(warning(Flaw::unreadable_events, opened.failed, opened.why));
}

Archive::Progress Archive::read(size_t location, uint64_t* events, uint64_t batch) {
    if (!events_[location]) return Progress::ended;
    uint64_t read = 0;
    const InOtf2 inside(Reading::events, definitions_.locations[location].id);
    const OTF2_ErrorCode code = OTF2_Reader_ReadLocalEvents(reader_, events_[location], batch, &read);
    *events += read;
    if (code == OTF2_ERROR_INTERRUPTED_BY_CALLBACK) return Progress::interrupted;
    return code == OTF2_SUCCESS && read == batch ? Progress::more : Progress::ended;
}

void Archive::skip(size_t location, uint64_t records) {
    constexpr uint64_t batch = 1u << 16;
    if (!events_[location]) return;
    for (uint64_t read = 0; records > 0; records -= read) {
        const InOtf2 inside(Reading::events, definitions_.locations[location].id);
        if (OTF2_Reader_ReadLocalEvents(reader_, events_[location], std::min(records, batch), &read) != OTF2_SUCCESS || read == 0) return;
    }
}

uint64_t Archive::event_file_bytes(size_t location) const {
    return replay::event_file_bytes(anchor_, definitions_.locations[location].id);
}

namespace {

uint64_t bytes_of(const std::string& anchor, const std::string& ending) {
    namespace fs = std::filesystem;
    std::error_code error;
    const auto size = fs::file_size(beside(anchor, ending), error);
    return error ? 0 : size;
}

// No record is shorter than a byte: with more records, the reader is looping in a damaged file.
uint64_t most_records(uint64_t bytes) {
    return bytes > 0 ? bytes : OTF2_UNDEFINED_UINT64;
}

}  // namespace

uint64_t event_file_bytes(const std::string& anchor, uint64_t location) {
    return bytes_of(anchor, fmt::format("/{}.evt", location));
}

uint64_t event_bytes(const std::string& trace) {
    namespace fs = std::filesystem;
    uint64_t sum = 0;
    std::error_code error;
    for (auto file = fs::directory_iterator(beside(find_anchor(trace), ""), error); !error && file != fs::directory_iterator();
         file.increment(error)) {
        std::error_code unknown;
        if (const auto size = file->path().extension() == ".evt" ? file->file_size(unknown) : 0; !unknown) sum += size;
    }
    return sum;
}

OTF2_ErrorCode read_global_definitions(OTF2_Reader* reader, OTF2_GlobalDefReader* definitions, const std::string& anchor, uint64_t* read) {
    const InOtf2 inside(Reading::definitions);
    return OTF2_Reader_ReadGlobalDefinitions(reader, definitions, most_records(bytes_of(anchor, ".def")), read);
}

size_t read_mappings(OTF2_Reader* reader, const std::string& anchor, const std::vector<uint64_t>& locations) {
    size_t damaged = 0;
    for (const uint64_t id : locations) OTF2_Reader_SelectLocation(reader, id);
    if (OTF2_Reader_OpenDefFiles(reader) != OTF2_SUCCESS) return 0;
    for (const uint64_t id : locations) {
        require_file(beside(anchor, fmt::format("/{}.def", id)));
        const InOtf2 inside(Reading::mappings, id);
        const uint64_t bytes = bytes_of(anchor, fmt::format("/{}.def", id));
        OTF2_DefReader* local = OTF2_Reader_GetDefReader(reader, id);
        if (!local) {  // a location without local definitions has no mapping
            damaged += bytes > 0;
            continue;
        }
        uint64_t read = 0;
        damaged += OTF2_Reader_ReadLocalDefinitions(reader, local, most_records(bytes), &read) != OTF2_SUCCESS;
        OTF2_Reader_CloseDefReader(reader, local);
    }
    OTF2_Reader_CloseDefFiles(reader);
    return damaged;
}

}  // namespace polter::replay
