// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "replay/base/file_bytes.hpp"

namespace polter::report {

namespace {

std::string gzipped(const std::string& text) {
    constexpr int window_of_gzip = 15 + 16, memory = 9;
    z_stream stream{};
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, window_of_gzip, memory, Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::runtime_error("report: zlib cannot begin to compress");
    std::string out(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // zlib does not write to it
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int end = deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    if (end != Z_STREAM_END) throw std::runtime_error("report: zlib did not compress all of the data");
    return out;
}

std::string base64(const std::string& bytes) {
    constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t three = 0;
        for (size_t j = 0; j < 3; ++j) three = three << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
        for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? digits[three >> (18 - 6 * j) & 63] : '=';
    }
    return out;
}

[[noreturn]] void fail(const std::string& file) {
    throw std::runtime_error(fmt::format("{}: the report cannot be written ({}); give another place with -o", file, std::strerror(errno)));
}

}  // namespace

void check_built() {
    if (page().empty())
        throw std::runtime_error(
            "report: this polter was built without the page, as node or npm was missing; run scripts/setup and scripts/build, or see "
            "polter replay --json");
}

std::string render(const nlohmann::json& data) {
    check_built();
    constexpr std::string_view place = "@DATA@";
    std::string text(page());
    return text.replace(text.find(place), place.size(),
                        base64(gzipped(data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))));
}

namespace {

// Pipes, terminals and devices are written to, never replaced. They have no offsets.
void write_in_place(const std::string& page, const std::string& file) {
    const int fd = open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) fail(file);
    int why = 0;
    for (std::string_view rest = page; !rest.empty() && why == 0;) {
        const ssize_t written = ::write(fd, rest.data(), rest.size());
        if (written > 0)
            rest.remove_prefix(static_cast<size_t>(written));
        else if (written == 0 || errno != EINTR)
            why = written == 0 ? EIO : errno;
    }
    if (close(fd) != 0 && why == 0) why = errno;
    if (why == 0) return;
    errno = why;
    fail(file);
}

}  // namespace

void write(const std::string& page, const std::string& name) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::file_status there = fs::status(name, error);
    if (fs::is_block_file(there)) throw std::runtime_error(name + ": is a block device; give another place with -o");
    if (fs::exists(there) && !fs::is_regular_file(there) && !fs::is_directory(there)) return write_in_place(page, name);
    const fs::path followed = fs::is_regular_file(there) ? fs::canonical(name, error) : fs::path(name);  // a link stays one
    const std::string file = error ? name : followed.string();
    std::string partial = file + ".XXXXXX";
    const int fd = mkstemp(partial.data());
    if (fd < 0) fail(file);
    const mode_t mask = umask(0);
    umask(mask);
    const bool written = replay::write_all(fd, page.data(), page.size(), 0) && fchmod(fd, 0666 & ~mask) == 0;
    const bool closed = close(fd) == 0;
    if (written && closed && rename(partial.c_str(), file.c_str()) == 0) return;
    const int why = errno;
    unlink(partial.c_str());
    errno = why;
    fail(file);
}

}  // namespace polter::report
