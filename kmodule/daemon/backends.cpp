// SPDX-License-Identifier: BSD-3-Clause
// The list of backends, the best first.
#include "../backend.hpp"
#ifdef POLTER_HAVE_BPF
#include "../bpf/backend.hpp"
#endif

namespace polter::exporter {

std::vector<std::unique_ptr<Backend>> all_backends() {
    std::vector<std::unique_ptr<Backend>> backends;
#ifdef POLTER_HAVE_BPF
    backends.push_back(bpf_backend());
#endif
    return backends;
}

}  // namespace polter::exporter
