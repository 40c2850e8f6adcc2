// SPDX-License-Identifier: BSD-3-Clause
// The daemon's parts on their own: the registry on an invented backend, the look at peers, the search for network interrupts.
#include "registry.hpp"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#ifdef POLTER_HAVE_BPF
#include "bpf/net_irqs.hpp"
#endif

namespace {

using namespace polter::daemon;
using polter::exporter::Failure;
namespace fs = std::filesystem;

struct Invented : polter::exporter::Backend {
    std::map<pid_t, std::uint64_t> jobs;
    std::map<std::uint32_t, pid_t> live;  // by number, which is the page's id too
    std::set<std::uint32_t> existing;     // pages
    mutable unsigned looks = 0;
    std::uint32_t made = 0;
    unsigned ready = ~0u;
    Failure refuse;
    const char* name() const override { return "invented"; }
    polter_backend id() const override { return POLTER_BACKEND_NONE; }
    Failure start() override { return {}; }
    void stop() override {}
    std::uint32_t accounts_seen() const override { return 0; }
    std::uint32_t accounts_net() const override { return 0; }
    std::string cannot_see() const override { return ""; }
    std::uint64_t recursion_misses() const override { return 0; }
    unsigned pages_ready() const override { return ready; }
    void want_pages(unsigned) override {}
    int pages_event() const override { return -1; }
    Failure take_pages_event() override { return {}; }
    std::optional<std::set<std::uint32_t>> pages_in_memory() const override {
        ++looks;
        return existing;
    }
    Failure add_process(pid_t pid, std::uint64_t job, polter::exporter::Owner) override {
        if (!refuse) jobs[pid] = job;
        return refuse;
    }
    void remove_process(pid_t pid) override {
        jobs.erase(pid);
        live.clear();  // a test has threads of one process only
    }
    bool has_process(pid_t pid) const override { return jobs.contains(pid); }
    std::variant<polter::exporter::Page, std::string> add_thread(pid_t, pid_t tid) override {
        live[++made] = tid;
        existing.insert(made);
        return polter::exporter::Page{-1, made, made};
    }
    void remove_thread(std::uint32_t number) override { live.erase(number); }
    bool has_thread(pid_t tid) const override {
        return std::any_of(live.begin(), live.end(), [&](const auto& thread) { return thread.second == tid; });
    }
};

Peer peer(pid_t pid, uid_t uid) {
    return {pid, uid, -1};
}

struct Directory {
    fs::path path;
    Directory() {
        char name[] = "/tmp/polter-test-XXXXXX";
        path = mkdtemp(name);
    }
    ~Directory() { fs::remove_all(path); }
    void file(const fs::path& at, const std::string& text) const {
        fs::create_directories((path / at).parent_path());
        std::ofstream(path / at) << text;
    }
};

}  // namespace

TEST_CASE("a job is a user's and a number; without a number it is the process's own") {
    Invented backend;
    Registry registry(backend);
    for (const auto& [pid, uid, job] :
         {std::tuple<pid_t, uid_t, std::uint64_t>{1, 10, 5}, {2, 10, 5}, {3, 11, 5}, {4, 10, 6}, {5, 10, 0}, {6, 10, 0}})
        CHECK(registry.add_process(peer(pid, uid), job, 1).status == POLTER_OK);
    CHECK(backend.jobs[1] == backend.jobs[2]);
    const std::set<std::uint64_t> distinct{backend.jobs[1], backend.jobs[3], backend.jobs[4], backend.jobs[5], backend.jobs[6]};
    CHECK(distinct.size() == 5);
    CHECK_FALSE(distinct.contains(0));
    // A job that nobody is in any more is no job: its number does not come back.
    const auto old = backend.jobs[4];
    registry.remove_process(4);
    CHECK(registry.add_process(peer(7, 10), 6, 1).status == POLTER_OK);
    CHECK(backend.jobs[7] != old);
}

