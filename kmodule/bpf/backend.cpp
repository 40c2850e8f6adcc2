// SPDX-License-Identifier: BSD-3-Clause
// Loads polter.bpf.o and keeps its maps.
#include "backend.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "../accounting/state.h"
#include "function_ends.hpp"
#include "programs.hpp"
#include "steal.hpp"
// The skeleton needs the types.
// clang-format off
#include "tids.h"
#include "polter.skel.h"
// clang-format on

namespace polter::exporter {
namespace {

std::uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

// Those of the object alone, beside the shared ones. Without on_exec a page would show the noise of a program with more rights.
constexpr Part own_parts[] = {{"on_work", "workqueue_execute_start", 0}, {"on_exec", "sched_process_exec", account_bit(POLTER_PREEMPT)}};

std::vector<Part> all_parts() {
    const auto shared = shared_parts();
    std::vector<Part> all(shared.begin(), shared.end());
    all.insert(all.end(), std::begin(own_parts), std::end(own_parts));
    return all;
}

class Bpf final : public Backend {
  public:
    ~Bpf() override { stop(); }

    const char* name() const override { return "bpf"; }
    polter_backend id() const override { return POLTER_BACKEND_BPF; }
    Failure start() override;
    void stop() override;
    std::uint32_t accounts_seen() const override { return seen_; }
    std::uint32_t accounts_net() const override { return seen_; }
    std::string cannot_see() const override;
    std::uint64_t recursion_misses() const override;
    Failure add_process(pid_t tgid, std::uint64_t job, unsigned slots, Owner owner) override;
    void remove_process(pid_t tgid) override;
    bool has_process(pid_t tgid) const override;
    int pages(pid_t tgid) const override;
    Failure add_thread(pid_t tgid, pid_t tid, unsigned slot) override;
    void remove_thread(pid_t tgid, pid_t tid, unsigned slot) override;
    bool has_thread(pid_t tid) const override;

  private:
    struct Thread {
        pid_t tid;
        std::uint32_t number;
    };
    struct Pages {
        int fd;
        unsigned slots;
        std::uint32_t number;
        std::map<unsigned, Thread> threads;  // by slot
    };
    // Numbers are given out in turn, so that what a program still does with one on another CPU is over before it is used again.
    struct Numbers {
        explicit Numbers(std::uint32_t n) : used(n) {}
        std::vector<bool> used;
        std::size_t next = 0;
        std::optional<std::uint32_t> take() {
            for (std::size_t i = 0; i < used.size(); i++) {
                const std::size_t n = (next + i) % used.size();
                if (used[n]) continue;
                used[n] = true;
                next = n + 1;
                return static_cast<std::uint32_t>(n);
            }
            return std::nullopt;
        }
        void give_back(std::uint32_t n) { used[n] = false; }
    };

    Failure load_and_attach();
    void attach_fault_end();
    void refresh_net_irqs();
    // Room for a tid in the programs' table; NULL: there is none.
    std::uint32_t* empty_way(pid_t tid) const {
        for (auto& way : object_->bss->tids[static_cast<std::uint32_t>(tid) % POLTER_BPF_BUCKETS].tid)
            if (way == 0) return &way;
        return nullptr;
    }
    bool lookup(std::uint32_t number, polter_thread& thread) const {
        return bpf_map_lookup_elem(bpf_map__fd(object_->maps.threads), &number, &thread) == 0;
    }
    static int run(const bpf_program* program, std::uint64_t (&arguments)[4]);

