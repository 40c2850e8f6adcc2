// SPDX-License-Identifier: BSD-3-Clause
// What one user may have of the module, whatever he does with it. With the limits set so low that a small machine comes to them.
#include <linux/membarrier.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <vector>

#include "guest.hpp"

namespace guest {
namespace {

constexpr unsigned threads = 256, processes = 32;
constexpr const char* limits = "max_threads=256 max_processes=32";

bool registers_process(int fd) {
    polter_device_process p{POLTER_DEVICE_VERSION, 2 * threads, 0, {}};
    return ioctl(fd, POLTER_DEVICE_PROCESS, &p) == 0;
}

// A page that is registered no longer, and mapped.
void* kept_page(int fd) {
    unsigned slot = 0;
    if (ioctl(fd, POLTER_DEVICE_THREAD, &slot) != 0) return nullptr;
    void* page = map_slot(fd, slot);
    CHECK(page != MAP_FAILED);
    CHECK(ioctl(fd, POLTER_DEVICE_LEAVE, &slot) == 0);
    return page;
}

// As many of them as can be had, or a few more than all that there should be.
std::vector<void*> kept_pages(int fd) {
    std::vector<void*> pages;
    while (pages.size() <= threads + 10) {
        void* page = kept_page(fd);
        if (!page) break;
        pages.push_back(page);
    }
    return pages;
}

// A process that does something as a user, says a number, and stays until it is told to go.
struct Other {
    int said[2], go[2];
    pid_t pid;
    Other(unsigned user, const std::function<unsigned()>& body) {
        CHECK(pipe(said) == 0 && pipe(go) == 0);
        pid = child([&] {
            CHECK(become(user));
            const unsigned number = body();
            char byte;
            (void)!write(said[1], &number, sizeof number);
            (void)!read(go[0], &byte, 1);
            return 0;
        });
        close(said[1]), close(go[0]);
    }
    unsigned number() const {
        unsigned n = ~0u;
        (void)!read(said[0], &n, sizeof n);
        return n;
    }
    void end() {
        CHECK(write(go[1], "", 1) == 1);
        CHECK_EQ(wait_for(pid), 0);
        close(go[1]), close(said[0]);
    }
    Other(const Other&) = delete;
};

unsigned keeps_all() {
    const int fd = open_device();
    if (!registers_process(fd)) return 0;
    const auto n = kept_pages(fd).size();
    CHECK_EQ(errno, EDQUOT);
    return static_cast<unsigned>(n);
}

// Processes of his own that register.
unsigned has_processes() {
    int counted[2];
    CHECK(pipe(counted) == 0);
    for (unsigned i = 0; i < processes + 5; i++)
        child([&] {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const bool done = registers_process(open_device());
            const char said = done ? 1 : errno == EDQUOT ? 0 : 100;
            (void)!write(counted[1], &said, 1);
            for (;;) pause();
            return 0;
        });
    unsigned n = 0;
    for (unsigned i = 0; i < processes + 5; i++) {
        char done = 0;
        (void)!read(counted[0], &done, 1);
        n += done;
    }
    return n;
}

void reload(const char* parameters) {
    CHECK(soon(unload_module));
    CHECK(load_module(parameters));
}

// In a user namespace of his own user 1000 has other ids, which are still his.
unsigned with_other_ids() {
    int made[2], mapped[2];
    CHECK(pipe(made) == 0 && pipe(mapped) == 0);
    const pid_t parent = getpid(), root = child([&] {
                                       char byte;
                                       (void)!read(made[0], &byte, 1);
                                       const std::string of = "/proc/" + std::to_string(parent);
                                       CHECK(write_file(of + "/uid_map", "0 1000 1\n1 200000 10\n"));
                                       CHECK(write_file(of + "/gid_map", "0 1000 1\n1 200000 10\n"));
                                       (void)!write(mapped[1], &byte, 1);
                                       return 0;
                                   });
    char byte = 0;
    CHECK(setresgid(1000, 1000, 1000) == 0 && setresuid(1000, 1000, 1000) == 0);
    CHECK(unshare(CLONE_NEWUSER) == 0);
    (void)!write(made[1], &byte, 1);
    (void)!read(mapped[0], &byte, 1);
    CHECK_EQ(wait_for(root), 0);
    CHECK(setresuid(5, 5, 5) == 0);
    return keeps_all();
}

}  // namespace

void quotas() {
    reload(limits);
    {
        // Each has half of what the others leave; all of them together leave something to everybody.
        Other first(1000, keeps_all);
        CHECK_EQ(first.number(), threads / 2);
        CHECK_EQ(status().threads, 0);
        CHECK_EQ(status().pages, threads / 2);
        Other second(1001, keeps_all);
        CHECK_EQ(second.number(), threads / 4);
        Other third(1002, keeps_all), again(1000, keeps_all), inside(0, with_other_ids);
        CHECK_EQ(third.number(), threads / 8);
        CHECK_EQ(again.number(), 0);
        CHECK_EQ(inside.number(), 0);
        Other root(0, keeps_all);
        CHECK_EQ(root.number(), threads / 8);
        CHECK_EQ(status().pages, threads);
        for (Other* other : {&first, &second, &third, &again, &inside, &root}) other->end();
    }
    // Nobody asks for anything, and all of it is given back.
    CHECK(soon([] { return status().pages == 0; }));
    {
        Other first(1000, has_processes);
        CHECK_EQ(first.number(), processes / 2);
        Other second(1001, has_processes);
        CHECK_EQ(second.number(), processes / 4);
        first.end();
        second.end();
    }
    CHECK(soon([] { return status().processes == 0; }));
    reload("");
}

// Eight processes of one user register and leave as fast as they can; another user is refused nothing.
void one_user_loops() {
    reload("max_threads=256 max_processes=1024");
    std::vector<pid_t> loops;
    for (int i = 0; i < 8; i++)
        loops.push_back(child([] {
            CHECK(become(1000));
            for (;;) {
                Session session;
                const auto page = session.open();
                const int fd = open_device();
                if (session.handle)
                    for (int k = 0; k < 4; k++) (void)kept_page(fd);
                close(fd);
                if (in_child([] {
                        Session forked;
                        const auto page = forked.open();
                        return 0;
                    }) != 0)
                    return 1;
            }
            return 0;
        }));
    CHECK(soon([] { return status().pages > 8; }));
    Other second(1001, [] {
        unsigned good = 0;
        for (int i = 0; i < 30; i++) {
            Session session;
            const auto page = session.open();
            good += page != nullptr;
            if (!page) std::printf("  %s\n", session.error);
        }
        return good;
    });
    CHECK_EQ(second.number(), 30);
    second.end();
    CHECK(status().pages <= 192);
    for (const pid_t pid : loops) {
        CHECK(waitpid(pid, nullptr, WNOHANG) == 0);
        kill(pid, SIGKILL);
        wait_for(pid);
    }
    CHECK(soon([] { return status().pages == 0; }));
    reload("");
}

void pages_kept_mapped() {
    reload(limits);
    int shared[2];
    CHECK(pipe(shared) == 0);
    // Charged to whoever registers, where the kernel can (5.11).
    const char* const group = "/sys/fs/cgroup/kept";
    const bool charged = write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory") && mkdir(group, 0755) == 0;
    CHECK(charged);
    const auto of_group = [&] { return std::atol(read_file(std::string(group) + "/memory.current").c_str()); };
    const long before = used_memory();
    Other user(0, [&] {
        CHECK(write_file(std::string(group) + "/cgroup.procs", "0"));
        CHECK(become(1000));
        const int fd = open_device();
        CHECK(registers_process(fd));
        const long uncharged = of_group();
        auto pages = kept_pages(fd);
        CHECK_EQ(pages.size(), threads / 2);
        if (pages.size() < 2) return 0u;
        const long most = used_memory() - before, bytes = of_group() - uncharged, all = static_cast<long>(pages.size() * POLTER_PAGE_SIZE);
        std::printf("  %zu pages of %ld kB: %ld kB more in the machine, %ld kB in the cgroup\n", pages.size(), all / 1024, most,
                    bytes / 1024);
        CHECK(most < 2 * all / 1024 + 2000);
        if (kernel_at_least(5, 11)) CHECK(bytes > all);
        // A part of a mapping keeps the page.
        auto* last = static_cast<char*>(pages[0]) + POLTER_PAGE_SIZE - 4096;
        CHECK(munmap(pages[0], POLTER_PAGE_SIZE - 4096) == 0);
        CHECK(kept_page(fd) == nullptr && errno == EDQUOT);
        CHECK(munmap(last, 4096) == 0);
        // Its grace period may not be over yet.
        CHECK(soon([&] { return (pages[0] = kept_page(fd)) != nullptr; }));
        CHECK(kept_page(fd) == nullptr && errno == EDQUOT);
        // Somebody who may read his memory holds it by other means.
        const iovec piece{pages[1], 4096};
        CHECK(vmsplice(shared[1], &piece, 1, 0) == 4096);
        CHECK(munmap(pages[1], POLTER_PAGE_SIZE) == 0);
        CHECK(kept_page(fd) == nullptr && errno == EDQUOT);
        close(fd);
        return static_cast<unsigned>(pages.size());
    });
    CHECK_EQ(user.number(), threads / 2);
    CHECK_EQ(status().pages, threads / 2);
    // Not the module's any more, and nobody else's.
    CHECK(unload_module());
    CHECK(load_module(limits));
    CHECK_EQ(status().pages, 0);
    user.end();
    CHECK(unload_module());
    char byte[4096];
    CHECK(read(shared[0], byte, sizeof byte) == sizeof byte);
    CHECK_EQ(reinterpret_cast<const polter_page_header*>(byte)->magic, POLTER_PAGE_MAGIC);
    CHECK_EQ(reinterpret_cast<const polter_page_header*>(byte)->state, POLTER_PAGE_FROZEN);
    close(shared[0]), close(shared[1]);
    CHECK(soon([&] { return rmdir(group) == 0; }));
    CHECK(load_module());
}

namespace {

// How long it takes until so many processes that wait for it have all done something, and not gone yet.
std::uint64_t at_once(unsigned count, const std::function<bool()>& body) {
    int go[2], done[2], end[2];
    CHECK(pipe(go) == 0 && pipe(done) == 0 && pipe(end) == 0);
    std::vector<pid_t> pids;
    for (unsigned i = 0; i < count; i++)
        pids.push_back(child([&] {
            char byte = 0;
            close(go[1]), close(end[1]);
            (void)!read(go[0], &byte, 1);
            byte = body();
            (void)!write(done[1], &byte, 1);
            (void)!read(end[0], &byte, 1);
            return 0;
        }));
    const std::uint64_t start = now_ns();
    close(go[1]);
    unsigned good = 0;
    for (unsigned i = 0; i < count; i++) {
        char byte = 0;
        (void)!read(done[0], &byte, 1);
        good += byte;
    }
    const std::uint64_t took = now_ns() - start;
    CHECK_EQ(good, count);
    close(end[1]);
    for (const pid_t pid : pids) wait_for(pid);
    for (const int fd : {go[0], done[0], done[1], end[0]}) close(fd);
    return took;
}

}  // namespace

// Nobody who registers waits for others' grace periods of RCU, which would come one after the other.
void registers_at_once() {
    constexpr unsigned count = 512;
    // On a busy machine the emulated one is slow, while grace periods take their time anyway: one of three runs must be quick.
    bool quick = false;
    for (int i = 0; i < 3 && !quick; i++) {
        const std::uint64_t before = now_ns();
        CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0);
        const std::uint64_t grace = now_ns() - before;
        const std::uint64_t alone =
            4 * at_once(count / 4, [] {
                const int fd = open_device();
                void* page = mmap(nullptr, POLTER_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
                close(fd);
                return fd >= 0 && page != MAP_FAILED;
            });
        const std::uint64_t took = at_once(count, [] {
            auto* session = new Session;
            return session->open().release() != nullptr;
        });
        std::printf("  %u processes in %llu ms, %llu ms without registering; a grace period takes %llu us\n", count,
                    static_cast<unsigned long long>(took / ms), static_cast<unsigned long long>(alone / ms),
                    static_cast<unsigned long long>(grace / 1000));
        quick = took < 8 * alone || took - alone < count * grace / 3;
        CHECK(soon([] { return status().processes == 0 && status().pages == 0; }));
    }
    CHECK(quick);
}

}  // namespace guest
