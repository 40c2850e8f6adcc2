// SPDX-License-Identifier: BSD-3-Clause
// The guard of a wrapper: Enter at construction, Leave at leave(). Inactive (false) where the call is not traced; it then costs a few
// loads. Handlers write what belongs between Enter and Leave.
#pragma once

#include "process.hpp"

namespace polter::mpi {

class Call {
  public:
    // `from`: the address to which the wrapper returns.
    Call(uint32_t region, const void* from) : region_(region) {
        if (thread.depth++ == 0 && process.on.load(std::memory_order_relaxed)) begin(from);
    }
    struct Poll {};
    Call(uint32_t region, const void* from, Poll) : region_(region), polls_(process.merges_polls) {
        if (thread.depth++ == 0 && process.on.load(std::memory_order_relaxed)) begin(from);
    }
    Call(uint32_t region, const void* from, bool wanted) : region_(region) {
        if (thread.depth++ == 0 && wanted && process.on.load(std::memory_order_relaxed)) begin(from);
    }
    ~Call() {
        if (location_ && !left_) leave();  // left by an exception of the program's error handler
        thread.depth--;
    }
    Call(const Call&) = delete;

    explicit operator bool() const { return location_ != nullptr; }
    write::Location& at() const { return *location_; }
    uint64_t entered() const { return entered_; }
    uint64_t returned() const { return returned_; }
    uint32_t region() const { return region_; }

    // The last thing before the call itself, so that a sample of its beginning is whole.
    void begun() {
        if (sampled_ == Sampled::begin) [[unlikely]]
            sample_begin();
    }
    // The call has come back: its end is now. Records of the end are written after this, then leave().
    void come_back() {
        if (sampled_ == Sampled::end) [[unlikely]]
            location_->begin_sample();
        returned_ = counted() ? location_->stamp_after() : location_->stamp();
    }
    // The same of a call that brings nothing from another process: the processor may read the clock some instructions early.
    void come_back_early() {
        if (sampled_ == Sampled::end) [[unlikely]]
            location_->begin_sample();
        returned_ = counted() ? location_->stamp_after() : location_->early_stamp();
    }
    void leave() {
        if (!location_) return;
        if (!returned_) come_back();
        location_->leave(returned_, region_);
        left();
    }
    // The same where a poll found nothing: those that do so in a row become one call.
    void leave_in_vain() {
        if (!polls_ || location_->counts()) return leave();
        if (!returned_) come_back();
        location_->poll_failed(entered_, returned_, region_);
        left();
    }
    // A poll that may become one more of those before it.
    bool held() const { return location_->held(); }
    // The same with the message that a probe found.
    void leave_probe(int source, int tag, uint32_t comm, uint8_t any, uint32_t partitioned = 0) {
        location_->leave_probe(returned_, region_, source, tag, comm, any, partitioned);
        left();
    }
    // The same with the communicator that the call was on.
    void leave_on(uint32_t comm) {
        location_->leave_on(returned_, region_, comm);
        left();
    }

  private:
    void begin(const void* from) {
        location_ = thread.location;
        if (!location_) [[unlikely]] {
            location_ = adopt_thread();
            if (!location_) return;
        }
        if (location_->sampled()) [[unlikely]]
            choose_sample();
        entered_ = counted() ? location_->stamp_before() : location_->early_stamp();
        if (polls_ && !location_->counts())
            location_->enter_poll(entered_, region_, from);
        else
            location_->enter(entered_, region_, from);
    }
    bool counted() const { return location_->counts() && process.detail.on(); }
    void left() {
        left_ = true;
        if (sampled_ != Sampled::no) [[unlikely]]
            sample_end();
    }
    enum class Sampled : uint8_t { no, begin, end };
    void choose_sample();
    void sample_begin();
    void sample_end();

    write::Location* location_ = nullptr;
    uint64_t entered_ = 0, returned_ = 0;
    uint64_t began_ = 0;  // where its beginning is sampled and counters are read: before that
    uint32_t region_;
    bool left_ = false;
    const bool polls_ = false;
    Sampled sampled_ = Sampled::no;
};

// The guard of a function that looks for something, and may not find it.
class PollCall : public Call {
  public:
    PollCall(uint32_t region, const void* from) : Call(region, from, Poll{}) {}
};

// The guard of a function that is a detail.
class LocalCall : public Call {
  public:
    LocalCall(uint32_t region, const void* from) : Call(region, from, process.detail.wanted(region)) {}
};

}  // namespace polter::mpi
