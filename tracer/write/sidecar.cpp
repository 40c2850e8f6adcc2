// SPDX-License-Identifier: BSD-3-Clause
#include "sidecar.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "own_part.hpp"

namespace polter::write {

bool Sidecar::open(const std::string& path, std::string& error) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (file_ < 0) error = path + ": " + std::strerror(errno);
    return file_ >= 0;
}

bool Sidecar::line(const nlohmann::ordered_json& object) {
    // Names come from programs and need not be UTF-8.
    const std::string text = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
    const OwnPart own_part;
    ssize_t written;
    do {
        written = ::write(file_, text.data(), text.size());
    } while (written < 0 && errno == EINTR);
    if (written >= 0 && static_cast<size_t>(written) != text.size()) errno = ENOSPC;
    return written == static_cast<ssize_t>(text.size());
}

}  // namespace polter::write
