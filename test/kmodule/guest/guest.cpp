// SPDX-License-Identifier: BSD-3-Clause
// Runs the scenarios that are named, or all, or (--without-bpf) those that need the module alone, and says of each how it went.
#include "guest.hpp"

#include <grp.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

namespace guest {
namespace {

int failed;

constexpr struct {
    const char* name;
    void (*run)();
    bool needs_bpf = false, named_only = false;
} scenarios[] = {
#define SCENARIO(name) \
    { #name, name }
    SCENARIO(measures),
    SCENARIO(cannot_be_written),
    SCENARIO(other_users),
    SCENARIO(lives_and_ends),
    SCENARIO(execs_and_kills),
    SCENARIO(two_thousand_threads),
    SCENARIO(cpu_unplugged),
    SCENARIO(quotas),
    SCENARIO(one_user_loops),
    SCENARIO(pages_kept_mapped),
    SCENARIO(registers_at_once),
    SCENARIO(thread_id_given_away),
    SCENARIO(started_processes),
    {"thread_id_given_away_bpf", thread_id_given_away_bpf, true},
    {"started_processes_bpf", started_processes_bpf, true},
    {"cpu_unplugged_bpf", cpu_unplugged_bpf, true},
    {"equal_to_bpf", equal_to_bpf, true},
    {"quota_equal_to_bpf", quota_equal_to_bpf, true},
    {"page_faults", page_faults, true},
    {"page_faults_that_sleep", page_faults_that_sleep, true},
    {"costs", costs, true, true},
    SCENARIO(unloads_under_mappings),
    SCENARIO(unloads_while_all_register),
#undef SCENARIO
};

}  // namespace

void fail(const char* file, int line, const std::string& what) {
    const char* name = std::strrchr(file, '/');
    std::printf("  %s:%d: %.*s\n", name ? name + 1 : file, line, 120, what.c_str());
    std::fflush(stdout);
    failed++;
}
int failures() {
    return failed;
}

std::uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}
void sleep_ms(unsigned n) {
    const timespec t{n / 1000, static_cast<long>(n % 1000 * ms)};
    nanosleep(&t, nullptr);
}
void spin(std::uint64_t ns) {
    for (const std::uint64_t end = now_ns() + ns; now_ns() < end;) {
    }
}
void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}
bool soon(const std::function<bool()>& holds) {
    for (int i = 0; i < 1000; i++) {
        if (holds()) return true;
        sleep_ms(10);
    }
    return false;
}
pid_t child(const std::function<int()>& body) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        const int before = failed, code = body();
        std::fflush(nullptr);
        _exit(code ? code : failed > before);
    }
    return pid;
}
int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
int in_child(const std::function<int()>& body) {
    return wait_for(child(body));
}
std::string read_file(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
}
bool write_file(const std::string& path, const std::string& text) {
    std::ofstream out(path);
    out << text;
    out.flush();
    return out.good();
}

long used_memory() {
    const std::string text = read_file("/proc/meminfo");
    const auto field = [&](const char* name) { return std::atol(text.c_str() + text.find(name) + std::strlen(name)); };
    return field("MemTotal:") - field("MemFree:") - field("\nCached:") - field("Buffers:") - field("SReclaimable:");
}
bool become(unsigned user) {
    return setgroups(0, nullptr) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
}
bool kernel_at_least(int major, int minor) {
    utsname name;
    int is[2] = {};
    uname(&name);
    std::sscanf(name.release, "%d.%d", &is[0], &is[1]);
    return is[0] > major || (is[0] == major && is[1] >= minor);
}

bool module_loaded() {
    return access("/sys/module/polter", F_OK) == 0;
}
bool load_module(const char* parameters) {
    const int fd = open("/polter.ko", O_RDONLY | O_CLOEXEC);
    const bool done = syscall(SYS_finit_module, fd, parameters, 0) == 0;
    close(fd);
    return done && soon([] { return access(POLTER_DEVICE, R_OK) == 0; });
}
bool unload_module() {
    return syscall(SYS_delete_module, "polter", O_NONBLOCK) == 0;
}

polter_device_status status() {
    polter_device_status s{};
    const int fd = open_device();
    if (fd < 0 || ioctl(fd, POLTER_DEVICE_STATUS, &s) != 0) fail(__FILE__, __LINE__, std::string("status: ") + std::strerror(errno));
    if (fd >= 0) close(fd);
    return s;
}
int open_device(int flags) {
    return open(POLTER_DEVICE, flags | O_CLOEXEC);
}
void* map_slot(int fd, unsigned slot, int protection, int flags) {
    return mmap(nullptr, POLTER_PAGE_SIZE, protection, flags, fd, static_cast<off_t>(slot) * POLTER_PAGE_SIZE);
}

}  // namespace guest

int main(int argc, char** argv) {
    const bool without_bpf = argc == 2 && std::strcmp(argv[1], "--without-bpf") == 0;
    for (const auto& scenario : guest::scenarios) {
        bool wanted = !scenario.named_only && (argc == 1 || (without_bpf && !scenario.needs_bpf));
        for (int i = 1; i < argc; i++) wanted |= std::strcmp(argv[i], scenario.name) == 0;
        if (!wanted) continue;
        const int before = guest::failures();
        const std::uint64_t start = guest::now_ns();
        scenario.run();
        const bool good = guest::failures() == before;
        std::printf("%s %s %llu ms\n", good ? "PASS" : "FAIL", scenario.name,
                    static_cast<unsigned long long>((guest::now_ns() - start) / guest::ms));
        std::fflush(stdout);
    }
    return guest::failures() != 0;
}
