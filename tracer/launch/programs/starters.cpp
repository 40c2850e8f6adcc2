// SPDX-License-Identifier: BSD-3-Clause
#include "starters.hpp"

#include <filesystem>

namespace polter::launch {
namespace {

using Kind = StarterKind;

// Launchers of both MPIs: Open MPI 4 and 5 (orterun(1), prterun(1)), Hydra and Intel MPI (mpiexec -help). Options that both have under
// one name agree in their values.
constexpr std::string_view mpi_one_value =
    "n np c N H host hosts hostfile machinefile f file default-hostfile x map-by bind-to rank-by wdir wd path prefix output-filename "
    "output app rankfile rf cpus-per-proc cpus-per-rank npersocket npernode ppr cpu-list cpu-set slot-list preload-files stdin timeout "
    "report-uri personality ompi-server dvm hnp dvm-uri max-restarts am tune xterm with-ft display runtime-options launch-agent debugger "
    "genvlist envlist configfile membind ppn perhost grr outfile-pattern errfile-pattern bootstrap launcher rmk bootstrap-exec "
    "launcher-exec bootstrap-exec-args launcher-exec-args iface demux usize soft arch topolib order-nodes nameserver gpus-per-proc "
    "port-range hostlist";
constexpr std::string_view mpi_two_values = "mca gmca omca prtemca pmixmca env genv gtemca";

constexpr std::string_view srun_one_value =
    "A account a acctg-freq B extra-node-info bb bbf b begin C constraint c cpus-per-task cpus-per-gpu cpu-bind cpu-freq D chdir d "
    "dependency deadline delay-boot e error E epilog export F nodefile G gpus gpu-bind gpu-freq gpus-per-node gpus-per-socket "
    "gpus-per-task gres het-group hint i input J job-name jobid j L licenses M clusters m distribution mem mem-per-cpu mem-per-gpu "
    "mem-bind mpi msg-timeout N nodes n ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket nice network o output "
    "p partition power priority profile prolog q qos r relative R reservation S core-spec signal slurmd-debug sockets-per-node "
    "cores-per-socket "
    "switches T threads task-epilog task-prolog t time thread-spec threads-per-core time-min tmp tres-bind tres-per-task W wait w nodelist "
    "wckey x exclude open-mode";

constexpr Starter starters[] = {
    {Kind::mpi_launcher, "mpirun* mpiexec* orterun* prterun* oshrun* shmemrun*", mpi_one_value, mpi_two_values},
    {Kind::other_launcher, "srun", srun_one_value, ""},
    {Kind::other_launcher, "aprun", "n N d S j cc L a b m e p", ""},
    {Kind::other_launcher, "jsrun",
     "n nrs a tasks_per_rs c cpu_per_rs g gpu_per_rs r rs_per_host b bind d launch_distribution p np E env l", ""},
    {Kind::other_launcher, "flux", "n ntasks N nodes c cores-per-task g gpus-per-task t time-limit o setopt", "", 1},
    {Kind::wrapper, "env", "u unset C chdir", "", 0, true},
    {Kind::wrapper, "timeout", "k kill-after s signal", "", 1},
    {Kind::wrapper, "nice", "n adjustment", ""},
    {Kind::wrapper, "ionice", "c class n classdata", ""},
    {Kind::wrapper, "time", "f format o output", ""},
    {Kind::wrapper, "nohup setsid catchsegv exec command builtin !", "", ""},
    {Kind::wrapper, "stdbuf", "i input o output e error", ""},
    {Kind::wrapper, "numactl", "i interleave w weighted-interleave m membind p preferred P preferred-many N cpunodebind C physcpubind", ""},
    {Kind::wrapper, "taskset", "", "", 1},
    {Kind::wrapper, "chrt", "T sched-runtime P sched-period D sched-deadline", "", 1},
    {Kind::wrapper, "setarch", "", "", 1},
    {Kind::wrapper, "strace ltrace", "a b e E I o O p P s S u U X z A F l n w x", ""},
    {Kind::wrapper, "valgrind* gdb", "ex iex x ix cd d", ""},
    {Kind::wrapper, "xargs", "a arg-file d delimiter E I L n max-args P max-procs s max-chars", ""},
    {Kind::wrapper, "sudo", "u user g group h host p prompt C close-from T command-timeout r role t type R chroot D chdir", "", 0, true},
    {Kind::wrapper, "apptainer singularity", "B bind H home W workdir pwd cwd o overlay S scratch env env-file network", "", 2},
    {Kind::wrapper, "setpriv", "reuid regid ruid rgid euid egid groups inh-caps ambient-caps bounding-set securebits pdeathsig", ""},
    {Kind::wrapper, "runuser", "u user g group G supp-group", ""},
    {Kind::wrapper, "unshare nsenter", "t target S setuid G setgid R root w wd propagation setgroups", ""},
    {Kind::wrapper, "chroot", "", "", 1},
    {Kind::wrapper, "prlimit cgexec", "g o output", ""},
    {Kind::wrapper, "systemd-run", "p property u unit E setenv slice uid gid d working-directory nice", ""},
    {Kind::wrapper, "perf", "e event o output F freq c count C cpu p pid t tid g", "", 1},
    {Kind::shell, "sh bash dash zsh ksh* busybox", "o O rcfile init-file", ""},
    {Kind::interpreter, "csh tcsh R Rscript java python* perl* ruby* julia* lua* node make", "", ""},
};

bool in_list(std::string_view list, std::string_view name) {
    for (size_t begin = 0; begin < list.size();) {
        const size_t end = std::min(list.find(' ', begin), list.size());
        const auto known = list.substr(begin, end - begin);
        if (known == name || (known.ends_with('*') && name.starts_with(known.substr(0, known.size() - 1)))) return true;
        begin = end + 1;
    }
    return false;
}

bool is_assignment(const std::string& word) {
    const size_t equals = word.find('=');
    return equals != 0 && equals != word.npos && word.find('/') > equals;
}

// How many words behind an option belong to it. Unset in `known`: the table does not have it.
int values_of(const Starter& starter, const std::string& option, bool& known) {
    known = true;
    const auto name = std::string_view(option).substr(std::min(option.find_first_not_of('-'), option.size()));
    if (name.find('=') != name.npos) return 0;
    if (in_list(starter.two_values, name)) return 2;
    if (in_list(starter.one_value, name)) return 1;
    if (!option.starts_with("--") && starter.kind != Kind::mpi_launcher)  // letters may be joined, the last one with its value
        for (size_t i = 0; i < name.size(); ++i)
            if (in_list(starter.one_value, name.substr(i, 1))) return i + 1 == name.size() ? 1 : 0;
    known = starter.kind != Kind::mpi_launcher && starter.kind != Kind::other_launcher;
    return 0;
}

}  // namespace

const Starter* find_starter(const std::string& path) {
    const auto name = std::filesystem::path(path).filename().string();
    for (const auto& starter : starters)
        if (in_list(starter.names, name)) return &starter;
    return nullptr;
}

std::size_t program_at(const Starter& starter, std::span<const std::string> words, bool (*is_program)(const std::string&)) {
    int operands = starter.operands;
    bool may_be_value = false;
    std::size_t i = 1;
    while (i < words.size()) {
        const auto& word = words[i];
        if (word == "--") return std::min(i + 1 + static_cast<std::size_t>(operands), words.size());
        if (word.size() > 1 && word.front() == '-') {
            bool known = true;
            i += 1 + static_cast<std::size_t>(values_of(starter, word, known));
            may_be_value = !known;
            continue;
        }
        const bool passed = (starter.assignments && is_assignment(word)) || operands > 0 || (may_be_value && !is_program(word));
        if (!passed) return i;
        if (!(starter.assignments && is_assignment(word)) && operands > 0) --operands;
        may_be_value = false;
        ++i;
    }
    return words.size();
}

}  // namespace polter::launch
