// SPDX-License-Identifier: BSD-3-Clause
// Wait and Test in all their forms: which requests the call completed, and the records of each, at Leave.
//
// With MPI_THREAD_MULTIPLE the requests are taken out of the table before the call: once MPI has completed one, another thread may be
// given its handle. What did not complete goes back.
#pragma once

#include <vector>

#include "point_to_point.hpp"

namespace polter::mpi::handler {

// The requests of one call, as they were before it.
class Completion {
  public:
    Completion(Call& call, int count, RequestVariables requests);
    Call& call() { return call_; }

    // The i-th has completed; its status. Call once for each.
    void completed(int i, const MPI_Status& status);
    // Whether MPI has taken the i-th away, as it does with those that failed.
    bool vanished(int i) const;
    // Nothing is known of it any more: it failed.
    void failed(int i);
    // The program gave the only one away.
    void released();
    // All that had not completed goes back; then Leave.
    void leave();
    // A test that completed nothing.
    void leave_in_vain();

    int count() const { return count_; }
    // Statuses for all, where the program does not want any.
    MPI_Status* statuses(MPI_Status* wanted);

  private:
    uint32_t entry(int i);
    // A test that did not complete the i-th.
    void tested(int i);
    void put_back();
    void write_completed(const Request& request, const MPI_Status& status);
    void done(int i, uint32_t entry);

    Call& call_;
    const int count_;
    const RequestVariables requests_;
    MPI_Request* handles_ = nullptr;  // before the call; NULL where it is not traced
    uint32_t* taken_ = nullptr;       // with MPI_THREAD_MULTIPLE: their entries
    MPI_Request one_handle_;
    uint32_t one_taken_ = Requests::absent;
};

class Wait {
  public:
    Wait(Call& call, RequestVariables request, MPI_Status* status) : own_(call, status), completion_(call, 1, request) {}
    MPI_Status* status() { return own_.status(); }
    void end(int result);

  private:
    OwnStatus own_;
    Completion completion_;
};

class Test {
  public:
    Test(Call& call, RequestVariables request, int* flag, MPI_Status* status)
        : own_(call, status), completion_(call, 1, request), flag_(flag) {}
    MPI_Status* status() { return own_.status(); }
    void end(int result);

  private:
    OwnStatus own_;
    Completion completion_;
    int* const flag_;
};

class Waitall {
  public:
    Waitall(Call& call, MPI_Count count, RequestVariables requests, MPI_Status* statuses)
        : completion_(call, static_cast<int>(count), requests), statuses_(completion_.statuses(statuses)) {}
    MPI_Status* statuses() { return statuses_; }
    void end(int result);

  protected:
    Completion completion_;
    MPI_Status* statuses_;
};

class Testall : public Waitall {
  public:
    Testall(Call& call, MPI_Count count, RequestVariables requests, int* flag, MPI_Status* statuses)
        : Waitall(call, count, requests, statuses), flag_(flag) {}
    void end(int result);

  private:
    int* const flag_;
};

class Waitany {
  public:
    Waitany(Call& call, MPI_Count count, RequestVariables requests, int* index, MPI_Status* status)
        : own_(call, status), completion_(call, static_cast<int>(count), requests), index_(index) {}
    MPI_Status* status() { return own_.status(); }
    void end(int result);

  protected:
    OwnStatus own_;
    Completion completion_;
    int* const index_;
};

class Testany : public Waitany {
  public:
    Testany(Call& call, MPI_Count count, RequestVariables requests, int* index, int* flag, MPI_Status* status)
        : Waitany(call, count, requests, index, status), flag_(flag) {}
    void end(int result);

  private:
    int* const flag_;
};

class Waitsome {
  public:
    Waitsome(Call& call, MPI_Count count, RequestVariables requests, int* outcount, int* indices, MPI_Status* statuses)
        : completion_(call, static_cast<int>(count), requests),
          statuses_(completion_.statuses(statuses)),
          outcount_(outcount),
          indices_(indices) {}
    MPI_Status* statuses() { return statuses_; }
    void end(int result) { end(result, false); }

  protected:
    void end(int result, bool tests);

  private:
    Completion completion_;
    MPI_Status* const statuses_;
    int* const outcount_;
    int* const indices_;
};

class Testsome : public Waitsome {
  public:
    using Waitsome::Waitsome;
    void end(int result) { Waitsome::end(result, true); }
};

// Looks, and completes nothing: the request is still the program's.
class RequestGetStatus {
  public:
    RequestGetStatus(Call& call, MPI_Request request, int* flag) : call_(call), request_(request), flag_(flag) {}
    void end(int result);

  private:
    Call& call_;
    const MPI_Request request_;
    int* const flag_;
};

// The program gives the request away. A send is recorded as complete here, which is when OTF2 says that it is released; of a receive
// nothing more is known.
class RequestFree {
  public:
    RequestFree(Call& call, RequestVariables request) : completion_(call, 1, request) {}
    void end(int result);

  private:
    Completion completion_;
};

// Only a mark: what became of it, its completion tells.
class Cancel {
  public:
    Cancel(Call& call, RequestVariables request);
    void end(int) { call_.leave(); }

  private:
    Call& call_;
};

}  // namespace polter::mpi::handler
