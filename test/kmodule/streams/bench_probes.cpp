// SPDX-License-Identifier: BSD-3-Clause
// What the module's probes cost on this machine, compiled for user space: the accounting and the tables, without the kernel's way to a
// probe.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "backend_unit.h"

task_struct* unit_current;
unsigned unit_cpu;

// As the kernel's fast clock, one reading of the processor's and some arithmetic.
std::uint64_t unit_now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

int unit_is_net_irq(unsigned) {
    return 0;
}

int unit_makes_way(unsigned) {
    return 0;
}

std::uint64_t unit_stolen(unsigned) {
    return 0;
}

namespace {

template <typename Body>
double median_ns(const Body& body) {
    constexpr int batch = 20000, rounds = 25;
    std::vector<double> each;
    for (int r = 0; r < rounds; r++) {
        const std::uint64_t start = unit_now();
        for (int i = 0; i < batch; i++) body();
        each.push_back(static_cast<double>(unit_now() - start) / batch);
    }
    std::nth_element(each.begin(), each.begin() + rounds / 2, each.end());
    return each[rounds / 2];
}

}  // namespace

int main() {
    static unit_signal alive{{1}};
    task_struct mine{100, 100, "mine", &alive, 0, 0, 0, 0, 0}, one{200, 200, "one", &alive, 0, 0, 0, 0, 0},
        two{201, 201, "two", &alive, 0, 0, 0, 0, 0};
    nlohmann::json out{{"schema", "polter.bench.probes/1"}};
    for (const unit* u : {&module_unit, &bpf_unit}) {
        u->reset();
        u->add_thread(&mine, 1);
        auto& figures = out[u->name];
        // There and back: two switches.
        figures["switch_others_ns"] = median_ns([&] {
                                          u->on_switch(1, &one, &two);
                                          u->on_switch(1, &two, &one);
                                      }) /
                                      2;
        u->on_switch(1, &one, &mine);
        figures["switch_registered_ns"] = median_ns([&] {
                                              u->on_switch(1, &mine, &one);
                                              u->on_switch(1, &one, &mine);
                                          }) /
                                          2;
        unit_current = &mine;
        figures["interrupt_registered_ns"] = median_ns([&] {
            u->enter(POLTER_FRAME_TIMER, 0);
            u->leave(POLTER_FRAME_TIMER, 0, nullptr);
        });
        unit_current = &one;
        figures["interrupt_others_ns"] = median_ns([&] {
            u->enter(POLTER_FRAME_TIMER, 0);
            u->leave(POLTER_FRAME_TIMER, 0, nullptr);
        });
    }
    out["clock_ns"] = median_ns([] { (void)unit_now(); });
    fmt::print("{}\n", out.dump(2));
}
