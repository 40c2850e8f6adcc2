// SPDX-License-Identifier: BSD-3-Clause
// Probes and matched receives. A probe that found a message names it on its Leave. A matched probe's message is received later by a
// call that names only the message, so its communicator is kept.
#pragma once

#include "point_to_point.hpp"

namespace polter::mpi::handler {

class Probe {
  public:
    Probe(Call& call, int source, int tag, MPI_Comm comm, MPI_Status* status)
        : call_(call),
          own_(call, status),
          comm_(comm),
          any_(static_cast<uint8_t>((source == MPI_ANY_SOURCE ? 1 : 0) | (tag == MPI_ANY_TAG ? 2 : 0))) {}
    MPI_Status* status() { return own_.status(); }
    void end(int result) { end(result, true, nullptr); }

  protected:
    void end(int result, bool found, const MPI_Message* message);

  private:
    Call& call_;
    OwnStatus own_;
    const MPI_Comm comm_;
    const uint8_t any_;
};

class Iprobe : public Probe {
  public:
    Iprobe(Call& call, int source, int tag, MPI_Comm comm, const int* flag, MPI_Status* status)
        : Probe(call, source, tag, comm, status), flag_(flag) {}
    void end(int result) { Probe::end(result, result == MPI_SUCCESS && *flag_, nullptr); }

  private:
    const int* const flag_;
};

class Mprobe : public Probe {
  public:
    Mprobe(Call& call, int source, int tag, MPI_Comm comm, const MPI_Message* message, MPI_Status* status)
        : Probe(call, source, tag, comm, status), message_(message) {}
    void end(int result) { Probe::end(result, true, message_); }

  private:
    const MPI_Message* const message_;
};

class Improbe : public Probe {
  public:
    Improbe(Call& call, int source, int tag, MPI_Comm comm, const int* flag, const MPI_Message* message, MPI_Status* status)
        : Probe(call, source, tag, comm, status), flag_(flag), message_(message) {}
    void end(int result) { Probe::end(result, result == MPI_SUCCESS && *flag_, message_); }

  private:
    const int* const flag_;
    const MPI_Message* const message_;
};

// The message that a matched probe took; `known` false: none (MPI_MESSAGE_NO_PROC), or on a communicator that is not followed.
Probed take_message(MPI_Message message);

class Mreceive {
  public:
    Mreceive(Call& call, MPI_Message* message, MPI_Status* status) : call_(call), own_(call, status) {
        if (call) probed_ = take_message(*message);
    }
    MPI_Status* status() { return own_.status(); }
    void end(int result);

  private:
    Call& call_;
    OwnStatus own_;
    Probed probed_;
};

class Imreceive : public Begins {
  public:
    Imreceive(Call& call, MPI_Message* message, RequestVariables request);
};

}  // namespace polter::mpi::handler
