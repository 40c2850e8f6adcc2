// SPDX-License-Identifier: BSD-3-Clause
#include "workers.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace polter::seal {
namespace {

constexpr size_t ranks_a_worker = 32;  // fewer are done before a process has started
constexpr unsigned most_workers = 64;

constexpr size_t nowhere = SIZE_MAX;

// Between the processes. An item is taken only below `failed`, and all below it have been taken: so the first one that fails is found.
struct Shared {
    std::atomic<size_t> next, failed;
    static_assert(std::atomic<size_t>::is_always_lock_free);
};
struct Failure {
    size_t item;
    char text[1000];
};

size_t take(Shared& shared, size_t items) {
    const size_t item = shared.next.fetch_add(1, std::memory_order_relaxed);
    return item < items && item < shared.failed.load(std::memory_order_relaxed) ? item : nowhere;
}

void fail(Shared& shared, size_t item) {
    size_t before = shared.failed.load(std::memory_order_relaxed);
    while (item < before && !shared.failed.compare_exchange_weak(before, item)) {
    }
}

void work_through(Shared& shared, size_t items, Failure& failure, const std::function<void(size_t)>& work) {
    size_t item;
    while ((item = take(shared, items)) != nowhere) {
        try {
            work(item);
        } catch (const std::exception& error) {
            failure.item = item;
            std::snprintf(failure.text, sizeof failure.text, "%s", error.what());
            fail(shared, item);
        }
    }
}

std::string ended(int status) {
    return WIFSIGNALED(status) ? fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
                               : fmt::format("left with code {}", WEXITSTATUS(status));
}

}  // namespace

SharedMemory::SharedMemory(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
    at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) throw std::runtime_error(fmt::format("no memory for the results of {} bytes: {}", bytes, std::strerror(errno)));
}

unsigned workers_for(size_t ranks, unsigned wanted) {
    if (wanted == 0) {
        cpu_set_t own;
        wanted = sched_getaffinity(0, sizeof own, &own) == 0 ? static_cast<unsigned>(CPU_COUNT(&own)) : std::thread::hardware_concurrency();
    }
    return static_cast<unsigned>(std::clamp<size_t>(ranks / ranks_a_worker, 1, std::clamp(wanted, 1u, most_workers)));
}

void in_threads(unsigned workers, size_t items, const std::function<void(size_t)>& work) {
    Shared shared{0, nowhere};
    std::mutex mutex;
    size_t first = nowhere;
    std::exception_ptr error;
    const auto run = [&] {
        size_t item;
        while ((item = take(shared, items)) != nowhere) {
            try {
                work(item);
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (item < first) {
                    first = item;
                    error = std::current_exception();
                }
                fail(shared, item);
            }
        }
    };
    {
        std::vector<std::jthread> threads;
        try {
            while (threads.size() + 1 < workers) threads.emplace_back(run);
        } catch (const std::system_error&) {
        }
        run();
    }
    if (error) std::rethrow_exception(error);
}

void die_with(int parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
}

void in_processes(unsigned workers, size_t items, const std::function<void(unsigned, size_t)>& work) {
    if (workers <= 1 || items <= 1) {
        for (size_t item = 0; item < items; ++item) work(0, item);
        return;
    }
    SharedArray<Failure> failures(workers);
    SharedMemory memory(sizeof(Shared));
    Shared& shared = *new (memory.at()) Shared{0, nowhere};
    for (unsigned worker = 0; worker < workers; ++worker) failures[worker].item = nowhere;
    std::vector<pid_t> children;
    const pid_t self = getpid();
    for (unsigned worker = 0; worker < workers; ++worker) {
        const pid_t pid = fork();
        if (pid == 0) {
            die_with(self);
            work_through(shared, items, failures[worker], [&](size_t item) { work(worker, item); });
            _exit(0);
        }
        if (pid < 0) break;  // a limit of processes: those that run do it all
        children.push_back(pid);
    }
    if (children.empty()) {
        for (size_t item = 0; item < items; ++item) work(0, item);
        return;
    }
    std::string died;
    for (const pid_t pid : children) {
        int status = 0;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        if (status == 0) continue;
        fail(shared, 0);  // the others need not go on
        if (died.empty()) died = fmt::format("a process of {} that put the trace together {}", children.size(), ended(status));
    }
    if (!died.empty()) throw std::runtime_error(died);
    const Failure* first = &failures[0];
    for (unsigned worker = 1; worker < workers; ++worker)
        if (failures[worker].item < first->item) first = &failures[worker];
    if (first->item != nowhere) throw std::runtime_error(first->text);
}

}  // namespace polter::seal
