// SPDX-License-Identifier: BSD-3-Clause
// Loads polter.bpf.o and keeps its maps.
#include "backend.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "../accounting/started.h"
#include "../accounting/state.h"
#include "function_ends.hpp"
#include "page_pool.hpp"
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

// Programs of this object beside the shared ones. Without on_exec a page would show the noise of a program with more privileges.
constexpr Part own_parts[] = {{"on_work", "workqueue_execute_start", 0},
                              {"on_fork", "sched_process_fork", 0},
                              {"on_exec", "sched_process_exec", account_bit(POLTER_PREEMPT)}};

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
    unsigned pages_ready() const override { return pool_->ready(); }
    void want_pages(unsigned waiting) override { pool_->want(waiting); }
    int pages_event() const override { return pool_->event(); }
    Failure take_pages_event() override { return pool_->take_event(); }
    std::optional<std::set<std::uint32_t>> pages_in_memory() const override;
    Failure add_process(pid_t tgid, std::uint64_t job, Owner owner) override;
    void remove_process(pid_t tgid) override;
    bool has_process(pid_t tgid) const override;
    std::variant<Page, std::string> add_thread(pid_t tgid, pid_t tid) override;
    void remove_thread(std::uint32_t number) override;
    bool has_thread(pid_t tid) const override;

  private:
    struct Process {
        polter_process process;
        std::set<std::uint32_t> threads;  // numbers
    };
    struct Thread {
        pid_t tid, tgid;
    };

    Failure load_and_attach();
    void attach_fault_end();
    void refresh_net_irqs();
    polter_tids& bucket_of(pid_t tid) const {
        return object_->bss->tids[polter_tids_bucket(static_cast<std::uint32_t>(tid), object_->rodata->tids_seed)];
    }
    // Room for a tid in the programs' table; NULL: there is none.
    std::uint32_t* empty_way(pid_t tid) const {
        for (auto& way : bucket_of(tid).tid)
            if (way == 0) return &way;
        return nullptr;
    }
    void forget(std::uint32_t number, pid_t tid);
    void filter(pid_t tid, bool enters);
    // What the CPUs know of the threads that run on them is out of date.
    void table_changed() { __atomic_fetch_add(&object_->bss->tids_generation, 1u, __ATOMIC_SEQ_CST); }
    void freeze(const std::vector<std::uint32_t>& numbers);
    bool lookup(std::uint32_t number, polter_thread& thread) const {
        return bpf_map_lookup_elem(bpf_map__fd(object_->maps.threads), &number, &thread) == 0;
    }
    template <std::size_t N>
    static int run(const bpf_program* program, std::uint64_t (&arguments)[N]);

    polter_bpf* object_ = nullptr;
    std::vector<bpf_link*> links_;
    std::unique_ptr<PagePool> pool_;
    std::map<pid_t, Process> processes_;
    std::map<std::uint32_t, Thread> threads_;  // by number
    std::map<std::uint32_t, unsigned> filtered_;  // how many threads a bit of the filter stands for
    int page_list_ = -1;                       // a link to the iterator
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
        (void)!getrandom(&object_->rodata->tids_seed, sizeof object_->rodata->tids_seed, 0);
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
    // Prepare the first pages while the programs are being attached.
    pool_ = std::make_unique<PagePool>(bpf_map__fd(object_->maps.pages), POLTER_BPF_THREADS);
    if (auto failure = pool_->start()) return failure;
    if (auto failure = attach(object_->obj, all_parts(), links_)) return failure;
    attach_fault_end();
    page_list_ = bpf_link_create(bpf_program__fd(object_->progs.list_pages), 0, BPF_TRACE_ITER, nullptr);
    if (page_list_ < 0) return fmt::format("cannot list the noise pages: {}", std::strerror(errno));
    return std::nullopt;
}

// Optional: where the kernel refuses it, faults are only counted.
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
    pool_.reset();
    if (page_list_ >= 0) close(std::exchange(page_list_, -1));
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

template <std::size_t N>
int Bpf::run(const bpf_program* program, std::uint64_t (&arguments)[N]) {
    LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof arguments);
    const int error = bpf_prog_test_run_opts(bpf_program__fd(program), &options);
    return error ? error : static_cast<int>(options.retval);
}

std::optional<std::set<std::uint32_t>> Bpf::pages_in_memory() const {
    const int list = bpf_iter_create(page_list_);
    if (list < 0) return std::nullopt;
    std::set<std::uint32_t> ids;
    std::array<std::uint32_t, 4096> some;
    ssize_t n;
    while ((n = read(list, some.data(), sizeof some)) > 0 || (n < 0 && errno == EAGAIN))
        if (n > 0) ids.insert(some.begin(), some.begin() + n / static_cast<ssize_t>(sizeof some[0]));
    close(list);
    if (n < 0) return std::nullopt;
    return ids;
}

Failure Bpf::add_process(pid_t tgid, std::uint64_t job, Owner owner) {
    refresh_net_irqs();
    const auto key = static_cast<__u32>(tgid);
    const polter_process process{job, owner.user, owner.names, 0, 0};
    if (bpf_map_update_elem(bpf_map__fd(object_->maps.processes), &key, &process, BPF_ANY) != 0)
        return fmt::format("bpf: cannot register process {}: {}", tgid, std::strerror(errno));
    processes_[tgid] = {process, {}};
    return std::nullopt;
}

