// SPDX-License-Identifier: BSD-3-Clause
#include "programs.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "../unseen.hpp"
#include "net_irqs.hpp"

namespace polter::exporter {
namespace {

constexpr auto bit = account_bit;

std::string last_warning;  // libbpf's, since its functions return numbers only; that which names a program, where there is one

int keep_warning(libbpf_print_level level, const char* format, va_list arguments) {
    if (level != LIBBPF_WARN || last_warning.find("prog '") != last_warning.npos) return 0;
    char text[1024];
    const int n = vsnprintf(text, sizeof text, format, arguments);
    last_warning.assign(text, n < 0 ? 0 : std::min<std::size_t>(static_cast<std::size_t>(n), sizeof text - 1));
    last_warning.resize(std::min(last_warning.find('\n'), last_warning.size()));
    return 0;
}

constexpr std::uint32_t scheduling =
    bit(POLTER_PREEMPT) | bit(POLTER_RUNQUEUE) | bit(POLTER_PREEMPT_JOB) | bit(POLTER_WAKEUP) | bit(POLTER_THROTTLE);
constexpr Part parts[] = {
    {"on_switch", "sched_switch", scheduling},
    {"on_wakeup", "sched_wakeup", scheduling},
    {"on_migrate", "sched_migrate_task", scheduling},
    {"on_exit", "sched_process_exit", scheduling},
    {"on_local_timer_entry", "local_timer_entry", bit(POLTER_TIMER)},
    {"on_local_timer_exit", "local_timer_exit", bit(POLTER_TIMER)},
    {"on_irq_handler_entry", "irq_handler_entry", bit(POLTER_IRQ) | bit(POLTER_NET)},
    {"on_irq_handler_exit", "irq_handler_exit", bit(POLTER_IRQ) | bit(POLTER_NET)},
    {"on_softirq_entry", "softirq_entry", bit(POLTER_SOFTIRQ) | bit(POLTER_NET)},
    {"on_softirq_exit", "softirq_exit", bit(POLTER_SOFTIRQ) | bit(POLTER_NET)},
    {"on_reschedule_entry", "reschedule_entry", bit(POLTER_IPI)},
    {"on_reschedule_exit", "reschedule_exit", bit(POLTER_IPI)},
    {"on_call_function_entry", "call_function_entry", bit(POLTER_IPI)},
    {"on_call_function_exit", "call_function_exit", bit(POLTER_IPI)},
    {"on_call_function_single_entry", "call_function_single_entry", bit(POLTER_IPI)},
    {"on_call_function_single_exit", "call_function_single_exit", bit(POLTER_IPI)},
    {"on_irq_work_entry", "irq_work_entry", bit(POLTER_IPI)},
    {"on_irq_work_exit", "irq_work_exit", bit(POLTER_IPI)},
    {"on_nmi_handler", "nmi_handler", bit(POLTER_NMI)},
    {"on_page_fault_user", "page_fault_user", 0},
    {"on_page_fault_kernel", "page_fault_kernel", 0},
};

}  // namespace

std::span<const Part> shared_parts() {
    return parts;
}

KernelTypes::KernelTypes() : types_(btf__load_vmlinux_btf()) {}

KernelTypes::~KernelTypes() {
    btf__free(types_);
}

bool KernelTypes::has_tracepoint(const char* name) const {
    return types_ && btf__find_by_name_kind(types_, fmt::format("btf_trace_{}", name).c_str(), BTF_KIND_TYPEDEF) >= 0;
}

bool KernelTypes::has_member(const char* structure, const char* member) const {
    const int id = types_ ? btf__find_by_name_kind(types_, structure, BTF_KIND_STRUCT) : -1;
    if (id < 0) return false;
    const btf_type* t = btf__type_by_id(types_, static_cast<__u32>(id));
    const btf_member* m = btf_members(t);
    for (int i = 0; i < btf_vlen(t); i++)
        if (std::strcmp(btf__name_by_offset(types_, m[i].name_off), member) == 0) return true;
    return false;
}

int KernelTypes::function(const char* name, unsigned parameters) const {
    const int id = types_ ? btf__find_by_name_kind(types_, name, BTF_KIND_FUNC) : -1;
    const btf_type* prototype = id < 0 ? nullptr : btf__type_by_id(types_, btf__type_by_id(types_, static_cast<__u32>(id))->type);
    return prototype && btf_vlen(prototype) == parameters ? id : -1;
}

Failure leave_out_missing(bpf_object* object, const KernelTypes& types, std::span<const Part> of_object, std::uint32_t& seen) {
    libbpf_set_print(keep_warning);
    last_warning.clear();
    // Before 5.11 the kernel charged maps to this limit.
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &unlimited);
    if (!types) return "the kernel does not describe its types (no /sys/kernel/btf/vmlinux; CONFIG_DEBUG_INFO_BTF)";
    std::uint32_t ipi_missing = 0, missing = 0;
    for (const auto& part : of_object) {
        if (types.has_tracepoint(part.tracepoint)) continue;
        bpf_program__set_autoload(bpf_object__find_program_by_name(object, part.program), false);
        if (part.accounts == bit(POLTER_IPI))
            ipi_missing++;
        else
            missing |= part.accounts;
    }
    // Each of the four kinds of inter-processor interrupt is optional; the account counts as seen if any of them exists.
    if (ipi_missing >= 8) missing |= bit(POLTER_IPI);
    seen = (bit(POLTER_STEAL) - 1) | bit(POLTER_PREEMPT_JOB) | bit(POLTER_WAKEUP) | bit(POLTER_NET);
    seen &= ~missing;
    if (!types.has_member("task_struct", "throttled") && !types.has_member("cfs_rq", "throttle_count")) seen &= ~bit(POLTER_THROTTLE);
    if (missing & bit(POLTER_PREEMPT)) return "the kernel lacks a scheduler tracepoint that nothing goes without (CONFIG_TRACEPOINTS)";
    return std::nullopt;
}

