// SPDX-License-Identifier: BSD-3-Clause
#include "exporter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>
#include <module/device.h>
#include <noise.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <perf/tracepoints.hpp>
#include <start.hpp>
#include <utility>

#include "launch.hpp"
#include "layout.hpp"

namespace polter::launch {
namespace fs = std::filesystem;

// Why no daemon was joined.
struct NoneRunning {
    std::string reason;
    bool was_expected = false;  // somebody should have been there: that is told even where another could be started
    std::string told() const { return was_expected ? ": " + reason : std::string(); }
};

namespace {

constexpr const char* no_folder =
    "no private folder for the daemon's socket can be made: $XDG_RUNTIME_DIR (if this user's alone), /run and /tmp refuse";
constexpr const char* default_socket = "/run/polter/polterd.sock";

// Whether this process may load the eBPF backend. Empty: it may; else what is missing and what to do.
std::string bpf_obstacle() {
    if (find_part(daemon_program).empty())
        return fmt::format("{} is not installed beside {}; install Poltergeist whole", daemon_program,
                           (executable_folder() / "polter").string());
    std::ifstream status("/proc/self/status");
    unsigned long long effective = 0;
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("CapEff:")) effective = std::stoull(line.substr(7), nullptr, 16);
    auto has = [&](int capability) { return (effective >> capability & 1) != 0; };
    if (has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))) return {};
    return "loading it needs root, or CAP_BPF and CAP_PERFMON; run as root, or have root run `polterd` on this node";
}

using Session = std::unique_ptr<polter_session, decltype(&polter_session_close)>;

// For threads that write their pages themselves. "perf" may turn out as proc.
Session own_session(const char* exporter, const char* tracepoints, std::string& reason) {
    char error[1024] = "";
    const polter_noise_options options{
        .socket_path = nullptr, .job = 0, .threads = 1, .timeout_ms = 0, .exporter = exporter, .tracepoints = tracepoints};
    Session session(polter_session_open(&options, error, sizeof error), polter_session_close);
    reason = session ? polter_session_lacks(session.get()) : error;
    return session;
}

// Whether this process can be measured so, and with it, as a rule, its children.
template <polter_backend backend>
std::string own_obstacle() {
    std::string reason;
    const auto session = own_session(polter_backend_name(backend), nullptr, reason);
    return session && polter_session_backend(session.get()) == backend ? std::string() : reason;
}

// Whether the kernel module serves here. Empty: it does; else why not.
std::string module_obstacle() {
    const auto status = daemon::probe(POLTER_DEVICE);
    return status.answers ? std::string() : status.reason;
}

// Why "auto" did not take what is better still.
std::string not_module(const std::string& choice) {
    return choice == "auto" ? " (no kernel module: " + module_obstacle() + ")" : std::string();
}

std::string nothing() {
    return {};
}

// The one table of exporters. What stands in the way of each, or nothing.
struct Kind {
    const char* name;
    std::string (*obstacle)();
};
constexpr Kind kinds[] = {{"module", module_obstacle},
                          {"bpf", bpf_obstacle},
                          {"perf", own_obstacle<POLTER_BACKEND_PERF>},
                          {"proc", own_obstacle<POLTER_BACKEND_PROC>},
                          {"none", nothing}};

std::string available_names() {
    std::vector<std::string> names{"auto"};
    for (const auto& kind : kinds)
        if (kind.obstacle().empty()) names.push_back(kind.name);
    return fmt::format("{}", fmt::join(names, ", "));
}

// Where something may serve already: what the user names; else the kernel module, unless another exporter is asked for; else the daemon.
std::string user_socket(const std::string& choice) {
    const char* socket = std::getenv("POLTER_SOCKET");
    if (socket && *socket) return socket;
    return choice == "module" || (choice == "auto" && module_obstacle().empty()) ? POLTER_DEVICE : default_socket;
}

// A daemon that somebody else runs, or the kernel module. Else why not.
daemon::Status find_running(const std::string& choice, const std::string& socket, NoneRunning& none) {
    auto status = daemon::probe(socket);
    if (!status.answers) {
        std::error_code error;
        none.was_expected = socket != POLTER_DEVICE && (socket != default_socket || fs::exists(socket, error));
        none.reason = socket == POLTER_DEVICE ? status.reason : fmt::format("no daemon on {}", socket);
        if (none.was_expected) none.reason += fmt::format(" ({})", status.reason);
    } else if (choice != "auto" && choice != polter_backend_name(status.backend)) {
        none.reason = fmt::format("the daemon on {} uses {}", socket, polter_backend_name(status.backend));
        status.answers = false;
    }
    return status;
}

