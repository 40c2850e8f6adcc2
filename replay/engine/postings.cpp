// SPDX-License-Identifier: BSD-3-Clause
#include "postings.hpp"

#include <algorithm>

namespace polter::replay {

namespace {

constexpr size_t bytes_of_kind = 64;  // in the list and in its index

}  // namespace

Postings::Postings(size_t threads, size_t most) : most_of_thread_(most / std::max<size_t>(threads, 1)), threads_(threads) {}

void Postings::learn(uint32_t thread, uint64_t posting, const PostedFor& what) {
    OfThread& known = threads_[thread];
    uint32_t* found = known.index_of.find(what);
    const size_t kinds = known.kinds.size() + (found ? 0 : 1);
    if (posting > most_of_thread_ || posting * sizeof(uint32_t) + kinds * bytes_of_kind > most_of_thread_) return;
    if (!found) {
        known.kinds.push_back(what);
        known.index_of.insert(what, static_cast<uint32_t>(kinds));
    }
    if (known.what.size() < posting) known.what.resize(posting, 0);
    known.what[posting - 1] = found ? *found : static_cast<uint32_t>(kinds);
}

const PostedFor* Postings::find(uint32_t thread, uint64_t posting) const {
    const OfThread& known = threads_[thread];
    if (posting == 0 || posting > known.what.size() || known.what[posting - 1] == 0) return nullptr;
    return &known.kinds[known.what[posting - 1] - 1];
}

bool Postings::empty() const {
    return std::all_of(threads_.begin(), threads_.end(), [](const OfThread& known) { return known.what.empty(); });
}

void Postings::write(Bytes& to) const {
    for (uint32_t thread = 0; thread < threads_.size(); ++thread) {
        if (threads_[thread].what.empty()) continue;
        to.put(thread);
        to.put(threads_[thread].what);
        to.put(threads_[thread].kinds);
    }
}

void Postings::merge(Input& from) {
    while (!from.empty()) {
        OfThread& known = threads_.at(from.get<uint32_t>());
        from.get(known.what);
        from.get(known.kinds);
    }
}

}  // namespace polter::replay
