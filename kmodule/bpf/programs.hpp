// SPDX-License-Identifier: BSD-3-Clause
// What the eBPF objects share on this side of the kernel: which program needs which tracepoint, loading, attaching, what was missed.
#pragma once

#include <bpf/libbpf.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../backend.hpp"

struct btf;

namespace polter::exporter {

constexpr std::uint32_t account_bit(unsigned account) {
    return 1u << account;
}

// A program and the tracepoint that it needs; the accounts that cannot be seen without it.
struct Part {
    const char* program;
    const char* tracepoint;
    std::uint32_t accounts;
};

// Those of scheduling.bpf.h and interruptions.bpf.h.
std::span<const Part> shared_parts();

// What the running kernel says of its types.
class KernelTypes {
  public:
    KernelTypes();
    ~KernelTypes();
    KernelTypes(const KernelTypes&) = delete;
    explicit operator bool() const { return types_ != nullptr; }
    bool has_tracepoint(const char* name) const;
    bool has_member(const char* structure, const char* member) const;
    // The number of a function that has that many parameters; -1: there is none.
    int function(const char* name, unsigned parameters) const;

  private:
    btf* types_;
};

// Leaves out the programs whose tracepoints this kernel does not have; for an object that is open and not loaded. `seen`: of the noise and
// service accounts that tracepoints can show at all, those that they show here. A failure: the kernel does not describe its types, or lacks
// what nothing goes without.
Failure leave_out_missing(bpf_object* object, const KernelTypes& types, std::span<const Part> parts, std::uint32_t& seen);

// `why` is what the load said: an errno, negative. `who` is to be given the privilege.
std::string load_failure(int error, const char* who);

// Attaches what is loaded; the links are the caller's, those made before a failure too.
Failure attach(bpf_object* object, std::span<const Part> parts, std::vector<bpf_link*>& links);

// How often the kernel did not run one of the programs because another one of its CPU was running.
std::uint64_t skipped(const bpf_object* object);

// Brings a map of interrupt lines (u32 -> u8) up to what net_irqs() says.
void fill_net_irqs(int map);

// Describes why each account missing from `seen` cannot be measured.
std::string cannot_see(std::uint32_t seen);

}  // namespace polter::exporter
