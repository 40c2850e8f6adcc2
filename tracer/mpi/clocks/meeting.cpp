// SPDX-License-Identifier: BSD-3-Clause
#include "meeting.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "../../conventions.hpp"

namespace polter::mpi {
namespace {

constexpr long most_age_s = 10;  // of what another process of the same job left
constexpr const char *entered_prefix = "here.", *proposal = "proposed";
constexpr size_t nonce_digits = 16;
constexpr char answer_by_datagrams = 'd', answer_by_mpi = 'm';

constexpr const char *hexadecimal = "0123456789abcdef", *datagrams_suffice = "datagrams\n";

// The text up to the next full stop, which goes with it.
std::string_view take_part(std::string_view& text) {
    const size_t end = text.find('.');
    if (end == std::string_view::npos) return {};
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(end + 1);
    return part;
}

// All leaders read a line of each one: no scanf here.
std::optional<Leader> parse(std::string_view text) {
    Leader leader;
    const auto take = [&](int& number, int least) {
        const std::string_view part = take_part(text);
        const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), number);
        return !part.empty() && error == std::errc() && rest == part.data() + part.size() && number >= least;
    };
    if (!take(leader.rank, 0) || !take(leader.on_node, 1)) return {};
    leader.nonce = take_part(text);
    if (leader.nonce.size() != nonce_digits || leader.nonce.find_first_not_of(hexadecimal) != std::string::npos) return {};
    if (text.find('.') == std::string_view::npos) return {};
    leader.address = take_part(text);
    if (leader.address.find_first_not_of(hexadecimal) != std::string::npos) return {};
    leader.clock = text;
    return leader;
}

bool lower_rank(const Leader& a, const Leader& b) {
    return a.rank < b.rank;
}

std::vector<Leader> parse_lines(const std::string& text) {
    std::vector<Leader> out;
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        if (auto leader = parse(std::string_view(text).substr(at, end - at))) out.push_back(std::move(*leader));
    return out;
}

std::string lines(const std::vector<Leader>& leaders) {
    std::string text;
    for (const Leader& leader : leaders) text += leader.text() + "\n";
    return text;
}

void sort_by_rank(std::vector<Leader>& leaders) {
    std::sort(leaders.begin(), leaders.end(), lower_rank);
}

// Calls `take` with the rest of each name that begins so.
template <class Take>
void each_name(const std::string& folder, const std::string& prefix, const Take& take) {
    DIR* list = opendir(folder.c_str());
    while (const dirent* entry = list ? readdir(list) : nullptr)
        if (std::strncmp(entry->d_name, prefix.c_str(), prefix.size()) == 0)
            take(dirfd(list), entry->d_name, entry->d_name + prefix.size());
    if (list) closedir(list);
}

std::string answer_to(const Meeting::Proposal& to) {
    return "confirmed." + to.nonce + ".";
}
std::string decision_on(const Meeting::Proposal& to) {
    return "agreed." + to.nonce;
}

}  // namespace

std::string Leader::text() const {
    return std::to_string(rank) + "." + std::to_string(on_node) + "." + nonce + "." + address + "." + clock;
}

std::string new_nonce() {
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof bits)) {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        bits = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec) +
               (static_cast<uint64_t>(getpid()) << 44);
    }
    char text[nonce_digits + 1];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
    return text;
}

bool Meeting::enter() {
    for (size_t at = folder_.rfind(trace::clocks_folder); at != std::string::npos && at < folder_.size();) {
        at = std::min(folder_.find('/', at + 1), folder_.size());
        mkdir(folder_.substr(0, at).c_str(), 0777);
    }
    own_ = folder_ + "/" + entered_prefix + self_.text();
    const int file = ::open(own_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0) return false;
    struct stat status {};
    fstat(file, &status);
    entered_ = status.st_mtime;
    ::close(file);
    return true;
}

std::vector<Leader> Meeting::present(bool recently) const {
    std::vector<Leader> leaders;
    each_name(folder_, entered_prefix, [&](int folder, const char* name, const char* rest) {
        struct stat status {};
        const auto leader = parse(rest);
        if (leader && (!recently || (fstatat(folder, name, &status, 0) == 0 && std::abs(status.st_mtime - entered_) <= most_age_s)))
            leaders.push_back(*leader);
    });
    sort_by_rank(leaders);
    return leaders;
}

// By link(2), which the first one to come wins, and whose file is whole.
void Meeting::publish(const std::string& name, const std::string& text) const {
    const std::string draft = folder_ + "/draft." + self_.nonce;
    const int file = ::open(draft.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    const bool whole = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) ::close(file);
    // Where nothing can be written, an empty file still can say that nobody takes part.
    (void)!link(whole ? draft.c_str() : own_.c_str(), (folder_ + "/" + name).c_str());
    unlink(draft.c_str());
}

std::optional<std::string> Meeting::read(const std::string& name) const {
    const int file = ::open((folder_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    std::string text;
    char block[4096];
    for (ssize_t got; (got = ::read(file, block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(got));
    ::close(file);
    return text;
}

bool Meeting::Proposal::has(const Leader& leader) const {
    const auto [first, last] = std::equal_range(members.begin(), members.end(), leader, lower_rank);
    return std::find(first, last, leader) != last;
}

std::string Meeting::propose(const std::vector<Leader>& members) const {
    const std::string nonce = new_nonce();
    publish(proposal, nonce + "\n" + lines(members));
    return nonce;
}

std::optional<Meeting::Proposal> Meeting::proposed() const {
    const auto text = read(proposal);
    if (!text) return {};
    Proposal out;
    out.nonce = text->substr(0, std::min(text->find('\n'), nonce_digits));
    if (out.nonce.find_first_not_of(hexadecimal) != std::string::npos) out.nonce.clear();
    out.members = parse_lines(*text);
    sort_by_rank(out.members);  // a file may say anything
    return out;
}

bool Meeting::confirm(const Proposal& to, bool by_datagrams) const {
    const std::string name = folder_ + "/" + answer_to(to) + (by_datagrams ? answer_by_datagrams : answer_by_mpi) + self_.text();
    const int file = ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0) ::close(file);
    return file >= 0;
}

Meeting::Agreement Meeting::confirmed(const Proposal& to) const {
    Agreement out;
    bool all = true;
    each_name(folder_, answer_to(to), [&](int, const char*, const char* rest) {
        const bool by_datagrams = *rest == answer_by_datagrams;
        if (!by_datagrams && *rest != answer_by_mpi) return;
        const auto leader = parse(rest + 1);
        if (!leader || !to.has(*leader)) return;
        out.members.push_back(*leader);
        all &= by_datagrams;
    });
    sort_by_rank(out.members);
    out.by_datagrams = all && out.members.size() == to.members.size();
    return out;
}

void Meeting::decide(const Proposal& on, const Agreement& agreement) const {
    publish(decision_on(on), (agreement.by_datagrams ? datagrams_suffice : "\n") + lines(agreement.members));
}

std::optional<Meeting::Agreement> Meeting::decided(const Proposal& on) const {
    const auto text = read(decision_on(on));
    if (!text) return {};
    return Agreement{parse_lines(*text), text->rfind(datagrams_suffice, 0) == 0};
}

}  // namespace polter::mpi
