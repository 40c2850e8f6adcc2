// SPDX-License-Identifier: BSD-3-Clause
#include "actions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace polter::advice {

namespace {

const std::string cpus_note = "<RANK_CPUS>: the CPUs that the ranks run on, <OTHER_CPUS>: the rest (lscpu -e; mpirun --report-bindings)";

// pgrep takes a pattern, and compares it with the first 15 bytes of the name, which is all that a trace has too.
std::string pids_of(const std::string& name) {
    std::string pattern;
    for (const char c : name) {
        if (std::string_view("\\.[]{}()*+?^$|").find(c) != std::string_view::npos) pattern += '\\';
        pattern += c;
    }
    return fmt::format("$(pgrep -x {})", shell_word(pattern));
}

bool is_slurm(const Place& place) {
    return place.command.find("srun") != std::string::npos;
}
bool is_mpich(const Place& place) {
    return place.mpi.starts_with("MPICH");
}

Action isolate() {
    return {"isolate the CPUs of the ranks when the machine boots",
            {"isolcpus=managed_irq,domain,<RANK_CPUS>"},
            "a parameter of the kernel's command line; ranks must then be bound to these CPUs. " + cpus_note};
}

Action bind(const Place& place) {
    if (is_slurm(place)) return {"bind each rank to a core of its own", {"srun --cpu-bind=cores --cpus-per-task=1 ..."}, ""};
    return {"bind each rank to a core of its own",
            {is_mpich(place) ? "mpiexec -bind-to core -map-by core ..." : "mpirun --bind-to core --map-by core ..."},
            ""};
}

bool no_other_cpus(const Place& place) {
    return place.cpus && *place.cpus <= place.ranks;
}

Action lower_priority(const std::string& pids) {
    return {"lower its priority, so that it runs only where a CPU is idle",
            {fmt::format("for p in {}; do chrt -a -i -p 0 $p; done", pids), "systemctl set-property --runtime <UNIT> CPUWeight=1"},
            "chrt acts among tasks of one scheduling group; CPUWeight on a service, which is a group of its own; with "
            "kernel.sched_autogroup_enabled=1 each session is one: echo 19 > /proc/<PID>/autogroup. Saves a little less: it still gets a "
            "small part of a busy CPU"};
}

void process(Suggestion& s, const std::string& name, const Place& place) {
    s.title = fmt::format("Keep {} off the CPUs of the ranks", name);
    const std::string pids = pids_of(name);
    const std::string unit = fmt::format("<UNIT>: as shown by ps -o unit= -p {}", pids);
    if (no_other_cpus(place)) {
        s.actions = {{"stop it while the job runs",
                      {fmt::format("kill -STOP {}", pids), fmt::format("kill -CONT {}", pids)},
                      fmt::format("the second afterwards; a service: systemctl stop <UNIT>. There is no other CPU for it: {} ranks on {} "
                                  "CPUs. If pgrep finds nothing, it is the name of a thread: ps -eLo pid,lwp,comm",
                                  place.ranks, *place.cpus)},
                     lower_priority(pids)};
        s.actions.back().note = unit + ". " + s.actions.back().note;
        return;
    }
    s.actions = {{"move it to other CPUs",
                  {fmt::format("for p in {}; do taskset -a -c -p <OTHER_CPUS> $p; done", pids)},
                  cpus_note + ". If pgrep finds nothing, it is the name of a thread: ps -eLo pid,lwp,comm"},
                 {"give its service other CPUs (systemd)",
                  {"systemctl set-property --runtime <UNIT> AllowedCPUs=<OTHER_CPUS>"},
                  unit + "; with cgroup v1 CPUAffinity= in the unit file"},
                 lower_priority(pids)};
}

void kworkers(Suggestion& s, const Place&) {
    s.title = "Keep kworkers off the CPUs of the ranks";
    const bool unbound = std::any_of(s.removed.begin(), s.removed.end(), [](const replay::Removal& removal) {
        return std::any_of(removal.culprits.begin(), removal.culprits.end(),
                           [](const std::string& c) { return c.starts_with("kworker/u"); });
    });
    if (unbound)
        s.actions.push_back({"allow unbound work (kworker/u...) on other CPUs only",
                             {"echo <MASK> > /sys/devices/virtual/workqueue/cpumask"},
                             "<MASK>: the CPUs that are not the ranks', in hexadecimal: fe is CPUs 1 to 7"});
    s.actions.push_back(isolate());
}

void interrupt(Suggestion& s, const std::string& name, const Place& place) {
    const auto known = place.interrupt_numbers.find(name);
    const std::string number = known == place.interrupt_numbers.end() ? "<N>" : std::to_string(known->second);
    s.title = known == place.interrupt_numbers.end() ? fmt::format("Move the interrupt of {} off the CPUs of the ranks", name)
                                                     : fmt::format("Move interrupt {} ({}) off the CPUs of the ranks", number, name);
    std::string note = cpus_note;
    if (known == place.interrupt_numbers.end()) note = fmt::format("<N>: grep {} /proc/interrupts. ", shell_word(name)) + note;
    s.actions = {{"set its CPUs",
                  {fmt::format("echo <OTHER_CPUS> > /proc/irq/{}/smp_affinity_list", number)},
                  note + ". irqbalance may move it back: IRQBALANCE_BANNED_CPULIST in /etc/default/irqbalance"}};
}

void all_interrupts(Suggestion& s) {
    s.title = "Move device interrupts off the CPUs of the ranks";
    s.actions = {{"set the CPUs of each",
                  {"for i in /proc/irq/[0-9]*; do echo <OTHER_CPUS> > $i/smp_affinity_list; done"},
                  "interrupts that the kernel manages itself refuse it. " + cpus_note},
                 isolate()};
}

void own_cpu(Suggestion& s, const Place& place) {
    s.title = "Give each rank a CPU of its own";
    const bool too_many = place.cpus && place.ranks > *place.cpus;
    if (!too_many) {
        s.actions.push_back(bind(place));
        s.actions.push_back(
            {"spread ranks that run already", {"taskset -a -c -p <CPU> <PID>"}, "<PID>: of each rank in turn, another <CPU> for each"});
        if (!place.allowed.empty() && place.cpus)
            s.actions.front().note = "not inside of what confines them now: taskset, a cpuset, or a binding of the launcher";
    }
    if (!place.cpus || too_many)
        s.actions.push_back(
            {"start at most one rank for each CPU, or take more machines",
             {is_slurm(place) ? "srun -n <CPUS> ..."
                              : fmt::format("{} -n {} ...", is_mpich(place) ? "mpiexec" : "mpirun",
                                            place.cpus ? std::to_string(*place.cpus) : "<CPUS>")},
             "the figure is for as many ranks as now, each on a CPU of its own; with fewer ranks each has more work, which is not in it"});
    if (place.cpus)
        s.evidence.push_back(
            fmt::format("{} ranks on a machine of {} CPUs{}", place.ranks, *place.cpus, too_many ? "" : ": there is one for each"));
    if (!place.rank_cpus.empty()) s.evidence.push_back(fmt::format("CPUs that the ranks may use: {}", place.rank_cpus));
}

void quota(Suggestion& s) {
    s.title = "Raise or remove the CPU quota of the job";
    s.actions = {{"cgroup v2",
                  {"echo max > /sys/fs/cgroup/<GROUP>/cpu.max"},
                  "<GROUP>: the path in /proc/<PID>/cgroup of a rank, or a group above it"},
                 {"cgroup v1",
                  {"echo -1 > /sys/fs/cgroup/cpu/<GROUP>/cpu.cfs_quota_us"},
                  "<GROUP>: the path on the cpu line of /proc/<PID>/cgroup, or one above it"},
                 {"systemd", {"systemctl set-property --runtime <UNIT> CPUQuota="}, "<UNIT>: as shown by ps -o unit= -p <PID>"},
                 {"containers",
                  {"docker update --cpus <CPUS> <CONTAINER>"},
                  "Kubernetes: resources.limits.cpu of the pod; <CPUS>: at least the number of ranks"}};
}

void tickless(Suggestion& s) {
    s.title = "Stop the timer tick on the CPUs of the ranks";
    s.actions = {
        {"run these CPUs without the tick",
         {"nohz_full=<RANK_CPUS> rcu_nocbs=<RANK_CPUS>"},
         "parameters of the kernel's command line (the kernel needs CONFIG_NO_HZ_FULL). Works where one rank has a CPU alone: bind "
         "the ranks. One tick a second remains. " +
             cpus_note}};
}

void leave_core_free(Suggestion& s, const Place& place) {
    s.title = "Leave a core free for other programs";
    const std::string fewer = place.cpus && *place.cpus > 1 ? std::to_string(*place.cpus - 1) : "<CPUS-1>";
    s.actions = {
        {"start one rank fewer for each machine",
         {is_slurm(place) ? "sbatch --core-spec=1 ..." : fmt::format("{} -n {} ...", is_mpich(place) ? "mpiexec" : "mpirun", fewer)},
         "bind the ranks, so that other programs find the free core. The figure is for as many ranks as now; with fewer each has "
         "more work, which is not in it"}};
}

void keep_others_off(Suggestion& s, const Place& place) {
    s.title = "Keep other programs off the CPUs of the ranks";
    s.actions = {{"give services and users other CPUs (systemd, cgroup v2)",
                  {"systemctl set-property --runtime system.slice AllowedCPUs=<OTHER_CPUS>",
                   "systemctl set-property --runtime user.slice AllowedCPUs=<OTHER_CPUS>"},
                  "the job must be outside of these slices: systemd-run --scope --slice=job.slice " +
                      std::string(is_mpich(place) ? "mpiexec" : "mpirun") + " ... as root. " + cpus_note},
                 isolate()};
}

void who_are_they(Suggestion& s) {
    if (std::any_of(s.removed.begin(), s.removed.end(), [](const replay::Removal& r) { return r.culprits.contains("unknown"); }))
        s.actions.push_back({"find out which programs they are", {"polter noise --seconds 10"}, "as root, while they run"});
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

// Where ranks are confined to some CPUs, these and the others are known.
void fill_cpus(Suggestion& s, const Place& place) {
    if (place.other_cpus.empty()) return;
    for (Action& action : s.actions) {
        for (std::string& command : action.commands) {
            replace_all(command, "<RANK_CPUS>", place.rank_cpus);
            replace_all(command, "<OTHER_CPUS>", place.other_cpus);
        }
        replace_all(action.note, cpus_note,
                    fmt::format("{}: CPUs that the ranks may use, {}: the others", place.rank_cpus, place.other_cpus));
    }
}

void describe_kind(Suggestion& s, const std::vector<std::string>& culprits, const Place& place) {
    const std::string& name = culprits.front();
    if (s.kind == "process") return process(s, name, place);
    if (s.kind == "kworkers") return kworkers(s, place);
    if (s.kind == "move_interrupt") return interrupt(s, name, place);
    if (s.kind == "all_interrupts") return all_interrupts(s);
    if (s.kind == "own_cpu") return own_cpu(s, place);
    if (s.kind == "cpu_quota") return quota(s);
    if (s.kind == "tickless") return tickless(s);
    if (s.kind == "leave_core_free") return leave_core_free(s, place);
    if (s.kind == "keep_others_off") return keep_others_off(s, place);
    if (s.kind == "pin_ranks") {
        s.title = "Pin the ranks: the scheduler moves them between CPUs";
        s.actions = {bind(place), {"pin a rank that runs", {"taskset -a -c -p <CPU> <PID>"}, ""}};
    } else if (s.kind == "hypervisor") {
        s.title = "Give the virtual machine CPUs of its own";
        s.actions = {{"on the host, pin its virtual CPUs",
                      {"virsh vcpupin <DOMAIN> <VCPU> <HOST_CPU>"},
                      "in a cloud: a machine with dedicated CPUs"}};
    } else if (s.kind == "nmi_watchdog") {
        s.title = "Switch the NMI watchdog off";
        s.actions = {{"until the next boot", {"sysctl kernel.nmi_watchdog=0"}, ""}};
    } else {  // kernel threads, inter-processor interrupts
        s.title = s.kind == "kernel_threads" ? "Keep kernel threads off the CPUs of the ranks"
                                             : "Keep inter-processor interrupts off the CPUs of the ranks";
        s.actions = {isolate()};
        if (s.kind == "kernel_threads")
            s.actions.push_back(
                {"move RCU callbacks to other CPUs", {"rcu_nocbs=<RANK_CPUS>"}, "a parameter of the kernel's command line"});
    }
}

}  // namespace

std::string shell_word(const std::string& word) {
    const auto plain = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               std::string_view("_-./:@+,=").find(c) != std::string_view::npos;
    };
    if (!word.empty() && word.front() != '-' && std::all_of(word.begin(), word.end(), plain)) return word;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

void describe(Suggestion& s, const std::vector<std::string>& culprits, const Place& place) {
    describe_kind(s, culprits, place);
    if (s.kind == "leave_core_free" || s.kind == "keep_others_off") who_are_they(s);
    fill_cpus(s, place);
}

}  // namespace polter::advice
