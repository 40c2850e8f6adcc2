// SPDX-License-Identifier: BSD-3-Clause
#include "report.hpp"

#ifdef POLTER_PAGE
// The assembler embeds the file: a string literal of its size would be slow to compile.
__asm__(
    ".section .rodata\n"
    ".global polter_page_begin\n.global polter_page_end\n"
    "polter_page_begin:\n.incbin \"" POLTER_PAGE
    "\"\n"
    "polter_page_end:\n.byte 0\n"
    ".text\n");
extern "C" {
extern const char polter_page_begin[];
extern const char polter_page_end[];
}
#endif

namespace polter::report {

std::string_view page() {
#ifdef POLTER_PAGE
    return {polter_page_begin, static_cast<size_t>(polter_page_end - polter_page_begin)};
#else
    return {};
#endif
}

}  // namespace polter::report
