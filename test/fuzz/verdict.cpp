// SPDX-License-Identifier: BSD-3-Clause
#include "verdict.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../replay/support/invariants.hpp"
#include "replay/trace/archive.hpp"

#ifdef __SANITIZE_ADDRESS__
#define POLTER_WITH_SANITIZER 1
#else
#define POLTER_WITH_SANITIZER 0
#endif

// A sanitizer that finds something aborts, so that the handler below can tell whose code it was in.
extern "C" const char* __asan_default_options() {
    return "abort_on_error=1:handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:allocator_may_return_null=1:"
           "max_allocation_size_mb=2048:detect_leaks=1";
}
extern "C" const char* __ubsan_default_options() {
    return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

namespace polter::test {

namespace {

constexpr rlim_t cpu_seconds = POLTER_WITH_SANITIZER ? 30 : 10;
constexpr rlim_t memory = rlim_t{4} << 30;  // not under a sanitizer, which maps more than there is

struct Shared {
    Verdict::Kind kind;
    bool warned;
    char text[1024];
};
Shared* shared = nullptr;

void tell(Verdict::Kind kind, const std::string& text) {
    shared->kind = kind;
    std::snprintf(shared->text, sizeof shared->text, "%s", text.c_str());
}

// In a signal handler, for a process that is lost anyway: whose code was it in? The innermost frame that is neither this handler's nor
// a system library's.
__attribute__((noinline)) void died(int signal, siginfo_t*, void* context) {
    void* frames[64];
    int depth = backtrace(frames, 64);
    Dl_info here{}, at{};
    dladdr(reinterpret_cast<void*>(&died), &here);
    int i = 0;
    const auto object = [&](int frame) { return dladdr(frames[frame], &at) && at.dli_fname ? at.dli_fname : ""; };
    while (i < depth && std::strcmp(object(i), here.dli_fname) == 0) ++i;
#ifdef __x86_64__
    // A call to nowhere leaves nothing to unwind but the address that it would have returned to.
    const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    if (!dladdr(reinterpret_cast<void*>(registers[REG_RIP]), &at)) {
        frames[i = 0] = *reinterpret_cast<void**>(registers[REG_RSP]);
        depth = 1;
    }
#endif
    for (; i < depth; ++i) {
        const char* name = object(i);
        const bool ours = std::strcmp(name, here.dli_fname) == 0,
                   otf2 = std::strstr(name, "libotf2") || std::strstr(name, "open-trace-format");
        if (!ours && !otf2) continue;
        const bool stuck = signal == SIGXCPU;
        shared->kind = ours ? Verdict::Kind::wrong : stuck ? Verdict::Kind::otf2_stuck : Verdict::Kind::otf2_died;
        std::snprintf(shared->text, sizeof shared->text, "%s in %s (%s+%#lx)", strsignal(signal), ours ? "polter" : "OTF2",
                      at.dli_sname ? at.dli_sname : name,
                      static_cast<unsigned long>(static_cast<char*>(frames[i]) - static_cast<char*>(at.dli_fbase)));
        _exit(0);
    }
    shared->kind = Verdict::Kind::wrong;
    std::snprintf(shared->text, sizeof shared->text, "%s, nobody knows where", strsignal(signal));
    _exit(0);
}

void handle_deaths() {
    static char stack[1 << 16];
    const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
    sigaltstack(&other, nullptr);
    struct sigaction action {};
    action.sa_sigaction = died;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGALRM, SIGTRAP}) sigaction(signal, &action, nullptr);
    void* frames[4];
    backtrace(frames, 4);  // loads what it needs while that is still possible
}

bool warns(const replay::Result& result, std::initializer_list<const char*> texts) {
    for (const auto& warning : result.warnings)
        for (const char* text : texts)
            if (warning.text.find(text) != std::string::npos) return true;
    return false;
}

bool calls(const replay::Definitions& definitions, std::string_view function) {
    for (uint32_t region = 0; region < definitions.region_names.size(); ++region)
        if (definitions.region_name(region).starts_with(function)) return true;
    return false;
}

// What a result promises, whatever was read.
std::string broken_promise(const std::string& archive, const Observed& observed) {
    const replay::Archive definitions(archive);
    Violations v = observed.violations;
    if (warns(observed.result, {"polling loops"})) v.causality = 0;  // the polls within a loop are taken together, at its end
    // Iterations that are shared otherwise: a thread may leave their loop before it came to its end in the measured run.
    if (warns(observed.result, {"threads would have shared the work otherwise"})) v.causality = 0;
    // What a Waitany in another order could have done in earlier waits is given to the lower bound at once, where the order is found out.
    if (warns(observed.result, {"would have found other messages first"})) v.causality -= v.causality_of_low;
    // A worker goes on in the place of the first to ask, and work that is assigned otherwise may take longer in all: what holds then
    // is in replay/README.md, and is asked of farms that are whole.
    const bool farm = warns(observed.result, {"requests for work"});
    // Who has a lock first may be the worse order; a lock that was free in the measured run may be waited for in another scenario.
    const bool locked_out = calls(definitions.definitions(), "MPI_Win_lock");
    // An access that comes behind the beginning of its target's call waits for its end; noise before that call may have spared it the wait.
    const bool target_first = calls(definitions.definitions(), "MPI_Win_complete");
    // Less noise may bring messages together on a link that were apart, also those of a collective.
    const auto& structures = observed.result.model.structures;
    const bool links_shared =
        warns(observed.result, {"shared their hosts' links"}) ||
        std::any_of(structures.begin(), structures.end(), [](const auto& learned) { return learned.structure && learned.structure->link; });
    if (links_shared) v.monotonicity = 0;
    if (farm) v.causality = v.monotonicity = v.bounds = 0;
    if (locked_out) v.monotonicity = 0;
    if (target_first) v.monotonicity = v.bounds = 0;
    if (v.identity + v.causality + v.monotonicity + v.bounds + v.additivity > 0)
        return fmt::format("invariants broken: identity {}, causality {}, monotonicity {}, bounds {}, additivity {}", v.identity,
                           v.causality, v.monotonicity, v.bounds, v.additivity);
    const bool reordered = farm || locked_out || target_first || links_shared;
    const replay::Result& r = observed.result;
    if (r.measured_ns < 0 || r.approximated_ns < 0 || (r.approximated_ns > r.measured_ns && !reordered))
        return fmt::format("measured {} ns, approximated {} ns", r.measured_ns, r.approximated_ns);
    if (r.accumulated_noise_ns != r.measured_ns - r.approximated_ns) return "accumulated noise is not measured minus approximated";
    if (r.bounds_low_ns > r.approximated_ns || r.approximated_ns > r.bounds_high_ns) return "bounds out of order";
    for (const auto& rank : r.per_rank)
        for (const auto& [name, source] : rank.sources)
            if (source.local_ns < 0 || (source.alone_ns < 0 && !reordered)) return "negative noise of " + name;
    uint64_t declared = 0;
    for (const auto& location : definitions.definitions().locations) declared += location.declared_events;
    if (static_cast<uint64_t>(r.events) < declared && !warns(r, {"break off", "cannot be read", "have no events"}))
        return fmt::format("{} of {} events were read, and no word of it", r.events, declared);
    (void)replay::to_json(r).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    (void)replay::to_text(r);
    (void)replay::to_short_text(r);
    return {};
}

void replay_in_child(const std::string& archive, bool write_approximated) {
    Observed observed;
    try {
        observed = observe_calls(archive);
        const std::string broken = broken_promise(archive, observed);
        shared->warned = !observed.result.warnings.empty();
        if (!broken.empty()) return tell(Verdict::Kind::wrong, broken);
        tell(Verdict::Kind::result, "");
        if (!write_approximated) return;
        replay::Options options;
        options.trace = archive;
        options.write_approximated = archive + "-approximated";
        replay::replay(options);
    } catch (const replay::InputError& error) {
        tell(Verdict::Kind::refused, error.what());
        if (std::string(error.what()).find('\n') != std::string::npos) tell(Verdict::Kind::wrong, "an error of several lines");
    } catch (const std::exception& error) {
        tell(Verdict::Kind::wrong, error.what());
    }
}

}  // namespace

