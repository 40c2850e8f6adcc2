// SPDX-License-Identifier: BSD-3-Clause
// Loads node.bpf.o, begins and ends each CPU, reads its table.
#include "node.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "node.h"
#include "node.skel.h"
#include "programs.hpp"

namespace polter::node {
namespace {

using exporter::Failure;
using exporter::Part;
static_assert(ran == POLTER_NODE_RAN);

constexpr Part own_parts[] = {
    {"on_wakeup_new", "sched_wakeup_new", 0},
    {"on_work_start", "workqueue_execute_start", 0},
    {"on_work_end", "workqueue_execute_end", 0},
};

std::vector<Part> all_parts() {
    const auto shared = exporter::shared_parts();
    std::vector<Part> all(shared.begin(), shared.end());
    all.insert(all.end(), std::begin(own_parts), std::end(own_parts));
    return all;
}

std::uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

// The fourth number of /proc/loadavg.
unsigned threads_of_node() {
    std::ifstream file("/proc/loadavg");
    std::string word;
    for (int i = 0; i < 4; i++) file >> word;
    const auto slash = word.find('/');
    return slash == word.npos ? 0 : static_cast<unsigned>(std::strtoul(word.c_str() + slash + 1, nullptr, 10));
}

// What the hypervisor took of each CPU since the start: proc(5), the eighth column of /proc/stat.
std::map<unsigned, std::uint64_t> steal_by_cpu() {
    std::map<unsigned, std::uint64_t> steal;
    const auto tick_ns = 1'000'000'000u / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
    std::ifstream file("/proc/stat");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("cpu") || line.size() < 4 || line[3] == ' ') continue;
        std::istringstream fields(line.substr(3));
        unsigned cpu = 0;
        std::uint64_t value = 0;
        fields >> cpu;
        for (int i = 0; i < 8; i++) fields >> value;
        if (fields) steal[cpu] = value * tick_ns;
    }
    return steal;
}

class BpfObserver final : public Observer {
  public:
    ~BpfObserver() override {
        for (bpf_link* link : links_) bpf_link__destroy(link);
        if (object_) node_bpf__destroy(object_);
    }
    const char* name() const override { return "bpf"; }
    Failure start();
    Observation read() override;
    void stop() override;

  private:
    int run_on(unsigned cpu, const bpf_program* program);
    std::string culprit_of(const polter_node_key&);
    void read_cpus(Observation&);

    node_bpf* object_ = nullptr;
    std::vector<bpf_link*> links_;
    std::vector<unsigned> cpus_;
    std::map<unsigned, std::uint64_t> steal_before_, steal_after_;
    std::map<std::uint64_t, std::string> functions_;
    std::uint32_t seen_ = 0;
    std::uint64_t not_shown_ = 0;
};

Failure BpfObserver::start() {
    object_ = node_bpf__open();
    if (!object_) return fmt::format("cannot open the object: {}", std::strerror(errno));
    const auto parts = all_parts();
    if (auto failure = exporter::leave_out_missing(object_->obj, exporter::KernelTypes(), parts, seen_)) return failure;
    if (bpf_program__autoload(object_->progs.on_page_fault_user)) seen_ |= exporter::account_bit(POLTER_FAULT);
    seen_ |= exporter::account_bit(POLTER_STEAL);

    const auto cpus = static_cast<unsigned>(std::max(libbpf_num_possible_cpus(), 1));
    bpf_map__set_max_entries(object_->maps.cpus, cpus);
    bpf_map__set_max_entries(object_->maps.stats, std::min(2048 + 512 * cpus, 65536u));
    bpf_map__set_max_entries(object_->maps.tasks, std::clamp(4 * threads_of_node(), 4096u, 65536u));
    if (const int error = node_bpf__load(object_); error != 0) return exporter::load_failure(error, "this");
    exporter::fill_net_irqs(bpf_map__fd(object_->maps.net_irqs));
    if (auto failure = exporter::attach(object_->obj, parts, links_)) return failure;

    steal_before_ = steal_by_cpu();
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        const int error = run_on(cpu, object_->progs.begin_cpu);
        if (error == 0)
            cpus_.push_back(cpu);
        else if (error != -ENXIO)  // of a CPU that is not online
            return fmt::format("cannot begin on CPU {}: {}", cpu, std::strerror(-error));
    }
    return std::nullopt;
}

