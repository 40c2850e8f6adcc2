// SPDX-License-Identifier: BSD-3-Clause
#include "printable.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace polter::replay {

namespace {

struct Character {
    size_t bytes = 1;
    uint32_t code = 0;
    bool valid = false;
};

// The length of the first character of `text`, which is not empty. UTF-8 according to RFC 3629, without overlong forms and surrogates.
Character first(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80) return {1, lead, true};
    const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
    uint32_t code = lead & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; ++i) {
        const auto next = static_cast<unsigned char>(text[i]);
        if ((next & 0xc0) != 0x80) return {};
        code = code << 6 | (next & 0x3fu);
    }
    const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
    if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
    return {bytes, code, true};
}

bool controls(uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

// Ranges that terminals show two columns wide (Unicode: East Asian Width W and F).
size_t columns_of(uint32_t code) {
    const bool wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf && code != 0x303f) ||
                      (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) || (code >= 0xfe30 && code <= 0xfe6f) ||
                      (code >= 0xff00 && code <= 0xff60) || (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x1f300 && code <= 0x1f64f) ||
                      (code >= 0x1f900 && code <= 0x1f9ff) || (code >= 0x20000 && code <= 0x3fffd);
    return wide ? 2 : 1;
}

}  // namespace

namespace {

template <class Keep>
std::string escaped(std::string_view text, Keep keep) {
    std::string out;
    while (!text.empty()) {
        const Character next = first(text);
        const std::string_view bytes = text.substr(0, next.bytes);
        if (next.valid && keep(next.code))
            out += bytes;
        else
            for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
        text.remove_prefix(next.bytes);
    }
    return out;
}

}  // namespace

std::string printable(std::string_view text, bool keep_lines) {
    return escaped(text, [&](uint32_t code) { return !controls(code) || (keep_lines && code == '\n'); });
}

std::string valid_utf8(std::string_view text) {
    return escaped(text, [](uint32_t) { return true; });
}

size_t prefix_of(std::string_view text, size_t columns) {
    size_t end = 0;
    while (end < text.size()) {
        const Character next = first(text.substr(end));
        const size_t wide = columns_of(next.code);
        if (wide > columns) break;
        columns -= wide;
        end += next.bytes;
    }
    return end;
}

size_t columns_of(std::string_view text) {
    size_t columns = 0;
    while (!text.empty()) {
        const Character next = first(text);
        columns += columns_of(next.code);
        text.remove_prefix(next.bytes);
    }
    return columns;
}

}  // namespace polter::replay