    polter_bpf* object_ = nullptr;
    std::vector<bpf_link*> links_;
    std::map<pid_t, Pages> processes_;
    Numbers process_numbers_{POLTER_BPF_PROCESSES}, thread_numbers_{POLTER_BPF_THREADS};
    std::uint32_t seen_ = 0;
    int fault_end_refused_ = 0;  // an errno: why page faults are not timed
    std::uint64_t irqs_refreshed_ns_ = 0;
};

Failure Bpf::start() {
    // PROC_PID_INIT_INO: the kernel side names tasks by the initial namespace's ids, which cannot be had elsewhere.
    struct stat self;
    if (stat("/proc/self/ns/pid", &self) == 0 && self.st_ino != 0xEFFFFFFCu)
        return "bpf: polterd runs in a pid namespace of its own (a container); start it on the host, and give the container its socket";
    const KernelTypes types;
    object_ = polter_bpf__open();
    if (!object_) return fmt::format("bpf: cannot open the object: {}", std::strerror(errno));
    Failure failure = leave_out_missing(object_->obj, types, all_parts(), seen_);
    if (!failure) {
        const Hypervisor above = hypervisor();
        const bool booked =
            above == Hypervisor::tells && (types.has_member("rq", "prev_steal_time") || types.has_member("rq", "prev_steal_time_rq"));
        object_->rodata->has_steal = booked;
        if (booked || above == Hypervisor::none) seen_ |= account_bit(POLTER_STEAL);
        // struct vm_area_struct*, address, flags, struct pt_regs*: bce617edecad ("mm: do page fault accounting in handle_mm_fault", 5.9)
        fault_end_refused_ = refuses_ends_of(types, "handle_mm_fault", 4);
        object_->rodata->has_fault_end = fault_end_refused_ == 0;
        bpf_program__set_autoload(object_->progs.on_fault_handled, fault_end_refused_ == 0);
        failure = load_and_attach();
    }
    if (!failure) return std::nullopt;
    stop();
    return "bpf: " + *failure;
}

Failure Bpf::load_and_attach() {
    const int cpus = libbpf_num_possible_cpus();
    if (cpus > 0) bpf_map__set_max_entries(object_->maps.cpus, static_cast<__u32>(cpus));
    if (const int error = polter_bpf__load(object_); error != 0) return load_failure(error, "polterd");
    refresh_net_irqs();
    if (auto failure = attach(object_->obj, all_parts(), links_)) return failure;
    attach_fault_end();
    return std::nullopt;
}

// Goes without where it is refused: faults are counted then.
void Bpf::attach_fault_end() {
    if (!bpf_program__autoload(object_->progs.on_fault_handled)) return;
    bpf_link* link = bpf_program__attach(object_->progs.on_fault_handled);
    if (!link) {
        fault_end_refused_ = errno;
        return;
    }
    links_.push_back(link);
    if (bpf_program__autoload(object_->progs.on_page_fault_user) && bpf_program__autoload(object_->progs.on_page_fault_kernel))
        seen_ |= account_bit(POLTER_FAULT);
    else
        fault_end_refused_ = ENOENT;
}

void Bpf::stop() {
    while (!processes_.empty()) remove_process(processes_.begin()->first);
    for (bpf_link* link : links_) bpf_link__destroy(link);
    links_.clear();
    if (object_) polter_bpf__destroy(object_);
    object_ = nullptr;
}

std::string Bpf::cannot_see() const {
    std::string text = exporter::cannot_see(seen_);
    if (!(seen_ & account_bit(POLTER_FAULT)))  // the last of them
        text += fmt::format(", and this kernel lets no program be attached where they have been handled ({})",
                            std::strerror(fault_end_refused_));
    return text + (object_->rodata->has_steal ? "; steal: no finer than a timer tick" : "");
}

std::uint64_t Bpf::recursion_misses() const {
    return skipped(object_->obj) + object_->bss->unseen_switches;
}

// Interfaces come and go; looked at again when a process registers, so that an idle daemon stays idle.
void Bpf::refresh_net_irqs() {
    const std::uint64_t now = now_ns();
    if (irqs_refreshed_ns_ && now - irqs_refreshed_ns_ < 10'000'000'000u) return;
    irqs_refreshed_ns_ = now;
    fill_net_irqs(bpf_map__fd(object_->maps.net_irqs));
}

int Bpf::run(const bpf_program* program, std::uint64_t (&arguments)[4]) {
    LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof arguments);
    const int error = bpf_prog_test_run_opts(bpf_program__fd(program), &options);
    return error ? error : static_cast<int>(options.retval);
}

Failure Bpf::add_process(pid_t tgid, std::uint64_t job, unsigned slots, Owner owner) {
    refresh_net_irqs();
    const auto number = process_numbers_.take();
    if (!number) return fmt::format("bpf: all of the {} processes of this node are taken", POLTER_BPF_PROCESSES);
    LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
    const int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "polter_pages", sizeof(__u32), POLTER_PAGE_SIZE, slots, &options);
    if (fd < 0) {
        const int error = errno;
        process_numbers_.give_back(*number);
        return fmt::format("bpf: no memory for {} noise pages of {} bytes: {}", slots, POLTER_PAGE_SIZE, std::strerror(error));
    }