std::string load_failure(int error, const char* who) {
    if (error == -EPERM || error == -EACCES)
        return fmt::format(
            "the kernel does not let this process load programs; run {} as root, or give it CAP_BPF and CAP_PERFMON "
            "(setcap cap_bpf,cap_perfmon+ep)",
            who);
    return fmt::format("the kernel refuses the programs ({}): {}", std::strerror(-error), last_warning);
}

Failure attach(bpf_object* object, std::span<const Part> of_object, std::vector<bpf_link*>& links) {
    for (const auto& part : of_object) {
        bpf_program* program = bpf_object__find_program_by_name(object, part.program);
        if (!bpf_program__autoload(program)) continue;
        bpf_link* link = bpf_program__attach(program);
        if (!link) return fmt::format("cannot attach to the tracepoint {}: {}", part.tracepoint, std::strerror(errno));
        links.push_back(link);
    }
    return std::nullopt;
}

std::uint64_t skipped(const bpf_object* object) {
    std::uint64_t sum = 0;
    bpf_program* program;
    bpf_object__for_each_program(program, object) {
        bpf_prog_info info{};
        __u32 size = sizeof info;
        if (bpf_program__fd(program) >= 0 && bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0)
            sum += info.recursion_misses;
    }
    return sum;
}

void fill_net_irqs(int map) {
    const auto lines = net_irqs();
    std::vector<__u32> stale;
    __u32 key;
    for (void* previous = nullptr; bpf_map_get_next_key(map, previous, &key) == 0; previous = &key)
        if (!lines.contains(key)) stale.push_back(key);
    for (const __u32 line : stale) bpf_map_delete_elem(map, &line);
    for (const __u32 line : lines) {
        const __u8 yes = 1;
        bpf_map_update_elem(map, &line, &yes, BPF_ANY);
    }
}

std::string cannot_see(std::uint32_t seen) {
    return unseen_by_tracepoints(seen);
}

}  // namespace polter::exporter
