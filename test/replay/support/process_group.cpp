// SPDX-License-Identifier: BSD-3-Clause
#include "process_group.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <random>

#include "replay/replay.hpp"

namespace polter::test {

namespace {

class SocketTransport : public replay::Transport {
  public:
    SocketTransport(int rank, std::vector<int> sockets, uint64_t mood)
        : rank_(rank), peers_(sockets.size()), random_(mood * 31 + static_cast<uint64_t>(rank)), moody_(mood > 0) {
        for (size_t i = 0; i < sockets.size(); ++i) peers_[i].socket = sockets[i];
    }
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(peers_.size()); }

    void send(int to, std::vector<uint8_t> message) override {
        const uint64_t size = message.size();
        auto& out = peers_[static_cast<size_t>(to)].out;
        const auto* head = reinterpret_cast<const uint8_t*>(&size);
        out.insert(out.end(), head, head + sizeof size);
        out.insert(out.end(), message.begin(), message.end());
        push();
    }

    bool receive(int* from, std::vector<uint8_t>* message) override {
        push();
        if (moody_ && random_() % 4 == 0) return false;
        for (size_t k = 0; k < peers_.size(); ++k) {
            const size_t i = (k + next_) % peers_.size();
            Peer& peer = peers_[i];
            if (peer.socket < 0) continue;
            pull(peer);
            uint64_t size = 0;
            if (peer.in.size() < sizeof size) {
                if (peer.over && !peer.ended) throw replay::InputError("an analysis process has died");
                continue;
            }
            std::copy_n(peer.in.begin(), sizeof size, reinterpret_cast<uint8_t*>(&size));
            if (peer.in.size() < sizeof size + size) continue;
            const auto begin = peer.in.begin() + sizeof size, end = begin + static_cast<std::ptrdiff_t>(size);
            message->assign(begin, end);
            peer.ended = message->back() == static_cast<uint8_t>(replay::Group::Kind::end);
            peer.in.erase(peer.in.begin(), end);
            *from = static_cast<int>(i);
            next_ = i + 1;
            empty_ = 0;
            return true;
        }
        if (++empty_ > 48) rest();  // a group polls that often before it asks whether anything is under way
        return false;
    }

    void close() override {
        for (bool left = true; left;) {
            left = false;
            push();
            for (const Peer& peer : peers_) left = left || (!peer.out.empty() && !peer.over);
        }
    }
    [[noreturn]] void abort(int code) override { _exit(code); }

  private:
    struct Peer {
        int socket = -1;
        bool over = false, ended = false;
        std::deque<uint8_t> in, out;
    };

    void push() {
        for (Peer& peer : peers_)
            while (peer.socket >= 0 && !peer.out.empty() && !peer.over) {
                const std::vector<uint8_t> part(peer.out.begin(),
                                                peer.out.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(peer.out.size(), 4096)));
                const ssize_t sent = ::send(peer.socket, part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
                if (sent < 0 && errno != EAGAIN) peer.over = true;
                if (sent <= 0) break;
                peer.out.erase(peer.out.begin(), peer.out.begin() + sent);
            }
    }
    // There are more processes than cores: who has nothing to do leaves them to the others, until something can be read or written.
    void rest() {
        std::vector<pollfd> sockets;
        for (const Peer& peer : peers_)
            if (peer.socket >= 0 && !peer.over)
                sockets.push_back({peer.socket, static_cast<short>(peer.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
        poll(sockets.data(), sockets.size(), 1);
    }
    static void pull(Peer& peer) {
        uint8_t part[4096];
        for (;;) {
            const ssize_t got = recv(peer.socket, part, sizeof part, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN)) peer.over = true;
            if (got <= 0) return;
            peer.in.insert(peer.in.end(), part, part + got);
        }
    }

    int rank_;
    std::vector<Peer> peers_;
    std::mt19937_64 random_;
    bool moody_;
    size_t next_ = 0;
    int empty_ = 0;  // polls since the last message
};

std::string run(replay::Group& group, const std::function<std::string(replay::Group&)>& work) {
    std::string result;
    bool failed = true;
    try {
        result = work(group);
        failed = false;
    } catch (const replay::PeerError& error) {
        result = std::string("failed: peer: ") + error.what();
    } catch (const std::exception& error) {
        result = std::string("failed: ") + error.what();
        group.fail(error.what());
    }
    try {
        group.close(failed);
    } catch (const std::exception&) {  // whoever died does not end
    }
    return result;
}

}  // namespace

std::vector<std::string> together(int count, uint64_t mood, const std::function<std::string(replay::Group&)>& work, unsigned seconds) {
    const auto n = static_cast<size_t>(count);
    std::vector<std::vector<int>> sockets(n, std::vector<int>(n, -1));
    for (size_t i = 0; i < n; ++i)
        for (size_t k = i + 1; k < n; ++k) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return std::vector<std::string>(n, "died");
            sockets[i][k] = pair[0];
            sockets[k][i] = pair[1];
        }
    std::vector<FILE*> files;
    std::vector<pid_t> children;
    for (size_t i = 0; i < n; ++i) {
        files.push_back(std::tmpfile());
        const pid_t child = fork();
        if (child == 0) {
            alarm(seconds);
            for (size_t a = 0; a < n; ++a)
                for (size_t b = 0; b < n; ++b)
                    if (a != i && sockets[a][b] >= 0) ::close(sockets[a][b]);
            replay::Group group(std::make_unique<SocketTransport>(static_cast<int>(i), sockets[i], mood));
            const std::string result = run(group, work);
            std::fwrite(result.data(), 1, result.size(), files[i]);
            std::fflush(files[i]);
            _exit(0);
        }
        children.push_back(child);
    }
    for (const auto& row : sockets)
        for (const int socket : row)
            if (socket >= 0) ::close(socket);
    std::vector<std::string> results;
    for (size_t i = 0; i < n; ++i) {
        int status = 0;
        waitpid(children[i], &status, 0);
        std::string result = "died";
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            std::fseek(files[i], 0, SEEK_END);
            result.resize(static_cast<size_t>(std::ftell(files[i])));
            std::rewind(files[i]);
            if (std::fread(result.data(), 1, result.size(), files[i]) != result.size()) result = "died";
        }
        std::fclose(files[i]);
        results.push_back(result);
    }
    return results;
}

}  // namespace polter::test