void Bpf::remove_process(pid_t tgid) {
    const auto found = processes_.find(tgid);
    if (found == processes_.end()) return;
    const std::vector<std::uint32_t> numbers(found->second.threads.begin(), found->second.threads.end());
    for (const std::uint32_t number : numbers) forget(number, threads_.at(number).tid);
    freeze(numbers);
    const auto key = static_cast<__u32>(tgid);
    bpf_map_delete_elem(bpf_map__fd(object_->maps.processes), &key);
    processes_.erase(found);
}

std::variant<Page, std::string> Bpf::add_thread(pid_t tgid, pid_t tid) {
    const auto found = processes_.find(tgid);
    if (found == processes_.end()) return fmt::format("bpf: process {} is not registered", tgid);
    if (!has_process(tgid)) return fmt::format("bpf: process {} has executed another program since it registered", tgid);
    std::uint32_t* const way = empty_way(tid);
    if (!way) return fmt::format("bpf: no room for thread {} in the table of {} threads", tid, POLTER_BPF_THREADS);
    const auto page = pool_->take();
    if (!page) return fmt::format("bpf: no noise page is ready for thread {}", tid);
    polter_thread thread{};
    thread.tid = tid;
    thread.tgid = static_cast<std::uint32_t>(tgid);
    thread.page = page->number;
    thread.job = found->second.process.job;
    thread.owner = found->second.process.owner;
    thread.names = found->second.process.names;
    // The thread either waits for the answer, or still runs and will be seen to leave the CPU: this state is right for both.
    thread.off = POLTER_BLOCKED;
    std::uint64_t arguments[5] = {page->number, static_cast<std::uint64_t>(tid), static_cast<std::uint64_t>(tgid), accounts_seen(),
                                  now_ns()};
    const bool begun = run(object_->progs.begin_page, arguments) == 0;
    if (!begun || bpf_map_update_elem(bpf_map__fd(object_->maps.threads), &page->number, &thread, BPF_ANY) != 0) {
        const int error = errno;
        close(page->fd);
        pool_->retire({page->number});
        return fmt::format("bpf: cannot begin the noise page of thread {}: {}", tid, std::strerror(error));
    }
    way[POLTER_BPF_WAYS] = page->number;  // polter_tids.thread of the same way
    __atomic_store_n(way, static_cast<std::uint32_t>(tid), __ATOMIC_SEQ_CST);
    filter(tid, true);
    table_changed();
    found->second.threads.insert(page->number);
    threads_[page->number] = {tid, tgid};
    if (has_process(tgid)) return *page;
    // The process has executed another program meanwhile, before on_exec could find this thread.
    close(page->fd);
    remove_thread(page->number);
    return fmt::format("bpf: process {} has executed another program since it registered", tgid);
}

bool Bpf::has_process(pid_t tgid) const {
    const auto key = static_cast<__u32>(tgid);
    polter_process process{};
    return bpf_map_lookup_elem(bpf_map__fd(object_->maps.processes), &key, &process) == 0;
}

// The programs do not find the thread any more. Its id may belong to another thread by now, even a registered one, so identify the entry
// by its number.
void Bpf::forget(std::uint32_t number, pid_t tid) {
    auto& bucket = bucket_of(tid);
    for (unsigned way = 0; way < POLTER_BPF_WAYS; way++)
        if (bucket.tid[way] && bucket.thread[way] == number) __atomic_store_n(&bucket.tid[way], 0u, __ATOMIC_RELEASE);
    filter(tid, false);
    table_changed();
    threads_.erase(number);
}

void Bpf::filter(pid_t tid, bool enters) {
    const auto bit = polter_tids_filter_bit(static_cast<std::uint32_t>(tid), object_->rodata->tids_seed);
    auto& word = object_->bss->tids_filter[bit / 64];
    unsigned& threads = filtered_[bit];
    threads += enters ? 1 : -1;
    if (threads)
        __atomic_fetch_or(&word, 1ull << bit % 64, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and(&word, ~(1ull << bit % 64), __ATOMIC_SEQ_CST);
    if (!threads) filtered_.erase(bit);
}

void Bpf::freeze(const std::vector<std::uint32_t>& numbers) {
    for (std::size_t i = 0; i < numbers.size(); i += POLTER_BPF_FREEZE) {
        std::uint64_t arguments[1 + POLTER_BPF_FREEZE] = {now_ns()};
        for (std::size_t k = 0; k < POLTER_BPF_FREEZE; k++) arguments[1 + k] = i + k < numbers.size() ? numbers[i + k] : ~0u;
        run(object_->progs.freeze_pages, arguments);
    }
    pool_->retire(numbers);
}

void Bpf::remove_thread(std::uint32_t number) {
    const auto thread = threads_.find(number);
    if (thread == threads_.end()) return;
    const Thread was = thread->second;
    forget(number, was.tid);
    processes_.at(was.tgid).threads.erase(number);
    freeze({number});
}

bool Bpf::has_thread(pid_t tid) const {
    const auto& bucket = bucket_of(tid);
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
