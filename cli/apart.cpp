// SPDX-License-Identifier: BSD-3-Clause
#include <signal.h>
#include <unistd.h>

#include "../tracer/launch/standard_streams.hpp"
#include "replay/trace/child_process.hpp"
#include "verb.hpp"

namespace polter::cli {

void go_apart(int exit_code_if_it_dies) {
    const auto end = replay::go_apart();
    if (!end) return;
    if (!end->error.empty()) {
        if (isatty(STDERR_FILENO)) launch::write_message("\r\033[K");  // over what progress there was
        tell(end->error);
        throw Exit{exit_code_if_it_dies};
    }
    if (end->signal) {  // whoever waits for this process shall see the same
        signal(end->signal, SIG_DFL);
        raise(end->signal);
    }
    throw Exit{end->exit_code};
}

}  // namespace polter::cli
