// SPDX-License-Identifier: BSD-3-Clause
// One-sided communication: windows, their synchronisation, and what is put, got and accumulated.
//
// Of a post and its start, a complete and its wait, each side writes a notice for each rank of its group (OTF2's RmaSync), so that the
// trace needs no groups: post → NOTIFY_OUT; start → NOTIFY_IN, asking for the post; complete → NOTIFY_OUT, and NOTIFY_IN for the post
// that it had at the latest; wait, and the test that succeeded → NOTIFY_IN.
#pragma once

#include <unordered_map>
#include <vector>

#include "communicators.hpp"
#include "messages/point_to_point.hpp"

namespace polter::mpi {

struct Window {
    uint32_t id = 0, comm = 0;  // local ids
    int size = 0;
    MPI_Group group{};                            // its own, of the window's ranks
    std::vector<uint32_t> started, posted;        // the other side, from start to complete and from post to wait
    std::unordered_map<uint32_t, uint64_t> open;  // matching id of what was put, got or accumulated and is not complete, by target
};

// What stands in process.windows is used by the thread that synchronises the window; it is looked up under the TableLock.

namespace handler {

class WinCreate {
  public:
    WinCreate(Call& call, MPI_Comm comm, MPI_Win* made, uint8_t memory);
    void end(int result);

  private:
    Call& call_;
    const MPI_Comm comm_;
    MPI_Win* const made_;
    const uint8_t memory_;
    Comm known_;
    std::string key_;
};

class WinFree {
  public:
    WinFree(Call& call, MPI_Win* win);
    void end(int result);

  private:
    Call& call_;
    MPI_Win freed_{};
    bool known_ = false;
    uint32_t id_ = 0;
};

// What all calls on a window share: none where it is not followed.
class OnWindow {
  public:
    OnWindow(Call& call, MPI_Win win);

  protected:
    // The group's ranks in the window.
    std::vector<uint32_t> ranks_of(MPI_Group group) const;
    void notify(uint64_t time, const std::vector<uint32_t>& ranks, OTF2_RmaSyncType type);
    void complete_operations();  // of all targets, at the call's end
    void complete_operations(uint32_t target);

    Call& call_;
    Window* window_ = nullptr;
};

class WinFence : OnWindow {
  public:
    WinFence(Call& call, int assert, MPI_Win win);
    void end(int result);

  private:
    const int assert_;
};

class WinPost : OnWindow {
  public:
    WinPost(Call& call, MPI_Group group, MPI_Win win);
    void end(int result);
};

class WinStart : OnWindow {
  public:
    WinStart(Call& call, MPI_Group group, MPI_Win win);
    void end(int result);

  private:
    std::vector<uint32_t> ranks_;
};

class WinComplete : OnWindow {
  public:
    WinComplete(Call& call, MPI_Win win);
    void end(int result);
};

class WinWait : OnWindow {
  public:
    WinWait(Call& call, MPI_Win win) : OnWindow(call, win) {}
    void end(int result) { end(result, true); }

  protected:
    void end(int result, bool done);
};

class WinTest : WinWait {
  public:
    WinTest(Call& call, MPI_Win win, const int* flag) : WinWait(call, win), flag_(flag) {}
    void end(int result) { WinWait::end(result, result == MPI_SUCCESS && *flag_); }

  private:
    const int* const flag_;
};

inline constexpr uint32_t all_targets = OTF2_UNDEFINED_UINT32;

class WinLock : OnWindow {
  public:
    WinLock(Call& call, int lock_type, int rank, MPI_Win win);
    void end(int result);

  protected:
    WinLock(Call& call, MPI_Win win, uint32_t target, OTF2_LockType type, bool locks);

  private:
    const OTF2_LockType type_;
    const uint32_t target_;
};

class WinLockAll : public WinLock {
  public:
    WinLockAll(Call& call, MPI_Win win) : WinLock(call, win, all_targets, OTF2_LOCK_SHARED, true) {}
};

class WinUnlock : OnWindow {
  public:
    WinUnlock(Call& call, int rank, MPI_Win win) : WinUnlock(call, win, static_cast<uint32_t>(rank), rank != MPI_PROC_NULL) {}
    void end(int result);

  protected:
    WinUnlock(Call& call, MPI_Win win, uint32_t target, bool locks) : OnWindow(call, win), target_(target), locks_(locks) {}

  private:
    const uint32_t target_;
    const bool locks_;
};

class WinUnlockAll : public WinUnlock {
  public:
    WinUnlockAll(Call& call, MPI_Win win) : WinUnlock(call, win, all_targets, true) {}
};

class WinFlush : OnWindow {
  public:
    WinFlush(Call& call, int rank, MPI_Win win) : OnWindow(call, win), target_(static_cast<uint32_t>(rank)) {}
    void end(int result);

  private:
    const uint32_t target_;
};

class WinFlushAll : OnWindow {
  public:
    WinFlushAll(Call& call, MPI_Win win) : OnWindow(call, win) {}
    void end(int result);
};

class WinName {
  public:
    WinName(Call& call, MPI_Win win, const char* name);
    void end(int) { call_.leave(); }

  private:
    Call& call_;
};

class RmaOperation : protected OnWindow {
  public:
    // `memory`: Fact::put, get, accumulate, fetch or swap.
    RmaOperation(Call& call, uint8_t memory, MPI_Count count, MPI_Datatype type, int target, MPI_Win win);
    void end(int) { call_.leave(); }

  protected:
    using OnWindow::OnWindow;
    void record(uint8_t memory, uint64_t bytes, uint32_t target, uint64_t id);
};

class RmaOne : public RmaOperation {
  public:
    RmaOne(Call& call, uint8_t memory, MPI_Datatype type, int target, MPI_Win win) : RmaOperation(call, memory, 1, type, target, win) {}
};

// With a request: it has an id of its own, and completes where the request does.
class RmaRequest : RmaOperation {
  public:
    RmaRequest(Call& call, uint8_t memory, MPI_Count count, MPI_Datatype type, int target, MPI_Win win, RequestVariables request);
    void end(int result) { begins_.end(result); }

  private:
    struct Transfer : Begins {
        using Begins::Begins;
        using Begins::request_;
    } begins_;
};

}  // namespace handler
}  // namespace polter::mpi
