// SPDX-License-Identifier: BSD-3-Clause
// What the tracer does in the program's thread must not end that thread or its program.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <ctime>

namespace polter::write {

// While one exists the thread is not cancelled: a write(2) of ours would else be where it ends, inside of OTF2 and with its locks.
class NoCancel {
  public:
    NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
    NoCancel(const NoCancel&) = delete;

  private:
    int before_ = 0;
};

// Around whatever writes to a file of ours. Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ to the thread that wrote, which ends the program;
// here the write fails with EFBIG and the signal is taken back. The program's own disposition and mask are untouched.
class OwnPart {
  public:
    OwnPart() {
        sigemptyset(&signal_);
        sigaddset(&signal_, SIGXFSZ);
        sigset_t before;
        pthread_sigmask(SIG_BLOCK, &signal_, &before);
        blocked_ = sigismember(&before, SIGXFSZ) == 1;
        sigset_t pending;
        pending_ = blocked_ && sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;  // the program's own
    }
    ~OwnPart() {
        const int error = errno;
        const timespec none{};
        if (!pending_)
            while (sigtimedwait(&signal_, nullptr, &none) < 0 && errno == EINTR) {
            }
        if (!blocked_) pthread_sigmask(SIG_UNBLOCK, &signal_, nullptr);
        errno = error;
    }
    OwnPart(const OwnPart&) = delete;

  private:
    NoCancel no_cancel_;
    sigset_t signal_;
    bool blocked_ = false, pending_ = false;
};

}  // namespace polter::write
