// SPDX-License-Identifier: BSD-3-Clause
// What becomes of a page when its process executes another program, though somebody keeps the socket and the pages open. As an ordinary
// user against a polterd of root's.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "accounting/state.h"
#include "support/children.hpp"
#include "transport.h"

namespace {

constexpr uid_t user = 65534;

polter_s32 tid() {
    return static_cast<polter_s32>(syscall(SYS_gettid));
}

// What the registered process leaves to its accomplice.
struct Kept {
    pid_t pid, tid;
    unsigned slot;
};

bool give(int to, const Kept& kept, const std::array<int, 2>& descriptors) {
    iovec data{const_cast<Kept*>(&kept), sizeof kept};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptors);
    std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
    return sendmsg(to, &message, 0) == static_cast<ssize_t>(sizeof kept);
}

bool take(int from, Kept& kept, std::array<int, 2>& descriptors) {
    iovec data{&kept, sizeof kept};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(from, &message, 0) != static_cast<ssize_t>(sizeof kept)) return false;
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_len != CMSG_LEN(sizeof descriptors)) return false;
    std::memcpy(descriptors.data(), CMSG_DATA(header), sizeof descriptors);
    return true;
}

// The calling thread registers on a connection that survives an exec, hands all to the accomplice, and executes `program`.
int register_and_execute(const std::string& socket, int accomplice, const char* program) {
    char error[600] = "";
    const int fd = polter_connect(socket.c_str(), answer_ms, error, sizeof error);
    polter_request request;
    polter_reply reply{};
    int pages = -1;
    polter_request_init(&request, POLTER_REQUEST_PROCESS);
    if (polter_exchange(fd, &request, &reply, nullptr, error, sizeof error) != 0) return 1;
    polter_request_init(&request, POLTER_REQUEST_THREAD);
    request.tid = tid();
    if (polter_exchange(fd, &request, &reply, &pages, error, sizeof error) != 0 || pages < 0) return 2;
    fcntl(fd, F_SETFD, 0);
    if (!give(accomplice, {getpid(), tid(), reply.slot}, {fd, pages})) return 3;
    execl(program, program, nullptr);
    return 4;
}

// A process of an ordinary user's, one of whose threads has registered and executes `cat` then; its socket and its pages are kept here.
class Executed {
  public:
    Executed(const Daemon& daemon, const std::string& cat, bool by_leader) {
        int say[2], hear[2], accomplice[2];
        REQUIRE(pipe2(say, O_CLOEXEC) == 0);
        REQUIRE(pipe2(hear, O_CLOEXEC) == 0);
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, accomplice) == 0);
        std::fflush(nullptr);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(say[0], 0);
            dup2(hear[1], 1);
            if (setgroups(0, nullptr) != 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0) _exit(5);
            const auto run = [&] { _exit(register_and_execute(daemon.socket(), accomplice[1], cat.c_str())); };
            if (by_leader) run();
            std::thread(run).join();
        }
        close(say[0]);
        close(hear[1]);
        close(accomplice[1]);
        say_ = say[1];
        hear_ = hear[0];
        const bool taken = take(accomplice[0], kept, descriptors_);
        close(accomplice[0]);
        REQUIRE(taken);
        void* all = mmap(nullptr, (kept.slot + 1) * std::size_t{POLTER_PAGE_SIZE}, PROT_READ, MAP_SHARED, descriptors_[1], 0);
        REQUIRE(all != MAP_FAILED);
        page = reinterpret_cast<const polter_page*>(static_cast<const char*>(all) + kept.slot * std::size_t{POLTER_PAGE_SIZE});
        REQUIRE(echo());  // by now the program is another one
    }
    ~Executed() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        for (const int fd : {say_, hear_, descriptors_[0], descriptors_[1]}) close(fd);
        munmap(const_cast<char*>(reinterpret_cast<const char*>(page)) - kept.slot * std::size_t{POLTER_PAGE_SIZE},
               (kept.slot + 1) * std::size_t{POLTER_PAGE_SIZE});
    }
    Executed(const Executed&) = delete;

    // Has the program do something: it wakes up, runs, and sleeps.
    bool echo() const {
        char byte = 'x';
        return write(say_, &byte, 1) == 1 && read(hear_, &byte, 1) == 1;
    }
    bool is_frozen() const { return POLTER_LOAD(page->header.state) == POLTER_PAGE_FROZEN; }
    polter_u64 seq() const { return POLTER_LOAD(page->header.seq); }
    // A page for a thread of the program that runs now, on the connection that was kept.
    int ask_for_page() const {
        char error[600] = "";
        polter_request request;
        polter_reply reply{};
        polter_request_init(&request, POLTER_REQUEST_THREAD);
        request.tid = pid_;
        return polter_exchange(descriptors_[0], &request, &reply, nullptr, error, sizeof error) == 0 ? 0 : 1;
    }

    Kept kept{};
    const polter_page* page = nullptr;

  private:
    pid_t pid_;
    int say_, hear_;
    std::array<int, 2> descriptors_{-1, -1};
};

