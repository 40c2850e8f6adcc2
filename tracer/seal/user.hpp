// SPDX-License-Identifier: BSD-3-Clause
// Work that root does with another user's rights only.
#pragma once

#include <sys/types.h>

#include <functional>

namespace polter::seal {

// Runs `work` in a child process that is `user` for good, with that user's primary group alone. Throws std::runtime_error with what `work`
// threw, or what became of the child.
void as_user(uid_t user, const std::function<void()>& work);

}  // namespace polter::seal
