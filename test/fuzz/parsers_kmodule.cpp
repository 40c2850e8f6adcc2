// SPDX-License-Identifier: BSD-3-Clause
// What comes over a process's border on a node: the noise page, the daemon's answers, its clients' requests.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <stdexcept>
#include <vector>

#include "../kmodule/support/page_fixture.hpp"
#include "parsers.hpp"
#include "server.hpp"
#include "transport.h"

namespace polter::test {

namespace {

template <class Struct>
std::string as_bytes(const Struct& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

class PageTarget : public Target {
  public:
    PageTarget() {
        Fixture fixture;
        for (uint64_t i = 1; i <= 40; ++i) fixture.event(i * 1000, 100, i % 4, "a culprit");
        seed_ = as_bytes(static_cast<const polter_page&>(*fixture.page));
    }

    std::string run(Random& random) override {
        std::string bytes = seed_, told;
        for (size_t k = 1 + below(random, 4); k > 0; --k) {  // mostly in the header and the copies
            const size_t at = below(random, random() % 3 ? 512 : bytes.size()) & ~size_t{3};
            std::string word = bytes.substr(at, 8);
            told += damage_bytes(word, random) + fmt::format(" in the word at {}; ", at);
            word.resize(8);
            bytes.replace(at, std::min<size_t>(8, bytes.size() - at), word.substr(0, std::min<size_t>(8, bytes.size() - at)));
        }
        const size_t size = random() % 4 ? bytes.size() : below(random, bytes.size() + 1);
        // Memory of exactly that size, so that a sanitizer sees whoever leaves it.
        std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(8, (size + 7) / 8 * 8), std::free);
        std::memcpy(page.get(), bytes.data(), size);
        char error[256];
        std::memset(error, 'x', sizeof error);
        const Noise noise(polter_noise_open_memory(page.get(), size, error, sizeof error));
        if (!noise) {
            if (!std::memchr(error, 0, sizeof error)) throw std::logic_error("a reason without an end");
            return told + error;
        }
        polter_counters counters;
        (void)polter_noise_moved(noise.get());
        (void)polter_noise_snapshot(noise.get(), &counters);
        polter_ring_entry entries[16];
        polter_u64 lost = 0;
        size_t all = 0;
        for (;;) {
            const size_t n = polter_noise_drain(noise.get(), random() % 2 ? ~0ull : 5000, entries, 16, &lost);
            if (n > 16) throw std::logic_error("more entries than there is room for");
            for (size_t i = 0; i < n; ++i)
                if (!std::memchr(entries[i].culprit, 0, sizeof entries[i].culprit)) throw std::logic_error("a culprit without an end");
            all += n;
            if (all > POLTER_RING_ENTRIES) throw std::logic_error("more entries than the ring has");
            if (n == 0) return told;
        }
    }

  private:
    std::string seed_;
};

class ClientTarget : public Target {
  public:
    std::string run(Random& random) override {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no sockets");
        polter_request request;
        polter_request_init(&request, POLTER_REQUEST_THREAD);
        polter_reply reply{};
        reply.magic = POLTER_PROTOCOL_MAGIC;
        reply.version = POLTER_PROTOCOL_VERSION;
        reply.type = POLTER_REQUEST_THREAD;
        reply.status = static_cast<polter_u32>(below(random, 7));
        std::memset(reply.text, random() % 2 ? 'x' : 0, sizeof reply.text);
        std::string bytes = as_bytes(reply), told;
        for (size_t k = below(random, 4); k > 0 && !bytes.empty(); --k) told += damage_bytes(bytes, random) + "; ";
        // With descriptors, more of them than are expected.
        alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
        const size_t descriptors = random() % 3 ? 0 : below(random, 9);
        iovec data{bytes.data(), bytes.size()};
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        if (descriptors > 0) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
            cmsghdr* header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
            for (size_t i = 0; i < descriptors; ++i) std::memcpy(CMSG_DATA(header) + i * sizeof(int), &ends[0], sizeof(int));
        }
        if (sendmsg(ends[1], &message, MSG_NOSIGNAL) < 0) told += "not sent; ";
        shutdown(ends[1], SHUT_WR);
        char error[128];
        std::memset(error, 'x', sizeof error);
        int descriptor = -1;
        const bool wanted = random() % 2;
        polter_reply taken{};
        const int result = polter_exchange(ends[0], &request, &taken, wanted ? &descriptor : nullptr, error, sizeof error);
        if (result != 0 && !std::memchr(error, 0, sizeof error)) throw std::logic_error("a reason without an end");
        if (result != 0 && descriptor >= 0) throw std::logic_error("a descriptor from a refused answer");
        if (result == 0 && (!std::memchr(taken.text, 0, sizeof taken.text) || taken.status != POLTER_OK))
            throw std::logic_error("a bad answer was taken");
        if (descriptor >= 0) close(descriptor);
        close(ends[0]);
        close(ends[1]);
        // Nothing that came may stay open: the next descriptor is where this one was.
        const int next = dup(0);
        close(next);
        if (next != ends[0]) throw std::logic_error("a descriptor that came stays open");
        return told;
    }
};

struct Invented : exporter::Backend {
    const char* name() const override { return "invented"; }
    polter_backend id() const override { return POLTER_BACKEND_NONE; }
    exporter::Failure start() override { return {}; }
    void stop() override {}
    std::uint32_t accounts_seen() const override { return 1; }
    std::uint32_t accounts_net() const override { return 1; }
    std::string cannot_see() const override { return ""; }
    std::uint64_t recursion_misses() const override { return 0; }
    unsigned pages_ready() const override { return ready; }
    void want_pages(unsigned waiting) override {
        wanted = waiting;
        const std::uint64_t one = 1;
        (void)!write(event, &one, sizeof one);
    }
    int pages_event() const override { return event; }
    exporter::Failure take_pages_event() override {  // half of the time there are too few, or none
        std::uint64_t ignored;
        (void)!read(event, &ignored, sizeof ignored);
        if (++events % 7 == 0) return "no memory";
        ready = (wanted + 1) / 2;
        return {};
    }
    std::optional<std::set<std::uint32_t>> pages_in_memory() const override { return std::set<std::uint32_t>{}; }
    exporter::Failure add_process(pid_t, std::uint64_t, exporter::Owner) override { return {}; }
    void remove_process(pid_t) override { threads.clear(); }
    bool has_process(pid_t) const override { return true; }
    std::variant<exporter::Page, std::string> add_thread(pid_t, pid_t tid) override {
        --ready;
        threads.insert(tid);
        return exporter::Page{dup(event), ++made, made};
    }
    void remove_thread(std::uint32_t) override { threads.clear(); }  // the client has one
    bool has_thread(pid_t tid) const override { return threads.contains(tid); }
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    unsigned ready = 0, wanted = 0, events = 0;
    std::uint32_t made = 0;
    std::set<pid_t> threads;
};

// A daemon in a process of its own; this one is all of its clients.
class DaemonTarget : public Target {
  public:
    explicit DaemonTarget(const std::string& work) : socket_(work + "/s") {
        auto listener = daemon::Listener::open(socket_);
        if (!std::holds_alternative<daemon::Listener>(listener)) throw std::runtime_error(std::get<std::string>(listener));
        daemon_ = fork();
        if (daemon_ != 0) {
            kept_ = std::make_unique<daemon::Listener>(std::move(std::get<daemon::Listener>(listener)));  // it removes the socket
            return;
        }
        sigset_t ends;
        sigemptyset(&ends);
        sigaddset(&ends, SIGTERM);
        sigprocmask(SIG_BLOCK, &ends, nullptr);
        {
            Invented backend;
            daemon::Server server(std::get<daemon::Listener>(listener), backend, "why", {});
            if (server.run()) std::exit(1);
        }
        std::exit(0);  // with the leak check
    }
    ~DaemonTarget() override {
        if (daemon_ > 0) kill(daemon_, SIGKILL);
    }

