// SPDX-License-Identifier: BSD-3-Clause
// Damaged input through our own parsers: see parsers.hpp. They run in a worker, which is started again where it died or hung.
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "../replay/support/trace_spec.hpp"
#include "parsers.hpp"

extern "C" const char* __asan_default_options() {
    return "abort_on_error=1:allocator_may_return_null=1:max_allocation_size_mb=2048:detect_leaks=1";
}
extern "C" const char* __ubsan_default_options() {
    return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

namespace polter::test {

std::unique_ptr<Target> make_target(const std::string& name, const std::string& work) {
    if (name == "sidecar") return make_sidecar_target(work);
    if (name == "seal") return make_seal_target(work);
    if (name == "page") return make_page_target();
    if (name == "client") return make_client_target();
    if (name == "elf") return make_elf_target(work);
    if (name == "loader-cache") return make_loader_cache_target();
    if (name == "command") return make_command_target();
    return make_daemon_target(work);
}

}  // namespace polter::test

namespace {

using namespace polter::test;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longest{120};  // of one mutant; the machine may be busy

struct Shared {
    std::atomic<uint64_t> number, done;
    char text[1024];
};

Random random_of(uint64_t seed, uint64_t number) {
    std::seed_seq mixed{seed, seed >> 32, number, number >> 32};
    return Random(mixed);
}

// In the worker; its exit code: 0 at the end, 2 where something is wrong that `text` says.
int work(const std::string& name, const std::string& directory, uint64_t seed, uint64_t most, Clock::time_point end, Shared& shared) {
    try {
        const auto target = make_target(name, directory);
        for (; shared.done < most && Clock::now() < end; ++shared.number, ++shared.done) {
            Random random = random_of(seed, shared.number);
            const std::string told = target->run(random);
            if (most == 1) fmt::print("{}\n", told);
        }
        target->finish();
    } catch (const std::exception& error) {
        std::snprintf(shared.text, sizeof shared.text, "%s", error.what());
        return 2;
    }
    return 0;
}

std::string end_of(pid_t worker, const Shared& shared) {
    uint64_t seen = UINT64_MAX;
    Clock::time_point since = Clock::now();
    int status = 0;
    while (waitpid(worker, &status, WNOHANG) == 0) {
        if (shared.done != seen) {
            seen = shared.done;
            since = Clock::now();
        } else if (Clock::now() - since > longest) {
            kill(worker, SIGKILL);
            waitpid(worker, &status, 0);
            return "no end";
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (WIFSIGNALED(status)) return fmt::format("died: {}", strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == 2) return shared.text;
    return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit code {}: a leak?", WEXITSTATUS(status));
}

}  // namespace

int main(int argc, char** argv) {
    std::string name;
    uint64_t seed = 1, only = UINT64_MAX, most = UINT64_MAX;
    double seconds = 5;
    CLI::App app{"Mutation fuzzing of the parsers that are ours"};
    app.add_option("TARGET", name, "Which")->required()->check(CLI::IsMember({"sidecar", "seal", "page", "client", "daemon", "elf", "loader-cache", "command"}));
    app.add_option("--seed", seed, "Of the mutations")->capture_default_str();
    app.add_option("--seconds", seconds, "How long")->capture_default_str();
    app.add_option("--most", most, "How many mutants at most");
    app.add_option("--only", only, "Only the mutant of this number, verbosely");
    CLI11_PARSE(app, argc, argv);
    const TemporaryDirectory directory;
    auto* shared = new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared();
    if (only != UINT64_MAX) {
        shared->number = only;
        most = 1;
    }
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    fmt::print("{}, seed {}\n", name, seed);
    uint64_t wrong = 0;
    for (uint64_t round = 0; shared->done < most && Clock::now() < end && wrong < 20; ++round) {
        std::fflush(nullptr);
        const pid_t worker = fork();
        if (worker == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            const std::string place = directory.path(std::to_string(round));
            std::filesystem::create_directories(place);
            const int code = work(name, place, seed, most, end, *shared);
            std::exit(code);
        }
        const std::string what = end_of(worker, *shared);
        if (what.empty()) break;
        ++wrong;
        fmt::print("FAILED mutant {}: {}\n  again: {} {} --seed {} --only {}\n", shared->number.load(), what, argv[0], name, seed,
                   shared->number.load());
        ++shared->number;
        ++shared->done;
    }
    fmt::print("{} mutants, {} wrong\n", shared->done.load(), wrong);
    return wrong > 0 ? 1 : 0;
}
