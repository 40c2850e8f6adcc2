// SPDX-License-Identifier: BSD-3-Clause
// Sends and receives, blocking and not. Sends are stamped at Enter, receives at Leave. MPI_PROC_NULL: no records, only a request.
#pragma once

#include "core/call.hpp"
#include "core/variables.hpp"

namespace polter::mpi::handler {

// Where a message of the program goes: the communicator as the trace knows it. False: no record.
bool outgoing(MPI_Comm comm, int dest, int tag, MPI_Count count, MPI_Datatype type, write::Message& message);
// The communicator's local id; false: not followed.
bool local_id(MPI_Comm comm, uint32_t& id);
// What a wait for this receive has to know. `source`, `tag` as posted.
Request posted_receive(MPI_Comm comm, int source, int tag);

inline int posted_source(int source) {
    return source == MPI_ANY_SOURCE ? -1 : source;
}
inline int posted_tag(int tag) {
    return tag == MPI_ANY_TAG ? -1 : tag;
}

// A status to ask, whether or not the program wants one.
class OwnStatus {
  public:
    OwnStatus(const Call& call, MPI_Status* wanted) : status_(call && wanted == MPI_STATUS_IGNORE ? &own_ : wanted) {}
    MPI_Status* status() { return status_; }
    const MPI_Status& operator*() const { return *status_; }

  private:
    MPI_Status own_;
    MPI_Status* status_;
};

class Send {
  public:
    Send(Call& call, uint8_t mode, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) : call_(call) {
        write::Message message;
        if (call && outgoing(comm, dest, tag, count, type, message)) call.at().send(call.entered(), message, mode);
    }
    void end(int) {
        if (!call_) return;
        call_.come_back_early();
        call_.leave();
    }

  private:
    Call& call_;
};

class Receive {
  public:
    Receive(Call& call, int source, int tag, MPI_Comm comm, MPI_Status* status)
        : call_(call), own_(call, status), source_(source), tag_(tag), comm_(comm) {}
    MPI_Status* status() { return own_.status(); }
    void end(int result) {
        if (!call_) return;
        call_.come_back();
        if (result == MPI_SUCCESS) received(call_, comm_, source_, tag_, *own_);
        call_.leave();
    }
    static void received(Call& call, MPI_Comm comm, int source, int tag, const MPI_Status& status);

  private:
    Call& call_;
    OwnStatus own_;
    const int source_, tag_;
    const MPI_Comm comm_;
};

class SendReceive {
  public:
    SendReceive(Call& call, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
                MPI_Status* status)
        : send_(call, trace::send_standard, count, type, dest, sendtag, comm), receive_(call, source, recvtag, comm, status) {}
    MPI_Status* status() { return receive_.status(); }
    void end(int result) { receive_.end(result); }

  private:
    Send send_;
    Receive receive_;
};

// A call that begins a request: what is known of it before, its handle after. Also for kinds of requests that have no records, so
// that a shared handle leads to the right one.
class Begins {
  public:
    Begins(Call& call, RequestVariables request) : call_(call), variable_(request) {}
    void end(int result);

  protected:
    Call& call_;
    const RequestVariables variable_;
    Request request_;
};

class Isend : public Begins {
  public:
    Isend(Call& call, uint8_t mode, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, RequestVariables request);
};

class Ireceive : public Begins {
  public:
    Ireceive(Call& call, int source, int tag, MPI_Comm comm, RequestVariables request);
};

class IsendReceive : public Begins {
  public:
    IsendReceive(Call& call, MPI_Count count, MPI_Datatype type, int dest, int sendtag, int source, int recvtag, MPI_Comm comm,
                 RequestVariables request);
};

using OtherRequest = Begins;

}  // namespace polter::mpi::handler
