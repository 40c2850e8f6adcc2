// SPDX-License-Identifier: BSD-3-Clause
// Phases of one-sided communication. The window lasts as long as its block.
#include <algorithm>
#include <set>

#include "random.hpp"

namespace polter::truth {

namespace {

class Windowed : public Phase {
  public:
    explicit Windowed(const PhaseDescription& description) : Phase(description) {
        MPI_Win_create(in, is.bytes, 1, MPI_INFO_NULL, comm, &window);
    }
    ~Windowed() override { MPI_Win_free(&window); }

  protected:
    MPI_Win window = MPI_WIN_NULL;

    std::vector<int> targets() const {
        std::set<int> found;
        for (int k = 0; k < std::min(is.count, size - 1); ++k) found.insert((rank + 1 + (offset() - 1 + k) % (size - 1)) % size);
        return {found.begin(), found.end()};
    }
    void put(int64_t i, int target) const {
        const int count = bytes(i, rank);
        MPI_Put(out, count, MPI_CHAR, target, 0, count, MPI_CHAR, window);
    }
    void get(int64_t i, int target) const {
        const int count = bytes(i, rank);
        MPI_Get(out, count, MPI_CHAR, target, 0, count, MPI_CHAR, window);
    }
};

class Fence : public Windowed {
  public:
    explicit Fence(const PhaseDescription& description) : Windowed(description) { MPI_Win_fence(0, window); }
    void run(int64_t i) override {
        work(i, 1 - is.overlap);
        for (const int target : targets()) is.synchronous ? get(i, target) : put(i, target);
        work(i, is.overlap, 1);
        MPI_Win_fence(0, window);
    }
};

// Post, start, complete, wait with the neighbours on both sides.
class Neighbours : public Windowed {
  public:
    explicit Neighbours(const PhaseDescription& description) : Windowed(description) {
        const std::set<int> around = alone() ? std::set<int>{} : std::set<int>{(rank + 1) % size, (rank + size - 1) % size};
        ranks_.assign(around.begin(), around.end());
        MPI_Group all;
        MPI_Comm_group(comm, &all);
        MPI_Group_incl(all, static_cast<int>(ranks_.size()), ranks_.data(), &group_);
    }
    ~Neighbours() override { MPI_Group_free(&group_); }
    void run(int64_t i) override {
        if (alone()) return work(i);
        MPI_Win_post(group_, 0, window);
        work(i, 1 - is.overlap);
        MPI_Win_start(group_, 0, window);
        for (const int target : ranks_) put(i, target);
        work(i, is.overlap, 1);
        MPI_Win_complete(window);
        MPI_Win_wait(window);
    }

  private:
    std::vector<int> ranks_;
    MPI_Group group_ = MPI_GROUP_NULL;
};

// All change one entry. What SMPI's unlock leaves under way is completed before (see the limits in test/truth/README.md).
class Lock : public Windowed {
  public:
    using Windowed::Windowed;
    void run(int64_t i) override {
        const int target = root(0);
        work(i, 1 - is.overlap);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        get(i, target);
        MPI_Win_flush(target, window);
        work(i, is.overlap / size, 1);
        put(i, target);
        MPI_Win_flush(target, window);
        MPI_Win_unlock(target, window);
    }
};

}  // namespace

const PhaseKinds& window_phases() {
    static const PhaseKinds kinds{{"fence", with_state<Fence>}, {"pscw", with_state<Neighbours>}, {"lock", with_state<Lock>}};
    return kinds;
}

}  // namespace polter::truth
