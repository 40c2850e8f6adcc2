// SPDX-License-Identifier: BSD-3-Clause
// What the guest's scenarios share. They run as root in a small machine of their own, which they may break.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "module/device.h"
#include "noise.h"

namespace guest {

constexpr std::uint64_t ms = 1'000'000;

// One line for each check that fails; the scenario then fails, but goes on.
void fail(const char* file, int line, const std::string& what);
int failures();
#define CHECK(...) ((__VA_ARGS__) ? (void)0 : guest::fail(__FILE__, __LINE__, #__VA_ARGS__))
#define CHECK_EQ(a, b)                                                                                                        \
    do {                                                                                                                      \
        const auto a_ = (a);                                                                                                  \
        const auto b_ = static_cast<std::remove_const_t<decltype(a_)>>(b);                                                    \
        if (!(a_ == b_)) guest::fail(__FILE__, __LINE__, #a " == " #b ": " + std::to_string(a_) + ", " + std::to_string(b_)); \
    } while (0)

std::uint64_t now_ns();
void sleep_ms(unsigned n);
void spin(std::uint64_t ns);
void pin(int cpu);
// Waits until it holds, at most ten seconds.
bool soon(const std::function<bool()>& holds);
// The exit code of `body`, run in a child; 128 + the signal that ended it.
int in_child(const std::function<int()>& body);
pid_t child(const std::function<int()>& body);
int wait_for(pid_t pid);
std::string read_file(const std::string& path);
bool write_file(const std::string& path, const std::string& text);
// Kernel memory that is not the page cache's, and programs', in kB.
long used_memory();
// Gives up being root.
bool become(unsigned user);
bool kernel_at_least(int major, int minor);
bool module_loaded();
bool load_module(const char* parameters = "");
bool unload_module();

struct Session {
    char error[600] = "";
    polter_session* handle;
    explicit Session(const char* path = POLTER_DEVICE, unsigned threads = 0, std::uint64_t job = 0) {
        const polter_noise_options options{path, job, threads, 0};
        handle = polter_session_open(&options, error, sizeof error);
    }
    ~Session() { polter_session_close(handle); }
    Session(const Session&) = delete;
    struct Closer {
        void operator()(polter_noise* noise) const { polter_noise_close(noise); }
    };
    using Page = std::unique_ptr<polter_noise, Closer>;
    Page open() { return handle ? Page(polter_noise_open(handle, error, sizeof error)) : nullptr; }
};

// polterd, with the eBPF backend; ended with this.
constexpr const char* daemon_socket = "/run/polterd.sock";
struct Daemon {
    pid_t pid = child([] {
        execl("/polterd", "polterd", "--foreground", "--socket", daemon_socket, nullptr);
        return 127;
    });
    bool serves = soon([] {
        Session session(daemon_socket);
        return session.handle != nullptr;
    });
    Daemon() = default;
    ~Daemon() {
        kill(pid, SIGTERM);
        wait_for(pid);
    }
    Daemon(const Daemon&) = delete;
};

polter_device_status status();
// An open device. -1: errno says why.
int open_device(int flags = O_RDONLY);
void* map_slot(int fd, unsigned slot, int protection = PROT_READ, int flags = MAP_SHARED);

// The scenarios. Names are the functions'.
void measures();
void cannot_be_written();
void other_users();
void lives_and_ends();
void execs_and_kills();
void two_thousand_threads();
void cpu_unplugged();
void cpu_unplugged_bpf();
void quotas();
void one_user_loops();
void pages_kept_mapped();
void registers_at_once();
void thread_id_given_away();
void thread_id_given_away_bpf();
void unloads_under_mappings();
void unloads_while_all_register();
void equal_to_bpf();
void started_processes();
void started_processes_bpf();
void quota_equal_to_bpf();
void page_faults();
void page_faults_that_sleep();
void costs();

}  // namespace guest
