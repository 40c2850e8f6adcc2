// SPDX-License-Identifier: BSD-3-Clause
// A page in memory and the state of the thread that it belongs to, with the exporter's own writer.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "accounting/publish.h"
#include "noise.h"

struct alignas(4096) Page : polter_page {
    Page() {
        std::memset(static_cast<polter_page*>(this), 0, sizeof(polter_page));
        polter_page_layout(&header, POLTER_BACKEND_BPF, (1u << POLTER_ACCOUNTS) - 1);
        header.state = POLTER_PAGE_LIVE;
    }
};

struct Fixture {
    std::unique_ptr<Page> page = std::make_unique<Page>();
    polter_thread thread{};

    void event(std::uint64_t end, std::uint64_t duration, unsigned account = POLTER_TIMER, const char* name = "test") {
        polter_culprit culprit{};
        std::strncpy(culprit.name, name, sizeof culprit.name - 1);
        const int outermost = polter_publish_begin(&thread, POLTER_NESTED);
        polter_publish_record(&thread, page.get(), end, duration, account, 1, &culprit, POLTER_NESTED);
        polter_publish_end(&thread, page.get(), outermost, end, POLTER_NESTED);
    }
};

struct NoiseCloser {
    void operator()(polter_noise* noise) const { polter_noise_close(noise); }
};
using Noise = std::unique_ptr<polter_noise, NoiseCloser>;

inline Noise open_page(const polter_page& page, char* error, std::size_t error_size, std::size_t size = POLTER_PAGE_SIZE) {
    return Noise(polter_noise_open_memory(&page, size, error, error_size));
}
