// SPDX-License-Identifier: BSD-3-Clause
// What the engine asks of the MPI rules. The engine knows no MPI function by name. A call is published (its sends, receives and arrivals at
// collectives become known, and its dependencies are listed), waits for these dependencies, and is concluded with its end.
#pragma once

#include <array>

#include "state.hpp"

namespace polter::replay {

class Bytes;
class Engine;
class Input;
struct LockQueue;
struct Scratch;

// The functions of one kind of dependency.
struct DependencyRule {
    bool (*satisfied)(Engine&, const Dependency&);         // the awaited record has been read
    void (*wait)(Engine&, Thread&, const Dependency&);     // registers the thread to be woken when it has been read
    bool (*partner_finished)(Engine&, const Dependency&);  // the thread that would write the record has no more records
    // The record does not exist: counts a flaw; the call ends as if it had not waited for it.
    void (*give_up)(Engine&, Thread&, Dependency&);
    void (*constrain)(Engine&, Thread&, const Dependency&, Scratch&);  // appends the earliest end of the call that this dependency allows
};
using DependencyRules = std::array<DependencyRule, Dependency::kinds>;

class Semantics {
  public:
    virtual ~Semantics() = default;

    virtual const DependencyRules& dependency_rules() const = 0;  // indexed by Dependency::Kind
    virtual void attach(Engine& engine) = 0;                      // called once, before all other functions
    virtual void publish(Engine& engine, Thread& thread) = 0;
    virtual void publish_unfinished(Engine& engine, Thread& thread) = 0;  // the trace ends inside this call
    virtual CallEnd conclude(Engine& engine, Thread& thread) = 0;

    virtual void message_arrived(Match& match) = 0;    // called in the process that reads the receiver
    virtual void message_forgotten(Match& match) = 0;  // a match with Match::of_farm returns to its pool
    virtual void drop(LockQueue* queue) = 0;           // frees Match::queue when its match returns to the pool
    // True where threads wait for locks in the time of one scenario: then no thread is released before all wait, and grant() lets the first
    // request continue. grant() returns null if no lock can be granted.
    virtual bool takes_turns() const = 0;
    virtual Thread* grant() = 0;

    // What the learning pass found, to be merged among analysis processes.
    virtual void write(Bytes& to) const = 0;
    virtual void merge(Input& from) = 0;
};

}  // namespace polter::replay