    std::string run(Random& random) override {
        std::string told;
        const int fd = connect_to_it();
        for (size_t k = 1 + below(random, 8); k > 0; --k) {
            polter_request request;
            polter_request_init(&request, static_cast<polter_u32>(below(random, 6)));
            request.threads = static_cast<polter_u32>(random() % 4 ? below(random, 5) : random());
            request.job = random() % 3;
            request.tid = static_cast<polter_s32>(random() % 2 ? getpid() : static_cast<pid_t>(random()));
            request.slot = static_cast<polter_u32>(random() % 2 ? below(random, 5) : random());
            std::string bytes = as_bytes(request);
            told += fmt::format("type {}", request.type);
            if (random() % 3 == 0) told += ", " + damage_bytes(bytes, random);
            told += "; ";
            if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) break;
            if (random() % 8 == 0) continue;  // does not wait for the answer
            polter_reply reply;
            std::memset(&reply, 'x', sizeof reply);
            const ssize_t n = recv(fd, &reply, sizeof reply, 0);
            if (n < 0 && errno != ECONNRESET) throw std::logic_error(fmt::format("the daemon does not answer: {}", std::strerror(errno)));
            if (n <= 0) break;  // reset: it closed over requests that it had not read
            if (n != static_cast<ssize_t>(sizeof reply) || reply.magic != POLTER_PROTOCOL_MAGIC ||
                !std::memchr(reply.text, 0, sizeof reply.text))
                throw std::logic_error("no proper answer");
        }
        close(fd);
        return told;
    }

    void finish() override {
        polter_request request;
        polter_request_init(&request, POLTER_REQUEST_STATUS);
        polter_reply reply;
        char error[256];
        const int fd = connect_to_it();
        if (polter_exchange(fd, &request, &reply, nullptr, error, sizeof error) != 0) throw std::logic_error(error);
        close(fd);
        kill(daemon_, SIGTERM);
        int status = 0;
        waitpid(daemon_, &status, 0);
        daemon_ = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::logic_error("the daemon did not end in order");
    }

  private:
    int connect_to_it() const {
        char error[256];
        const int fd = polter_connect(socket_.c_str(), 5000, error, sizeof error);
        if (fd < 0) throw std::logic_error(fmt::format("the daemon is gone: {}", error));
        return fd;
    }
    std::string socket_;
    pid_t daemon_ = 0;
    std::unique_ptr<daemon::Listener> kept_;
};

}  // namespace

std::unique_ptr<Target> make_page_target() {
    return std::make_unique<PageTarget>();
}
std::unique_ptr<Target> make_client_target() {
    return std::make_unique<ClientTarget>();
}
std::unique_ptr<Target> make_daemon_target(const std::string& work) {
    return std::make_unique<DaemonTarget>(work);
}

}  // namespace polter::test
