// SPDX-License-Identifier: BSD-3-Clause
#include "function_ends.hpp"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <cerrno>

#include "programs.hpp"

namespace polter::exporter {

int refuses_ends_of(const KernelTypes& types, const char* function, unsigned parameters) {
    const int id = types.function(function, parameters);
    if (id < 0) return ENOENT;
    const bpf_insn nothing[] = {{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
    LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FEXIT, .attach_btf_id = static_cast<__u32>(id));
    const int program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "polter_try", "GPL", nothing, 2, &options);
    if (program < 0) return errno;
    close(program);
    return 0;
}

}  // namespace polter::exporter