bool is_ours_alone(const std::string& folder) {
    struct stat info {};
    return lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

// Whether what is made in a folder of root's stays there: nobody else may rename it.
bool keeps_names(const std::string& folder) {
    struct stat info {};
    return stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == 0 &&
           ((info.st_mode & 022) == 0 || (info.st_mode & S_ISVTX) != 0);
}

// Made with a random name: one that others could foresee they could take first.
fs::path private_folder() {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    std::vector<std::string> bases;
    if (runtime && is_ours_alone(runtime)) bases.push_back(runtime);
    for (const char* base : {"/run", "/tmp"})
        if (keeps_names(base)) bases.push_back(base);
    for (const auto& base : bases) {
        if (base.size() > 60) continue;  // sockets have short names (108 bytes)
        auto name = base + "/polter-XXXXXX";
        if (mkdtemp(name.data())) return name;  // mode 0700
    }
    return {};
}

// The folder that the processes of one node agree on, by a file in the experiment directory, which is theirs. Locked while this lives.
class AgreedFolder {
  public:
    explicit AgreedFolder(const fs::path& note) : fd_(open(note.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) {
        struct stat info {};
        if (fd_ >= 0 && (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid())) {
            close(fd_);
            fd_ = -1;
        }
        struct flock whole {};
        whole.l_type = F_WRLCK;
        while (fd_ >= 0 && fcntl(fd_, F_SETLKW, &whole) != 0 && errno == EINTR) {
        }
        char known[256] = "";
        const auto length = fd_ < 0 ? -1 : pread(fd_, known, sizeof known - 1, 0);
        if (length > 0 && is_ours_alone(known)) {
            path = known;
            return;
        }
        // The first one. Without the file each process has a daemon of its own.
        path = private_folder();
        const auto text = path.string();
        if (fd_ >= 0 && ftruncate(fd_, 0) == 0) (void)!pwrite(fd_, text.data(), text.size(), 0);
    }
    ~AgreedFolder() {
        if (fd_ >= 0) close(fd_);
    }
    AgreedFolder(const AgreedFolder&) = delete;
    AgreedFolder& operator=(const AgreedFolder&) = delete;
    fs::path path;  // empty: none can be made

  private:
    int fd_;
};

}  // namespace

Exporter::~Exporter() {
    release();
    if (daemon_ > 0) daemon::stop_daemon(daemon_);
    std::error_code error;
    if (!folder_.empty()) fs::remove_all(folder_, error);
}

void Exporter::release() {
    polter_session_close(std::exchange(session_, nullptr));
    daemon::ask_to_end(daemon_);
}

Exporter::Exporter(Exporter&& other) noexcept
    : name(std::move(other.name)),
      socket(std::move(other.socket)),
      why(std::move(other.why)),
      unseen(std::move(other.unseen)),
      notice(std::move(other.notice)),
      limits(std::move(other.limits)),
      tracepoints(std::move(other.tracepoints)),
      ended(std::move(other.ended)),
      ended_ns(other.ended_ns),
      daemon_(std::exchange(other.daemon_, -1)),
      session_(std::exchange(other.session_, nullptr)),
      folder_(std::exchange(other.folder_, {})) {}

void Exporter::take_over(pid_t daemon, const fs::path& folder) {
    daemon_ = daemon;
    folder_ = folder;
}

void Exporter::join(const std::string& at, const daemon::Status& status) {
    socket = at;
    name = polter_backend_name(status.backend);
    for (unsigned account = 0; account < POLTER_ACCOUNTS; ++account)
        if (!(status.accounts_seen >> account & 1)) unseen.push_back(polter_account_name(account));
    if (!status.why.empty()) why += "; it cannot see: " + status.why;
    char ignored[600];  // it goes without: the ranks will say what is wrong
    const polter_noise_options options{
        .socket_path = socket.c_str(), .job = 0, .threads = 1, .timeout_ms = 0, .exporter = name.c_str(), .tracepoints = nullptr};
    session_ = polter_session_open(&options, ignored, sizeof ignored);
}

// Measured by the threads themselves. False: that is refused; why is added to `reasons`.
bool Exporter::join_own(const char* exporter, std::string& reasons) {
    const auto allowed = std::strcmp(exporter, "perf") == 0 ? perf::allowed_tracepoints() : perf::Tracepoints{};
    std::string reason;
    const auto session = own_session(exporter, allowed.list.c_str(), reason);
    if (!session || std::strcmp(polter_backend_name(polter_session_backend(session.get())), exporter) != 0) {
        reasons += (reasons.empty() ? "" : "; ") + reason;
        return false;
    }
    char error[512] = "";
    polter_noise* page = polter_noise_open(session.get(), error, sizeof error);
    const uint32_t seen = page ? polter_noise_header(page)->accounts_seen : 0;
    polter_noise_close(page);
    name = exporter;
    why = reasons;
    tracepoints = allowed.list;
    limits = polter_backend_limits(polter_session_backend(session.get()));
    if (!allowed.why_not.empty()) limits += "; interrupts are not seen: " + allowed.why_not;
    for (unsigned account = 0; account < POLTER_ACCOUNTS; ++account)
        if (!(seen >> account & 1)) unseen.push_back(polter_account_name(account));
    return true;
}

// Whether the choice is made without looking for a daemon.
bool Exporter::needs_no_daemon(const std::string& choice) {
    if (choice == "none") {
        why = "asked for";
        return true;
    }
    check_exporter(choice);
    if (choice != "perf" && choice != "proc") return false;
    std::string reasons;
    if (!join_own(choice.c_str(), reasons))
        throw Error(fmt::format("--exporter {}: {}; available here: {}", choice, reasons, available_names()));
    return true;
}

// No daemon could be had, for `reasons`.
void Exporter::without_daemon(const std::string& choice, std::string reasons) {
    if (choice == "auto" && (join_own("perf", reasons) || join_own("proc", reasons))) return;
    if (choice != "auto") throw Error(fmt::format("--exporter {}: {}; available here: {}", choice, reasons, available_names()));
    why = reasons;
    for (unsigned account = 0; account < POLTER_ACCOUNTS; ++account) unseen.push_back(polter_account_name(account));
}

uint64_t Exporter::events_not_shown() const {
    return daemon_ > 0 ? daemon::probe(socket).recursion_misses : 0;
}

void Exporter::look() {
    if (!session_ || !ended.empty() || polter_session_alive(session_)) return;
    ended = socket == POLTER_DEVICE ? "the kernel module was unloaded before the job ended" : "polterd ended before the job did";
    if (daemon_ <= 0) return;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    ended_ns = static_cast<uint64_t>(now.tv_sec * 1'000'000'000ll + now.tv_nsec + polter_noise_clock_offset());
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(daemon_), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == daemon_)
        ended += fmt::format(" ({} {})", info.si_code == CLD_EXITED ? "exit code" : "signal", info.si_status);
}

const std::vector<std::string>& exporter_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> out{"auto"};
        for (const auto& kind : kinds) out.push_back(kind.name);
        return out;
    }();
    return names;
}

