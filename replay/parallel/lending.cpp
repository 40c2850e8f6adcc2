// SPDX-License-Identifier: BSD-3-Clause
#include "lending.hpp"

namespace polter::replay {

namespace {

struct Wanted {
    int64_t at = 0;
    uint64_t bytes = 0;  // 0: nothing more is needed
};

// Waits for the next batch of records.
Bytes await(Group& group) {
    Bytes come;
    for (int idle = 0; !group.deliver([&](int, const Bytes& records) { come = records; }); ++idle) Group::rest(idle);
    return come;
}

void say(Group& group, int to, const Wanted& wanted) {
    group.to(to).put(wanted);
    group.flush();
}

}  // namespace

void lend(Group& group, const ReadAt& read) {
    for (;;) {
        const Bytes asked = await(group);
        const auto wanted = Input(asked).get<Wanted>();
        if (wanted.bytes == 0) return;
        std::vector<uint8_t>& answer = group.to(0).data;
        answer.resize(wanted.bytes);
        read(answer.data(), answer.size(), wanted.at);
        group.flush();
    }
}

ReadAt Borrowing::of(int process) {
    return [this, process](void* to, size_t bytes, int64_t at) {
        say(group_, process, {at, bytes});
        const Bytes answer = await(group_);
        Input(answer).get(static_cast<uint8_t*>(to), bytes);
    };
}

void Borrowing::end() {
    for (int process = 1; process < group_.size(); ++process) say(group_, process, {});
}

}  // namespace polter::replay
