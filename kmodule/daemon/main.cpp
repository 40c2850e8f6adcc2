// SPDX-License-Identifier: BSD-3-Clause
// polterd: the one privileged process of a node. Picks a backend, then serves.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>

#include "say.hpp"
#include "server.hpp"

namespace {

namespace exporter = polter::exporter;
namespace node = polter::daemon;  // ::daemon is a function of libc

int fail(const std::string& text) {
    node::say("{}", text);
    return 1;
}

// Returns the best backend that starts; `why` gets the reasons of those that did not.
std::unique_ptr<exporter::Backend> pick(std::string& why) {
    for (auto& backend : exporter::all_backends()) {
        const auto failure = backend->start();
        if (!failure) return std::move(backend);
        why += (why.empty() ? "" : "; ") + *failure;
    }
    if (why.empty()) why = "built without any backend: building it needs clang, bpftool and a kernel with /sys/kernel/btf/vmlinux";
    return nullptr;
}

void raise_descriptor_limit() {
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t wanted = POLTER_MAX_DESCRIPTORS;
    if (limit.rlim_cur >= wanted) return;
    rlimit raised{wanted, std::max(limit.rlim_max, wanted)};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

// If a standard descriptor is closed, the next file opened would take its place.
void fill_standard_descriptors() {
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

void say_ready(int fd) {
    if (fd < 0) return;
    (void)!write(fd, "R", 1);
    close(fd);
}

int serve(const std::string& socket, const node::ServerOptions& options, int ready_fd) {
    auto inherited = node::Listener::inherited();
    auto listener = inherited ? std::move(*inherited) : node::Listener::open(socket);
    if (auto* reason = std::get_if<std::string>(&listener)) return fail(*reason);
    std::string why;
    const auto backend = pick(why);
    if (!backend) return fail(why);
    const std::string unseen = backend->cannot_see();
    if (!unseen.empty()) why += (why.empty() ? "" : "; ") + unseen;
    node::Server server(std::get<node::Listener>(listener), *backend, why, options);
    if (const auto failure = server.read_policy()) return fail(*failure);
    node::say("serves on {} by {}{}", inherited ? "its service manager's socket" : socket, backend->name(),
              why.empty() ? "" : "; not seen: " + why);
    say_ready(ready_fd);
    sd_notify(0, "READY=1");
    if (const auto failure = server.run()) return fail(*failure);
    if (const auto missed = backend->recursion_misses()) node::say("{} events were not shown to the backend by the kernel", missed);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    fill_standard_descriptors();
    signal(SIGPIPE, SIG_IGN);
    std::string socket = POLTER_DEFAULT_SOCKET;
    bool foreground = false;
    node::ServerOptions options;
    int ready_fd = -1;
    long long grace = 30;

    CLI::App app{
        "polterd gives threads their operating system noise on a shared page.\nExample: polterd --socket /run/polter/polterd.sock"};
    app.set_version_flag("--version", "polterd " POLTER_VERSION);
    app.add_option("--socket", socket, "where clients connect")->capture_default_str();
    app.add_flag("--foreground", foreground, "do not go into the background");
    app.add_flag("--exit-with-last", options.exit_with_last,
                 "end when the last registered process has left, and remove the socket's directory if nothing else is in it");
    app.add_option("--grace", grace, "seconds to wait for another process before that")->capture_default_str()->check(CLI::Range(0, 86400));
    app.add_option(
        "--policy", options.policy,
        R"(who may register, and see the names of others' tasks, as {"allow": ["*"], "deny": ["user:NAME"], "names": ["group:NAME"]}; )"
        "SIGHUP reads it again");
    app.add_option("--ready-fd", ready_fd, "descriptor that gets one byte when clients may connect")->check(CLI::Range(0, 1 << 20));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    options.grace = std::chrono::seconds(grace);
    if (ready_fd >= 0) fcntl(ready_fd, F_SETFD, FD_CLOEXEC);

    // Before anything else, since processes that follow a fork inherit nothing of the backend.
    if (!foreground && ::daemon(0, 1) != 0) return fail(fmt::format("cannot go into the background: {}", std::strerror(errno)));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    raise_descriptor_limit();

    const bool activated = std::getenv("LISTEN_FDS") != nullptr;  // serve() takes it out of the environment
    const int code = serve(socket, options, ready_fd);
    // Remove what a launcher created for one job; it may have ended.
    std::error_code ignored;
    if (code == 0 && options.exit_with_last && !activated) std::filesystem::remove(std::filesystem::path(socket).parent_path(), ignored);
    return code;
}