void check_exporter(const std::string& choice) {
    // The module is there or is not; nothing is started for it.
    if (choice != "module" || user_socket(choice) != POLTER_DEVICE) return;
    if (const auto obstacle = module_obstacle(); !obstacle.empty())
        throw Error(fmt::format("--exporter {}: {}; available here: {}", choice, obstacle, available_names()));
}

bool Exporter::join_running(const std::string& choice, NoneRunning& none) {
    const auto at = user_socket(choice);
    const auto status = find_running(choice, at, none);
    if (!status.answers) {
        if (choice == "module") throw Error(fmt::format("--exporter {}: {}; available here: {}", choice, none.reason, available_names()));
        return false;
    }
    why = at == POLTER_DEVICE ? "the kernel module is loaded" : fmt::format("polterd runs on {}", at);
    join(at, status);
    return true;
}

Exporter choose_exporter(const std::string& choice, const fs::path& log) {
    Exporter out;
    if (out.needs_no_daemon(choice)) return out;
    NoneRunning none;
    if (out.join_running(choice, none)) return out;
    if (none.was_expected) out.notice = none.reason;
    auto obstacle = bpf_obstacle();
    if (!obstacle.empty()) {
        out.without_daemon(choice, fmt::format("{}, and bpf: {}", none.reason, obstacle));
        return out;
    }
    auto folder = private_folder();
    if (folder.empty()) {
        out.without_daemon(choice, no_folder);
        return out;
    }
    auto socket = (folder / "polterd.sock").string();
    daemon::StartOptions options;
    options.log_path = log;
    auto daemon = daemon::start_daemon(find_part(daemon_program), socket, options);
    out.take_over(daemon.pid, folder);
    auto status = daemon ? daemon::probe(socket) : daemon::Status{};
    if (!daemon || !status.answers) {
        out.without_daemon(choice, fmt::format("polterd did not start: {}", daemon ? status.reason : daemon.reason));
        return out;
    }
    out.why = "started polterd for this job" + not_module(choice) + none.told();
    out.join(socket, status);
    return out;
}

Exporter choose_node_exporter(const std::string& choice, const fs::path& note) {
    Exporter out;
    if (out.needs_no_daemon(choice)) return out;
    NoneRunning none;
    if (out.join_running(choice, none)) return out;
    if (none.was_expected) out.notice = none.reason;
    auto obstacle = bpf_obstacle();
    if (!obstacle.empty()) {
        out.without_daemon(choice, fmt::format("{}, and bpf: {}", none.reason, obstacle));
        return out;
    }
    const AgreedFolder folder(note);
    if (folder.path.empty()) {
        out.without_daemon(choice, no_folder);
        return out;
    }
    auto socket = (folder.path / "polterd.sock").string();
    auto status = daemon::probe(socket);
    std::string reason = status.reason;
    if (!status.answers) {
        // Nobody stops it but itself, with the last process that it serves.
        auto daemon = daemon::start_daemon(find_part(daemon_program), socket);
        reason = daemon.reason;
        if (daemon) status = daemon::probe(socket);
    }
    if (status.answers) {
        out.why = "polterd runs for this job" + not_module(choice) + none.told();
        out.join(socket, status);
    } else {
        out.without_daemon(choice, fmt::format("polterd did not start: {}", reason));
    }
    return out;
}

}  // namespace polter::launch
