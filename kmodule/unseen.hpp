// SPDX-License-Identifier: BSD-3-Clause
// What a backend on the kernel's tracepoints cannot see, and why, in words.
#pragma once

#include <cstdint>
#include <string>

#include "page.h"

namespace polter::exporter {

// `seen`: bit set of enum polter_account. Empty: it sees everything.
inline std::string unseen_by_tracepoints(std::uint32_t seen) {
    constexpr struct {
        unsigned account;
        const char* why;
    } reasons[] = {
        {POLTER_TIMER, "timer: no local_timer tracepoints (timer interrupts may appear as irq)"},
        {POLTER_IRQ, "irq: no irq_handler tracepoints"},
        {POLTER_IPI, "ipi: no tracepoints of inter-processor interrupts"},
        {POLTER_SOFTIRQ, "softirq: no softirq tracepoints"},
        {POLTER_NMI, "nmi: no nmi_handler tracepoint"},
        {POLTER_THROTTLE, "throttle: the kernel has no CPU quotas"},
        {POLTER_STEAL, "steal: this machine's hypervisor does not tell what it takes"},
        {POLTER_NET, "net: needs the irq_handler and softirq tracepoints"},
        {POLTER_FAULT, "fault: page faults are counted without their time: no tracepoint at their end"},
    };
    std::string text;
    for (const auto& reason : reasons)
        if (!(seen >> reason.account & 1)) text += (text.empty() ? "" : "; ") + std::string(reason.why);
    return text;
}

}  // namespace polter::exporter
