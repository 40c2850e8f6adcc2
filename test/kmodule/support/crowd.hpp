// SPDX-License-Identifier: BSD-3-Clause
// Many processes that register with a daemon at once, each with some threads, as one user.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "noise.h"

constexpr uid_t first_user = 65534, second_user = 65533, third_user = 65532;

inline bool become(uid_t uid) {
    return setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0;
}

inline void allow_descriptors(rlim_t n) {
    rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = n;
    limit.rlim_max = std::max(limit.rlim_max, n);
    setrlimit(RLIMIT_NOFILE, &limit);
}

// Made before a daemon starts its clock: all processes stand ready, and begin when they are told.
class Crowd {
  public:
    struct Result {
        std::atomic<int> done, failed;
        std::atomic<std::uint64_t> slowest_ns, last_ns;  // of one registration; when the last one was done
        std::atomic<int> standing;
        char why[600];
    };

    Crowd(const std::string& socket, int processes, int threads, uid_t uid, unsigned timeout_ms = 0)
        : processes_(processes), threads_(threads) {
        result_ = static_cast<Result*>(mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        if (pipe2(go_, O_CLOEXEC) != 0 || pipe2(end_, O_CLOEXEC) != 0) std::abort();
        for (int i = 0; i < processes; i++) {
            const pid_t pid = fork();
            if (pid == 0) {
                keep_only(go_[0], end_[0]);
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (!become(uid)) _exit(1);
                live(socket, timeout_ms);
                _exit(0);
            }
            children_.push_back(pid);
        }
    }
    ~Crowd() {
        leave();
        munmap(result_, sizeof *result_);
    }
    Crowd(const Crowd&) = delete;

    // Until all have registered or have been refused; the time since they were told to.
    std::uint64_t run() {
        begin();
        return wait();
    }
    void begin() {
        while (result_->standing < processes_) usleep(1000);
        begun_ = now();
        close(std::exchange(go_[1], -1));
    }
    std::uint64_t wait() {
        while (result_->done < processes_ * threads_) usleep(2000);
        return result_->last_ns - begun_;
    }
    void leave() {
        for (int* end : {&go_[0], &go_[1], &end_[0], &end_[1]})
            if (*end >= 0) close(std::exchange(*end, -1));
        for (const pid_t pid : children_) waitpid(pid, nullptr, 0);
        children_.clear();
    }
    const Result& result() const { return *result_; }

  private:
    static std::uint64_t now() {
        timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
    }
    // Another crowd's gate would stay shut while its ends are open here.
    static void keep_only(int a, int b) {
        if (a > b) std::swap(a, b);
        if (a > 3) close_range(3, static_cast<unsigned>(a) - 1, 0);
        if (b > a + 1) close_range(static_cast<unsigned>(a) + 1, static_cast<unsigned>(b) - 1, 0);
        close_range(static_cast<unsigned>(b) + 1, ~0u, 0);
    }
    static void raise_to(std::atomic<std::uint64_t>& what, std::uint64_t value) {
        for (std::uint64_t old = what; old < value && !what.compare_exchange_weak(old, value);) {
        }
    }
    void count(bool good, std::uint64_t start, const char* why) {
        const std::uint64_t end = now();
        raise_to(result_->slowest_ns, end - start);
        raise_to(result_->last_ns, end);
        if (!good && result_->failed++ == 0) snprintf(result_->why, sizeof result_->why, "%s", why);
        result_->done++;
    }
    void live(const std::string& socket, unsigned timeout_ms) {
        char error[600] = "", byte;
        polter_session* session = nullptr;
        std::uint64_t start = 0;
        const auto enter = [&] {
            const polter_noise_options options{.socket_path = socket.c_str(),
                                               .job = 7,
                                               .threads = static_cast<polter_u32>(threads_),
                                               .timeout_ms = timeout_ms,
                                               .exporter = nullptr,
                                               .tracepoints = nullptr};
            start = now();
            session = polter_session_open(&options, error, sizeof error);
        };
        const auto one = [&](std::uint64_t from) {
            char why[600];
            snprintf(why, sizeof why, "%s", error);
            polter_noise* noise = session ? polter_noise_open(session, why, sizeof why) : nullptr;
            count(noise != nullptr, from, why);
        };
        if (threads_ == 1) {
            result_->standing++;
            (void)!read(go_[0], &byte, 1);
            enter();
            one(start);
        } else {
            pthread_attr_t small;
            pthread_attr_init(&small);
            pthread_attr_setstacksize(&small, 128 * 1024);
            std::atomic<int> ready{0};
            struct Argument {
                Crowd* crowd;
                std::atomic<int>* ready;
                decltype(one)* body;
            } argument{this, &ready, &one};
            for (int i = 0; i < threads_; i++) {
                pthread_t thread;
                const auto body = [](void* of) -> void* {
                    const auto& a = *static_cast<Argument*>(of);
                    char ignored;
                    ++*a.ready;
                    (void)!read(a.crowd->go_[0], &ignored, 1);
                    a.crowd->entered_.wait(0);
                    (*a.body)(now());
                    (void)!read(a.crowd->end_[0], &ignored, 1);
                    return nullptr;
                };
                if (pthread_create(&thread, &small, body, &argument) != 0) {
                    count(false, now(), "no thread");
                    ++ready;
                }
            }
            while (ready < threads_) usleep(1000);
            result_->standing++;
            (void)!read(go_[0], &byte, 1);
            enter();
            entered_ = 1;
            entered_.notify_all();
        }
        (void)!read(end_[0], &byte, 1);
        // Ends with the process.
    }

    int processes_, threads_;
    int go_[2], end_[2];
    std::atomic<int> entered_{0};
    std::uint64_t begun_ = 0;
    std::vector<pid_t> children_;
    Result* result_;
};