TEST_CASE("what the backend refuses is not registered") {
    Invented backend;
    Registry registry(backend);
    backend.refuse.emplace("no memory");
    const auto outcome = registry.add_process(peer(1, 10), 5, 1);
    CHECK(outcome.status == POLTER_BACKEND_FAILED);
    CHECK(outcome.text == "no memory");
    CHECK_FALSE(registry.has_process(1));
    backend.refuse.reset();
    CHECK(registry.add_process(peer(1, 10), 5, 1).status == POLTER_OK);
    CHECK(registry.add_process(peer(1, 10), 5, 1).status == POLTER_ALREADY);
    CHECK(registry.add_process(peer(2, 10), 5, POLTER_MAX_THREADS_PROCESS + 1).status == POLTER_NO_ROOM);
}

TEST_CASE("a thread is looked for among those of its process, by its own name for itself") {
    const pid_t pid = getpid(), tid = static_cast<pid_t>(syscall(SYS_gettid));
    CHECK(thread_of(pid, tid) == tid);
    CHECK_FALSE(thread_of(pid, 1));
    CHECK_FALSE(thread_of(1, tid));
    CHECK_FALSE(thread_of(pid, 0));
    CHECK_FALSE(thread_of(-1, -1));
    Directory proc;  // process 700 in a namespace where its threads are 1 and 702
    proc.file("700/status", "Name:\tx\nNSpid:\t700\t1\n");
    proc.file("700/task/700/status", "Name:\tx\nNSpid:\t700\t1\n");
    proc.file("700/task/702/status", "Name:\tx\nNSpid:\t702\t9\n");
    proc.file("700/task/709/status", "Name:\tx\nNSpid:\t709\t702\n");
    CHECK(thread_of(700, 1, proc.path) == 700);
    CHECK(thread_of(700, 9, proc.path) == 702);
    CHECK(thread_of(700, 702, proc.path) == 709);
    CHECK_FALSE(thread_of(700, 700, proc.path));
}

TEST_CASE("a search looks at few threads at a time, and at none where ids are those of here") {
    Directory proc;
    proc.file("700/status", "NSpid:\t700\n");
    proc.file("700/task/700/status", "NSpid:\t700\n");
    CHECK(ThreadSearch(700, 701, proc.path).step(0) == ThreadSearch::State::none);
    proc.file("800/status", "NSpid:\t800\t1\n");
    for (int i = 1; i <= 100; i++)
        proc.file("800/task/" + std::to_string(799 + i) + "/status",
                  "NSpid:\t" + std::to_string(799 + i) + "\t" + std::to_string(i) + "\n");
    ThreadSearch search(800, 101, proc.path);
    int steps = 1;
    while (search.step(10) == ThreadSearch::State::more) steps++;
    CHECK(steps >= 10);
    CHECK(search.tid() == 0);
    CHECK(thread_of(800, 77, proc.path) == 876);
}

TEST_CASE("a share is half of what the others leave") {
    CHECK(within_share(49, 49, 100, false));
    CHECK_FALSE(within_share(50, 50, 100, false));
    CHECK(within_share(24, 74, 100, false));
    CHECK_FALSE(within_share(25, 75, 100, false));
    CHECK(within_share(99, 99, 100, true));
    CHECK_FALSE(within_share(0, 100, 100, true));
    // However many users come, each finds something.
    unsigned taken = 0;
    for (int user = 0; user < 5; user++) {
        unsigned own = 0;
        while (within_share(own, taken, 1000, false)) own++, taken++;
        CHECK(own > 0);
    }
}

