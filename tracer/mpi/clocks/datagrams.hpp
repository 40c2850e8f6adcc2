// SPDX-License-Identifier: BSD-3-Clause
// Questions and answers between leaders by UDP. A process answers those that name its nonce, whoever asks, while it is in one of the
// functions here. A lost datagram is asked for again.
//
// Not by MPI: a communicator of the leaders is made by a call that blocks, and blocked processes of some MPIs keep their CPU (README.md,
// "Comparing clocks").
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace polter::mpi {

// Sent and back by the clock of who asked, there by the other's.
struct ClockStamps {
    uint64_t sent, there, back;
};

class Datagrams {
  public:
    // What the first leader decides for all.
    struct Decision {
        uint64_t compares, next;
    };
    struct Peer {
        uint64_t nonce = 0;
        std::vector<sockaddr_in> addresses;  // the one that answered, once one has

        bool operator==(uint64_t of) const { return nonce == of; }
    };
    // As address() says it. Empty: it has none.
    static Peer peer(const std::string& nonce, const std::string& address);

    // NULL: there is no such socket here, or no network.
    static std::unique_ptr<Datagrams> open(const std::string& nonce);
    ~Datagrams();
    Datagrams(const Datagrams&) = delete;
    Datagrams& operator=(const Datagrams&) = delete;

    // Port and IPv4 addresses in hexadecimal digits.
    const std::string& address() const { return address_; }

    // Answers until then, or until there is news: true.
    bool serve(uint64_t until_ns);
    // Tells them that there is something new in the folder where they meet. What is lost is found out later without it.
    void tell_news(const std::vector<Peer>&) const;
    // Asks for the time until the interval of the offset has become narrow, then says that it has done so in this round. Without an answer
    // for `limit_ns` there are no stamps.
    std::vector<ClockStamps> compare(Peer&, uint64_t round, uint64_t limit_ns);
    // Answers until each of these has compared its clock in this round; false: one has not come.
    bool serve_all(const std::vector<Peer>&, uint64_t round, uint64_t limit_ns);

    // What this process says when it is asked for the decision of that number.
    void decide(uint64_t number, Decision);
    std::optional<Decision> ask_decision(Peer&, uint64_t number, uint64_t limit_ns);
    bool serve_decision(const std::vector<Peer>&, uint64_t number, uint64_t limit_ns);

    // The time that compare took behind the first answer, since the last time that this was asked.
    uint64_t take_spent_ns();

  private:
    enum Kind : uint32_t { another, last, which, known, answer, news };
    struct Message {
        uint32_t magic, kind;
        uint64_t to, from, round, sequence, stamp, words[2];
    };
    // How far a peer has come: the last round (number) that it said to be done with, and when something came from it.
    struct Heard {
        uint64_t compared = 0, decided = 0, at_ns = 0;
    };

    Datagrams(int socket, uint64_t nonce) : socket_(socket), nonce_(nonce) {}
    bool ours() const;
    void send(Message, const sockaddr_in&) const;
    // Takes one message, if there is one.
    bool take();
    void reply(const Message&, const sockaddr_in&, uint64_t stamp);
    void wait(uint64_t until_ns, bool soon);
    // The answer to such a question, and when it was sent and came back.
    bool ask(Peer&, Kind, uint64_t round, uint64_t until_ns, int tries, ClockStamps&);
    template <class Done>
    bool serve_until(const std::vector<Peer>&, uint64_t limit_ns, const Done&);

    const int socket_;
    const uint64_t nonce_;
    dev_t device_{};
    ino_t inode_{};
    std::string address_;
    std::map<uint64_t, Heard> heard_;
    uint64_t number_ = 0;  // of the decision
    Decision decision_{};
    uint64_t sequence_ = 0, spent_ns_ = 0;
    bool news_ = false;
    std::optional<Message> answer_;  // to the question of sequence_
    sockaddr_in answered_from_{};
    uint64_t answered_at_ns_ = 0;
};

}  // namespace polter::mpi
