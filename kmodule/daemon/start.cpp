// SPDX-License-Identifier: BSD-3-Clause
#include "start.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "../reader/device.h"
#include "../reader/transport.h"
#include "../unseen.hpp"

namespace polter::daemon {
namespace {

using Clock = std::chrono::steady_clock;

std::string reason(const std::string& what) {
    return what + ": " + std::strerror(errno);
}

// Runs between fork and exec of a program with threads: only system calls on prepared memory are safe.
[[noreturn]] void become_daemon(char* const* arguments, int ready_fd, int report_fd, int output_fd) {
    setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(output_fd, STDERR_FILENO);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    // Close descriptors inherited from the launcher: a process that waits until all writers have closed would wait for the daemon.
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    fcntl(ready_fd, F_SETFD, 0);
    execv(arguments[0], arguments);
    const int error = errno;
    (void)!write(report_fd, &error, sizeof error);
    _exit(127);
}

// A daemon that does not start gives the reason in its last line on standard error.
std::string last_line(const std::string& text) {
    std::string_view view(text);
    while (!view.empty() && view.back() == '\n') view.remove_suffix(1);
    const auto start = view.rfind('\n');
    return std::string(start == view.npos ? view : view.substr(start + 1));
}

void read_available(int fd, std::string& text) {
    char buffer[4096];
    for (ssize_t n; text.size() < 65536 && (n = pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
}

}  // namespace

Started start_daemon(const std::string& polterd_path, const std::string& socket_path, const StartOptions& options) {
    if (access(polterd_path.c_str(), X_OK) != 0) return {-1, reason("polterd at " + polterd_path)};
    int ready[2], report[2];
    if (pipe2(ready, O_CLOEXEC) != 0) return {-1, reason("no pipe to polterd")};
    if (pipe2(report, O_CLOEXEC) != 0) {
        close(ready[0]), close(ready[1]);
        return {-1, reason("no pipe to polterd")};
    }
    // Messages go to the log; where there is none, to an unlinked file from which the reason of a failed start is read.
    char unlinked[] = "/tmp/polterd-XXXXXX";
    int output = -1;
    off_t log_start = 0;
    if (!options.log_path.empty()) {
        output = open(options.log_path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (output >= 0) log_start = lseek(output, 0, SEEK_END);
    } else if ((output = mkostemp(unlinked, O_APPEND | O_CLOEXEC)) >= 0) {
        unlink(unlinked);
    }
    if (output < 0) {
        const std::string why = reason("cannot write polterd's messages" + (options.log_path.empty() ? "" : " to " + options.log_path));
        for (int fd : {ready[0], ready[1], report[0], report[1]}) close(fd);
        return {-1, why};
    }

    std::vector<std::string> words{polterd_path, "--foreground", "--socket", socket_path, "--ready-fd", std::to_string(ready[1])};
    if (options.exit_with_last) words.insert(words.end(), {"--exit-with-last", "--grace", std::to_string(options.grace_seconds)});
    if (!options.policy.empty()) words.insert(words.end(), {"--policy", options.policy});
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);

    const pid_t pid = fork();
    if (pid == 0) become_daemon(arguments.data(), ready[1], report[1], output);
    const int fork_error = errno;
    close(ready[1]);
    close(report[1]);

    Started result{pid, ""};
    if (pid < 0) {
        result.reason = std::string("cannot fork for polterd: ") + std::strerror(fork_error);
    } else {
        // The daemon writes one byte when it serves; end of file means that it ended.
        char byte = 0;
        ssize_t got = 0;
        const auto deadline = Clock::now() + std::chrono::milliseconds(options.ready_timeout_ms);
        for (;;) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
            pollfd p{ready[0], POLLIN, 0};
            const int n = poll(&p, 1, static_cast<int>(std::max<long long>(left, 0)));
            if (n < 0 && errno == EINTR) continue;
            got = n > 0 ? read(ready[0], &byte, 1) : -1;
            break;
        }
        if (got != 1) {
            int exec_error = 0;
            if (got == 0 && read(report[0], &exec_error, sizeof exec_error) == sizeof exec_error) {
                result.reason = "cannot run " + polterd_path + ": " + std::strerror(exec_error);
            } else {
                std::string text;
                read_available(output, text);
                text.erase(0, std::min<std::size_t>(text.size(), static_cast<std::size_t>(log_start)));
                result.reason =
                    got == 0 ? last_line(text) : "polterd did not get ready within " + std::to_string(options.ready_timeout_ms) + " ms";
                if (result.reason.empty()) result.reason = "polterd ended without a message";
            }
            kill(pid, SIGKILL);
            while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
            }
            result.pid = -1;
        }
    }
    for (int fd : {ready[0], report[0], output}) close(fd);
    return result;
}

void ask_to_end(pid_t pid) {
    if (pid > 0) kill(pid, SIGTERM);
}

void stop_daemon(pid_t pid, unsigned timeout_ms) {
    if (pid <= 0) return;
    ask_to_end(pid);
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
    while (waitpid(pid, nullptr, WNOHANG) == 0) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
            break;
        }
        pollfd p{pidfd, POLLIN, 0};
        // Before Linux 5.3 (no pidfd_open) poll the process instead.
        poll(&p, 1, pidfd >= 0 ? static_cast<int>(left) : 2);
    }
    if (pidfd >= 0) close(pidfd);
}

namespace {

Status probe_device(const std::string& path) {
    Status status;
    char error[600] = "";
    struct polter_device_status device {};  // a function has that name too
    if (polter_device_status(path.c_str(), &device, error, sizeof error) == 0) {
        status.answers = true;
        status.version = device.product_version;
        status.backend = POLTER_BACKEND_MODULE;
        status.accounts_seen = device.accounts_seen;
        status.accounts_net = device.accounts_net;
        status.why = exporter::unseen_by_tracepoints(device.accounts_seen);
        status.recursion_misses = device.unseen_switches;
        status.processes = device.processes;
        status.threads = device.threads;
    }
    status.reason = error;
    return status;
}

}  // namespace

Status probe(const std::string& socket_path, unsigned timeout_ms) {
    if (polter_is_device(socket_path.c_str())) return probe_device(socket_path);
    Status status;
    char error[600] = "";
    const int socket = polter_connect(socket_path.c_str(), timeout_ms, error, sizeof error);
    if (socket >= 0) {
        polter_request request;
        polter_reply reply;
        polter_request_init(&request, POLTER_REQUEST_STATUS);
        if (polter_exchange(socket, &request, &reply, nullptr, error, sizeof error) == 0) {
            status.answers = true;
            status.version = reply.product_version;
            status.backend = reply.backend;
            status.accounts_seen = reply.accounts_seen;
            status.accounts_net = reply.accounts_net;
            status.why = reply.text;
            status.recursion_misses = reply.recursion_misses;
            status.processes = reply.processes;
            status.threads = reply.threads;
            status.pid = reply.daemon_pid;
        }
        close(socket);
    }
    status.reason = error;
    return status;
}

}  // namespace polter::daemon
