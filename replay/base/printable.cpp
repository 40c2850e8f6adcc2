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

// The first one of `text`, which is not empty: UTF-8 as RFC 3629 has it, without overlong forms and surrogates.
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

}  // namespace

std::string printable(std::string_view text, bool keep_lines) {
    std::string out;
    while (!text.empty()) {
        const Character next = first(text);
        const std::string_view bytes = text.substr(0, next.bytes);
        if (next.valid && (!controls(next.code) || (keep_lines && next.code == '\n')))
            out += bytes;
        else
            for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
        text.remove_prefix(next.bytes);
    }
    return out;
}

}  // namespace polter::replay