TEST_CASE("who has taken the least time is served next; nobody saves time up") {
    Turns turns;
    for (std::uint64_t i = 0; i < 100; i++) turns.add(1, i);
    turns.add(2, 1000);
    turns.add(2, 1001);
    std::map<uid_t, int> served;
    for (int i = 0; i < 4; i++) {
        const auto turn = turns.next();
        REQUIRE(turn);
        served[turn->user]++;
        turns.charge(turn->user, 10);
    }
    CHECK(served[1] == 2);
    CHECK(served[2] == 2);
    for (int i = 0; i < 50; i++) turns.charge(turns.next()->user, 10);
    turns.add(3, 2000);  // came late: it is owed nothing, and is not behind either
    turns.add(3, 2001);
    CHECK(turns.next()->user != 0);
    turns.charge(3, 1000);
    turns.set_aside(2, 1002);
    CHECK(turns.set_aside() == 1);
    for (int i = 0; i < 30; i++)
        if (const auto turn = turns.next()) {
            CHECK(turn->request != 1002);
            turns.charge(turn->user, 1);
        }
    turns.wake();
    CHECK(turns.set_aside() == 0);
    bool woken = false;
    while (const auto turn = turns.next()) woken |= turn->request == 1002;
    CHECK(woken);
    CHECK_FALSE(turns.any());
}

TEST_CASE("a page that was given back counts for its user until it is gone") {
    Invented backend;
    Registry registry(backend);
    const Peer self = peer(getpid(), 10);
    REQUIRE(registry.add_process(self, 0, 1).status == POLTER_OK);
    const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
    const auto once = [&] {
        ThreadSearch search(self.pid, tid);
        Outcome outcome = registry.add_thread(self, tid, search);
        while (outcome.again == Outcome::Again::after_look) {
            usleep(1000);
            outcome = registry.add_thread(self, tid, search);
        }
        if (outcome.status == POLTER_OK) registry.remove_thread(self, tid, outcome.slot);
        return outcome;
    };
    for (unsigned i = 0; i < POLTER_MAX_THREADS / 2; i++) REQUIRE(once().status == POLTER_OK);
    const auto refused = once();
    CHECK(refused.status == POLTER_NO_ROOM);
    CHECK(refused.text.find("still mapped") != std::string::npos);
    CHECK(backend.looks == 1);
    backend.existing.clear();
    CHECK(once().status == POLTER_OK);
    CHECK(backend.looks == 2);
    // Where no page is ready, it is to be asked again.
    backend.ready = 0;
    CHECK(once().again == Outcome::Again::with_page);
}

#ifdef POLTER_HAVE_BPF
TEST_CASE("the interrupts of network devices") {
    Directory root;
    const fs::path pci = root.path / "sys/devices/pci0000:00";
    for (const char* line : {"37", "38", "x"}) root.file(fs::path("sys/devices/pci0000:00/0000:00:03.0/msi_irqs") / line, "");
    root.file("sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/mtu", "");
    root.file("sys/devices/pci0000:00/0000:00:04.0/msi_irqs/50", "");  // a disk
    root.file("sys/devices/pci0000:00/0000:00:05.0/irq", "11\n");
    root.file("sys/devices/pci0000:00/0000:00:05.0/net/eth1/mtu", "");
    root.file("sys/devices/virtual/net/lo/mtu", "");
    fs::create_directory_symlink("../../../virtio2", pci / "0000:00:03.0/virtio2/net/eth0/device");
    fs::create_directory_symlink("../../../0000:00:05.0", pci / "0000:00:05.0/net/eth1/device");
    fs::create_directories(root.path / "sys/class/net");
    fs::create_directory_symlink(pci / "0000:00:03.0/virtio2/net/eth0", root.path / "sys/class/net/eth0");
    fs::create_directory_symlink(pci / "0000:00:05.0/net/eth1", root.path / "sys/class/net/eth1");
    fs::create_directory_symlink(root.path / "sys/devices/virtual/net/lo", root.path / "sys/class/net/lo");
    root.file("proc/interrupts", "   CPU0\n  9:   1  PCI  acpi\n 60:  4  PCI  eth1-rx-0\n 61: 3 PCI nvme0q1\nLOC:  5  eth1\n");
    CHECK(polter::exporter::net_irqs(root.path / "sys", root.path / "proc") == std::set<unsigned>{11, 37, 38, 60});
    CHECK(polter::exporter::net_irqs("/nonexistent", "/nonexistent").empty());
}
#endif