// A process of root's with this id, which computes for a while, with interrupts. Its exit code, or an errno, negative.
int root_process(pid_t with_id) {
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uint64_t>(&with_id);
    arguments.set_tid_size = 1;
    const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0) {
        for (int i = 0; i < 50; i++) {
            spin(2 * ms);
            sleep_ms(1);
        }
        _exit(0);
    }
    if (pid < 0) return -errno;
    int status = 0;
    waitpid(static_cast<pid_t>(pid), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

TEST_CASE("an id that a thread gave away by executing another program leads to no page") {
    if (geteuid() != 0) {
        MESSAGE("SKIP: only root becomes another user and chooses the id of a process");
        return;
    }
    Daemon daemon;
    Executed executed(daemon, "/bin/cat", false);
    REQUIRE(executed.kept.tid != executed.kept.pid);
    CHECK(executed.is_frozen());
    const polter_u64 before = executed.seq();
    const int result = root_process(executed.kept.tid);
    if (result < 0) {
        MESSAGE("SKIP: no process with a chosen id here: ", std::strerror(-result));
        return;
    }
    CHECK(result == 0);
    CHECK(executed.seq() == before);  // nothing of root's process
    CHECK(executed.echo());
    CHECK(executed.seq() == before);
}

TEST_CASE("a process that executes a program of root's by its set-user-id bit takes no page with it") {
    if (geteuid() != 0) {
        MESSAGE("SKIP: only root can make such a program");
        return;
    }
    std::string directory;
    for (const char* folder : {"/tmp", "/var/tmp", "/run"}) {
        struct statvfs info {};
        if (directory.empty() && statvfs(folder, &info) == 0 && !(info.f_flag & (ST_NOSUID | ST_NOEXEC))) directory = folder;
    }
    std::string path = directory + "/polter-test-XXXXXX";
    if (directory.empty() || !mkdtemp(path.data())) {
        MESSAGE("SKIP: no folder where a set-user-id bit counts");
        return;
    }
    chmod(path.c_str(), 0755);
    const std::string cat = path + "/cat";
    std::filesystem::copy_file("/bin/cat", cat);
    chmod(cat.c_str(), 04755);
    {
        Daemon daemon;
        Executed executed(daemon, cat, true);
        std::ifstream status("/proc/" + std::to_string(executed.kept.pid) + "/status");
        std::string ids;
        while (std::getline(status, ids) && !ids.starts_with("Uid:")) continue;
        CHECK_MESSAGE(ids.starts_with("Uid:\t65534\t0\t"), ids);  // it is root's now
        CHECK(executed.is_frozen());
        const polter_u64 before = executed.seq();
        for (int i = 0; i < 100; i++) REQUIRE(executed.echo());
        CHECK(executed.seq() == before);
        CHECK(executed.ask_for_page() != 0);  // nor does it get one
        for (int i = 0; i < 100; i++) REQUIRE(executed.echo());
        CHECK(executed.seq() == before);
        CHECK(executed.is_frozen());
    }
    std::filesystem::remove_all(path);
}
