// SPDX-License-Identifier: BSD-3-Clause
// Standard input, output and error that are closed, full or read by nobody: none of that may stop a job.
#pragma once

#include <string_view>

namespace polter::launch {

// Opens those of descriptors 0 to 2 that are closed on /dev/null, so that no file of ours takes their place; the wrong way round, so that
// reading and writing them fails as before. Call it before anything is opened.
void open_closed_streams();

// From here on a pipe that nobody reads is an error of write(2) and no signal. The second undoes it, for what the job inherits.
void ignore_broken_pipes();
void restore_broken_pipes();

// Writes to standard error as far as that is possible; an error there is ignored.
void write_message(std::string_view text) noexcept;

}  // namespace polter::launch
