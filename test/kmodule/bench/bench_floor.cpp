// SPDX-License-Identifier: BSD-3-Clause
#include "bench_floor.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "programs.hpp"

struct Floor::Programs {
    std::vector<int> descriptors;
    ~Programs() {
        for (const int descriptor : descriptors) close(descriptor);
    }
};

Floor::Floor(Does does) : programs_(std::make_unique<Programs>()) {
    const std::unique_ptr<btf, decltype(&btf__free)> types(btf__load_vmlinux_btf(), btf__free);
    const bpf_insn zero{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0}, end{BPF_JMP | BPF_EXIT, 0, 0, 0, 0};
    std::vector<bpf_insn> code;
    if (does == Does::reads_clock) code.push_back({BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_ktime_get_ns});
    code.insert(code.end(), {zero, end});
    for (const auto& part : polter::exporter::shared_parts()) {
        const int id =
            types ? btf__find_by_name_kind(types.get(), fmt::format("btf_trace_{}", part.tracepoint).c_str(), BTF_KIND_TYPEDEF) : -1;
        if (id < 0) continue;
        LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP, .attach_btf_id = static_cast<__u32>(id));
        const int program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "polter_floor", "GPL", code.data(), code.size(), &options);
        const int link = program < 0 ? -1 : bpf_raw_tracepoint_open(nullptr, program);
        const int error = errno;
        if (program >= 0) programs_->descriptors.push_back(program);
        if (link < 0) throw std::runtime_error(fmt::format("no program at {}: {}", part.tracepoint, std::strerror(error)));
        programs_->descriptors.push_back(link);
    }
    if (programs_->descriptors.empty()) throw std::runtime_error("the kernel does not describe its tracepoints");
}

Floor::~Floor() = default;