int BpfObserver::run_on(unsigned cpu, const bpf_program* program) {
    LIBBPF_OPTS(bpf_test_run_opts, options, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);
    const int error = bpf_prog_test_run_opts(bpf_program__fd(program), &options);
    return error ? error : -static_cast<int>(options.retval);
}

void BpfObserver::stop() {
    if (links_.empty()) return;
    for (const unsigned cpu : cpus_) run_on(cpu, object_->progs.end_cpu);
    steal_after_ = steal_by_cpu();
    not_shown_ = exporter::skipped(object_->obj);
    for (bpf_link* link : links_) bpf_link__destroy(link);
    links_.clear();
}

std::string BpfObserver::culprit_of(const polter_node_key& key) {
    if (key.kind == POLTER_CULPRIT_IDLE) return {};
    if (key.kind == POLTER_CULPRIT_NAME) return std::string(key.name, strnlen(key.name, sizeof key.name));
    std::uint64_t address = 0;
    std::memcpy(&address, key.name + 8, sizeof address);
    auto& name = functions_[address];
    if (name.empty()) {
        polter_function function{};
        const bool known = bpf_map_lookup_elem(bpf_map__fd(object_->maps.functions), &address, &function) == 0 && function.name[0];
        name = known ? fmt::format("work:{}", function.name) : "work:?";
    }
    return name;
}

void BpfObserver::read_cpus(Observation& out) {
    const auto state = std::make_unique<polter_node_cpu>();
    const auto steal = links_.empty() ? steal_after_ : steal_by_cpu();
    for (const unsigned cpu : cpus_) {
        if (bpf_map_lookup_elem(bpf_map__fd(object_->maps.cpus), &cpu, state.get()) != 0) continue;
        const auto after = steal.find(cpu);
        const auto before = std::as_const(steal_before_).find(cpu);
        const std::uint64_t stolen = before == steal_before_.end() || after == steal.end() ? 0 : after->second - before->second;
        out.cpus.push_back({cpu, state->begin_ns, state->end_ns ? state->end_ns : now_ns(), stolen});
        out.unbalanced += state->self.master.unbalanced;
        out.waits_not_followed += state->not_followed;
        for (unsigned account = 0; account <= POLTER_NODE_RAN; account++) {
            out.not_booked += state->not_booked[account];
            out.not_booked_ns += state->not_booked_ns[account];
        }
    }
}

Observation BpfObserver::read() {
    Observation out;
    out.accounts_seen = seen_;
    out.not_seen = exporter::cannot_see(seen_);
    out.events_not_shown = (links_.empty() ? not_shown_ : exporter::skipped(object_->obj)) + object_->bss->unseen_switches;
    read_cpus(out);

    std::map<std::tuple<unsigned, unsigned, bool, std::string>, std::size_t> known;
    const int map = bpf_map__fd(object_->maps.stats);
    polter_node_key key, previous;
    polter_node_stats stats;
    for (void* from = nullptr; bpf_map_get_next_key(map, from, &key) == 0; from = &previous) {
        previous = key;
        if (bpf_map_lookup_elem(map, &key, &stats) != 0) continue;
        // Names that differ behind their end only are one.
        Entry entry{key.cpu, key.account, key.idle != 0, culprit_of(key), {}};
        const auto [at, fresh] = known.try_emplace({entry.cpu, entry.account, entry.idle, entry.culprit}, out.entries.size());
        if (fresh) out.entries.push_back(std::move(entry));
        Stats read{stats.count, stats.total_ns, stats.max_ns, {}};
        for (unsigned i = 0; i < POLTER_BINS; i++) read.bin[i] = stats.bin[i];
        out.entries[at->second].stats += read;
    }
    return out;
}

}  // namespace

std::variant<std::unique_ptr<Observer>, std::string> bpf_observer() {
    auto observer = std::make_unique<BpfObserver>();
    if (auto failure = observer->start()) return *failure;
    return observer;
}

}  // namespace polter::node
