// SPDX-License-Identifier: BSD-3-Clause
// Questions and answers by UDP: what is lost is asked for again, what is not meant for a process is not answered, and a socket that the
// program closed is not touched.
#include "../../../tracer/mpi/clocks/datagrams.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../../../tracer/clocks/narrowing.hpp"
#include "../../../tracer/write/clock.hpp"

using polter::clocks::Narrowing;
using polter::mpi::Datagrams;

namespace {

constexpr uint64_t second = 1'000'000'000;
const std::string one = "00000000000000a1", other = "00000000000000b2", nobody = "00000000000000c3";

sockaddr_in local(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

uint16_t port_of(const Datagrams& datagrams) {
    return static_cast<uint16_t>(std::stoul(datagrams.address().substr(0, 4), nullptr, 16));
}

// Passes on what two processes send to each other, but for each third datagram.
class Lossy {
  public:
    explicit Lossy(sockaddr_in to) : to_(to), socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
        sockaddr_in own = local(0);
        socklen_t size = sizeof own;
        REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&own), size) == 0);
        getsockname(socket_, reinterpret_cast<sockaddr*>(&own), &size);
        port = ntohs(own.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    ~Lossy() {
        ends_ = true;
        thread_.join();
        close(socket_);
    }
    uint16_t port = 0;
    std::atomic<int> lost = 0;

  private:
    void run() {
        sockaddr_in back{};
        for (int count = 1; !ends_;) {
            pollfd event{socket_, POLLIN, 0};
            if (poll(&event, 1, 20) <= 0) continue;
            char bytes[256];
            sockaddr_in from{};
            socklen_t size = sizeof from;
            const ssize_t got = recvfrom(socket_, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from), &size);
            const bool answered = from.sin_port == to_.sin_port;
            if (!answered) back = from;
            if (count++ % 3 == 0) {
                ++lost;
                continue;
            }
            const sockaddr_in& to = answered ? back : to_;
            sendto(socket_, bytes, static_cast<size_t>(got), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
        }
    }
    const sockaddr_in to_;
    const int socket_;
    std::atomic<bool> ends_ = false;
    std::thread thread_;
};

struct Pair {
    std::unique_ptr<Datagrams> asks = Datagrams::open(one), answers = Datagrams::open(other);
    Datagrams::Peer child = Datagrams::peer(one, asks->address()), parent = Datagrams::peer(other, answers->address());
};

}  // namespace

TEST_CASE("an address is read as it was written") {
    const auto peer = Datagrams::peer(one, "1f900a0000017f000001");
    CHECK(peer.nonce == 0xa1);
    REQUIRE(peer.addresses.size() == 2);
    CHECK(ntohs(peer.addresses[0].sin_port) == 8080);
    CHECK(std::string(inet_ntoa(peer.addresses[0].sin_addr)) == "10.0.0.1");
    CHECK(peer.addresses[1].sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK(Datagrams::peer(one, "").addresses.empty());
}

TEST_CASE("two compare their clocks, and both know when they have") {
    Pair pair;
    bool came = false, came_again = true;
    std::thread parent([&] {
        came = pair.answers->serve_all({pair.child}, 1, 5 * second);
        came_again = pair.answers->serve_all({pair.child}, 2, second / 10);
    });
    const auto stamps = pair.asks->compare(pair.parent, 1, 5 * second);
    parent.join();
    CHECK(came);
    CHECK(!came_again);
    CHECK(stamps.size() >= Narrowing::least_slow);
    CHECK(stamps.size() <= Narrowing::most + 1);
    for (const auto& each : stamps) CHECK((each.sent <= each.there && each.there <= each.back));
    CHECK(pair.parent.addresses.size() == 1);
    CHECK(pair.asks->take_spent_ns() > 0);
    CHECK(pair.asks->take_spent_ns() == 0);
}

TEST_CASE("who comes late is waited for, and what was sent before is answered") {
    Pair pair;
    std::thread parent([&] {
        usleep(300'000);
        CHECK(pair.answers->serve_all({pair.child}, 1, 5 * second));
    });
    CHECK(!pair.asks->compare(pair.parent, 1, 5 * second).empty());
    parent.join();
}

TEST_CASE("what is lost is asked for again") {
    Pair pair;
    Lossy network(local(port_of(*pair.answers)));
    pair.parent.addresses = {local(network.port)};
    bool came = false;
    std::thread parent([&] { came = pair.answers->serve_all({pair.child}, 1, 20 * second); });
    const auto stamps = pair.asks->compare(pair.parent, 1, 20 * second);
    parent.join();
    CHECK(came);
    CHECK(network.lost > 0);
    CHECK(stamps.size() >= Narrowing::least_slow);
    for (const auto& each : stamps) CHECK((each.sent <= each.there && each.there <= each.back));
}

TEST_CASE("nobody answers for another one, whatever comes") {
    Pair pair;
    auto wrong = pair.parent;
    wrong.nonce = Datagrams::peer(nobody, "").nonce;
    const int noise = ::socket(AF_INET, SOCK_DGRAM, 0);
    const sockaddr_in to = local(port_of(*pair.answers));
    for (size_t size = 0; size < 200; ++size) {
        const std::string bytes(size, 'x');
        sendto(noise, bytes.data(), size, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
    close(noise);
    std::thread parent([&] { pair.answers->serve_all({pair.child}, 1, second); });
    CHECK(pair.asks->compare(wrong, 1, second / 5).empty());
    CHECK(!pair.asks->compare(pair.parent, 1, 5 * second).empty());
    parent.join();
}

TEST_CASE("a decision is asked for until it has been made") {
    Pair pair;
    pair.answers->decide(1, {0, 3});
    bool came = false;
    std::thread parent([&] {
        pair.answers->serve(polter::write::now() + second / 20);
        pair.answers->decide(4, {1, 7});
        came = pair.answers->serve_decision({pair.child}, 4, 5 * second);
    });
    const auto decision = pair.asks->ask_decision(pair.parent, 4, 5 * second);
    parent.join();
    CHECK(came);
    REQUIRE(decision);
    CHECK(decision->compares == 1);
    CHECK(decision->next == 7);
}

TEST_CASE("news end a wait early") {
    Pair pair;
    CHECK(!pair.answers->serve(polter::write::now() + second / 50));
    pair.asks->tell_news({pair.parent});
    const uint64_t began = polter::write::now();
    CHECK(pair.answers->serve(began + 5 * second));
    CHECK(polter::write::now() - began < 2 * second);
}

TEST_CASE("a socket that the program closed is not used, nor is what it opened instead") {
    const int number = dup(0);
    close(number);
    auto asks = Datagrams::open(one);
    const auto answers = Datagrams::open(other);
    auto parent = Datagrams::peer(other, answers->address());
    close(number);
    REQUIRE(::open("/dev/null", O_RDONLY) == number);
    CHECK(asks->compare(parent, 1, second / 5).empty());
    CHECK(!asks->serve_all({parent}, 1, second / 5));
    asks.reset();
    CHECK(fcntl(number, F_GETFD) >= 0);
    close(number);
}
