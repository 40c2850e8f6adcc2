// SPDX-License-Identifier: BSD-3-Clause
// What each user takes of what the daemon has: connections, noise pages, and its time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace polter::daemon {

// A user may take at most half of what the others leave. So however many users take all they can, something is left for the next one.
// `exempt`: root and the daemon's own user, who may have all.
bool within_share(unsigned used, unsigned used_by_all, unsigned most, bool exempt);

// Noise pages by user: those of registered threads, and those given back that somebody still has mapped or holds a descriptor of.
class PageAccounts {
  public:
    void add(uid_t user) { ++users_[user].in_use, ++all_; }
    void give_back(uid_t user, std::uint32_t id);
    // Removes released pages that do not exist any more.
    void keep(const std::set<std::uint32_t>& existing);

    unsigned of(uid_t user) const;
    unsigned left_over(uid_t user) const;  // of these, given back
    unsigned all() const { return all_; }
    unsigned left_over_by_all() const { return left_over_; }

  private:
    struct User {
        unsigned in_use = 0;
        std::vector<std::uint32_t> left_over;
    };
    std::map<uid_t, User> users_;
    unsigned all_ = 0, left_over_ = 0;
};

// Chooses the request to serve next: among the users with a request, the one who has used the least of the daemon's time. So concurrent
// users get equal shares, however many requests and connections each has.
class Turns {
  public:
    void add(uid_t user, std::uint64_t request);
    // Until wake(): nothing can be done for it before something happens.
    void set_aside(uid_t user, std::uint64_t request);
    void wake();
    struct Turn {
        uid_t user;
        std::uint64_t request;
    };
    std::optional<Turn> next();
    void charge(uid_t user, std::uint64_t ns);

    bool any() const { return ready_ > 0; }
    unsigned set_aside() const { return aside_; }

  private:
    struct User {
        std::uint64_t taken_ns = 0;
        std::deque<std::uint64_t> ready, aside;
    };
    User& of(uid_t user);
    std::map<uid_t, User> users_;
    std::uint64_t floor_ns_ = 0;  // the time used by the user served last: a user who was idle does not accumulate credit
    unsigned ready_ = 0, aside_ = 0;
};

}  // namespace polter::daemon