Verdict judge(const std::string& archive, bool write_approximated) {
    if (!shared) shared = static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    std::memset(shared, 0, sizeof *shared);
    tell(Verdict::Kind::wrong, "ended without a word");
    std::filesystem::remove_all(archive + "-approximated");
    const pid_t child = fork();
    if (child == 0) {
        handle_deaths();
        const int nowhere = open("/dev/null", O_WRONLY);
        if (!POLTER_WITH_SANITIZER && nowhere >= 0) dup2(nowhere, STDERR_FILENO);  // OTF2 and libc say things when they die
        const rlimit none{0, 0}, cpu{cpu_seconds, cpu_seconds + 2}, space{memory, memory};
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_CPU, &cpu);
        if (!POLTER_WITH_SANITIZER) setrlimit(RLIMIT_AS, &space);
        alarm(static_cast<unsigned>(cpu_seconds * 20));  // blocked for ever, not computing
        replay_in_child(archive, write_approximated);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Verdict verdict{shared->kind, shared->text, shared->warned};
    if (WIFSIGNALED(status)) verdict = {Verdict::Kind::wrong, fmt::format("killed by {}", strsignal(WTERMSIG(status))), false};
    std::filesystem::remove_all(archive + "-approximated");
    return verdict;
}

}  // namespace polter::test