    const auto page = std::make_unique<polter_page>();
    auto& header = page->header;
    polter_page_layout(&header, POLTER_BACKEND_BPF, accounts_seen());
    header.pid = tgid;
    int error = 0;
    for (__u32 slot = 0; slot < slots && !error; slot++) error = bpf_map_update_elem(fd, &slot, page.get(), BPF_ANY);
    // From here on user space, this daemon included, can only read; so the descriptor may be handed out.
    if (!error) error = bpf_map_freeze(fd);
    const auto key = static_cast<__u32>(tgid);
    const polter_process process{job, owner.user, owner.names};
    if (!error) error = bpf_map_update_elem(bpf_map__fd(object_->maps.processes), &key, &process, BPF_ANY);
    if (!error) error = bpf_map_update_elem(bpf_map__fd(object_->maps.pages), &*number, &fd, BPF_ANY);
    if (error) {
        const std::string why = std::strerror(-error);
        bpf_map_delete_elem(bpf_map__fd(object_->maps.processes), &key);
        close(fd);
        process_numbers_.give_back(*number);
        return fmt::format("bpf: cannot set up the noise pages of process {}: {}", tgid, why);
    }
    processes_[tgid] = {fd, slots, *number, {}};
    return std::nullopt;
}

void Bpf::remove_process(pid_t tgid) {
    const auto found = processes_.find(tgid);
    if (found == processes_.end()) return;
    while (!found->second.threads.empty()) {
        const auto& [slot, thread] = *found->second.threads.begin();
        remove_thread(tgid, thread.tid, slot);
    }
    const auto key = static_cast<__u32>(tgid);
    bpf_map_delete_elem(bpf_map__fd(object_->maps.processes), &key);
    bpf_map_delete_elem(bpf_map__fd(object_->maps.pages), &found->second.number);
    process_numbers_.give_back(found->second.number);
    close(found->second.fd);
    processes_.erase(found);
}

int Bpf::pages(pid_t tgid) const {
    const auto found = processes_.find(tgid);
    return found == processes_.end() ? -1 : found->second.fd;
}

Failure Bpf::add_thread(pid_t tgid, pid_t tid, unsigned slot) {
    const auto found = processes_.find(tgid);
    if (found == processes_.end() || slot >= found->second.slots) return fmt::format("bpf: process {} has no noise page {}", tgid, slot);
    if (!has_process(tgid)) return fmt::format("bpf: process {} has executed another program since it registered", tgid);
    std::uint64_t arguments[4] = {found->second.number, slot, static_cast<std::uint64_t>(tid), now_ns()};
    if (run(object_->progs.begin_page, arguments) != 0) return fmt::format("bpf: cannot begin the noise page of thread {}", tid);

    const auto number = thread_numbers_.take();
    std::uint32_t* const free = empty_way(tid);
    if (!number || !free) {
        if (number) thread_numbers_.give_back(*number);
        return fmt::format("bpf: no room for thread {}: {} threads are accounted on this node", tid, POLTER_BPF_THREADS);
    }
    polter_process process{};
    const auto process_key = static_cast<__u32>(tgid);
    bpf_map_lookup_elem(bpf_map__fd(object_->maps.processes), &process_key, &process);
    polter_thread thread{};
    thread.tid = tid;
    thread.tgid = static_cast<std::uint32_t>(tgid);
    thread.slot = slot;
    thread.process = found->second.number;
    thread.job = process.job;
    thread.owner = process.owner;
    thread.names = process.names;
    // It waits for our answer, or still runs and will be seen to leave the CPU: both are right with this state.
    thread.off = POLTER_BLOCKED;
    if (bpf_map_update_elem(bpf_map__fd(object_->maps.threads), &*number, &thread, BPF_ANY) != 0) {
        const int error = errno;
        thread_numbers_.give_back(*number);
        return fmt::format("bpf: cannot account thread {}: {}", tid, std::strerror(error));
    }
    free[POLTER_BPF_WAYS] = *number;  // polter_tids.thread of the same way
    __atomic_store_n(free, static_cast<std::uint32_t>(tid), __ATOMIC_SEQ_CST);
    found->second.threads[slot] = {tid, *number};
    if (has_process(tgid)) return std::nullopt;
    // It has executed another program meanwhile, and on_exec did not find the thread yet.
    remove_thread(tgid, tid, slot);
    return fmt::format("bpf: process {} has executed another program since it registered", tgid);
}

bool Bpf::has_process(pid_t tgid) const {
    const auto key = static_cast<__u32>(tgid);
    polter_process process{};
    return bpf_map_lookup_elem(bpf_map__fd(object_->maps.processes), &key, &process) == 0;
}

void Bpf::remove_thread(pid_t tgid, pid_t, unsigned slot) {
    const auto found = processes_.find(tgid);
    if (found == processes_.end()) return;
    const auto thread = found->second.threads.find(slot);
    if (thread == found->second.threads.end()) return;
    // Its id may belong to another thread by now, even a registered one: the entry is known by the number.
    auto& bucket = object_->bss->tids[static_cast<std::uint32_t>(thread->second.tid) % POLTER_BPF_BUCKETS];
    for (unsigned way = 0; way < POLTER_BPF_WAYS; way++)
        if (bucket.tid[way] && bucket.thread[way] == thread->second.number) __atomic_store_n(&bucket.tid[way], 0u, __ATOMIC_RELEASE);
    thread_numbers_.give_back(thread->second.number);
    std::uint64_t arguments[4] = {found->second.number, slot, now_ns(), 0};
    run(object_->progs.freeze_page, arguments);
    found->second.threads.erase(thread);
}

bool Bpf::has_thread(pid_t tid) const {
    const auto& bucket = object_->bss->tids[static_cast<std::uint32_t>(tid) % POLTER_BPF_BUCKETS];
    for (unsigned way = 0; way < POLTER_BPF_WAYS; way++) {
        polter_thread thread;
        if (bucket.tid[way] == static_cast<std::uint32_t>(tid) && lookup(bucket.thread[way], thread) && !thread.gone) return true;
    }
    return false;
}

}  // namespace

std::unique_ptr<Backend> bpf_backend() {
    return std::make_unique<Bpf>();
}

}  // namespace polter::exporter
