// SPDX-License-Identifier: BSD-3-Clause
// What every backend fills in: how the kernel's events get into the pages. The daemon knows nothing else of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "page.h"

namespace polter::exporter {

// The reason of a failure (what, where, what to do); nothing on success.
using Failure = std::optional<std::string>;

// The user who owns a process, and whether its pages may name other users' tasks.
struct Owner {
    uid_t user = 0;
    bool names = false;
};

// One thread's page.
struct Page {
    int fd;                // can only be mapped for reading
    std::uint32_t id;      // valid while any process has the page mapped or its descriptor open; not reused soon
    std::uint32_t number;  // the backend's, while the thread is registered
};

// Used by one thread. Ids are those of the initial pid namespace.
class Backend {
  public:
    virtual ~Backend() = default;

    virtual const char* name() const = 0;
    virtual polter_backend id() const = 0;

    // Attaches to the kernel. A failure says why this backend is not available here, and leaves nothing behind.
    virtual Failure start() = 0;
    // Freezes all pages and detaches; they stay readable for those who have them mapped.
    virtual void stop() = 0;

    // Valid after start(): bit sets of enum polter_account, and a description of what it cannot see and why.
    virtual std::uint32_t accounts_seen() const = 0;
    virtual std::uint32_t accounts_net() const = 0;
    virtual std::string cannot_see() const = 0;
    // Kernel events not shown to the backend so far: skipped by the kernel as recursion, or missing.
    virtual std::uint64_t recursion_misses() const = 0;

    // How many threads can be added now without waiting. If there are too few, say how many wait: pages_event() becomes readable when there
    // are more, or none can be made, which take_pages_event() gives the reason of. pages_event() is -1 where nobody ever waits.
    virtual unsigned pages_ready() const = 0;
    virtual void want_pages(unsigned waiting) = 0;
    virtual int pages_event() const = 0;
    virtual Failure take_pages_event() = 0;
    // The ids of all existing pages, including released pages that are still mapped; nothing if the kernel cannot list them.
    virtual std::optional<std::set<std::uint32_t>> pages_in_memory() const = 0;

    virtual Failure add_process(pid_t tgid, std::uint64_t job, Owner owner) = 0;
    virtual void remove_process(pid_t tgid) = 0;
    // Whether the process is still registered: false once it has exited or executed another program, even before remove_process.
    virtual bool has_process(pid_t tgid) const = 0;

    // Starts the thread's accounts at zero on a new page. The caller owns the descriptor.
    virtual std::variant<Page, std::string> add_thread(pid_t tgid, pid_t tid) = 0;
    // Freezes the page. The thread may have exited already.
    virtual void remove_thread(std::uint32_t number) = 0;
    // Whether the thread is still accounted: false once it has exited.
    virtual bool has_thread(pid_t tid) const = 0;
};

// Those built into this daemon, the best first.
std::vector<std::unique_ptr<Backend>> all_backends();

}  // namespace polter::exporter
