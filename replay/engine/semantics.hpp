// SPDX-License-Identifier: BSD-3-Clause
// What the engine asks of the rules of MPI. The engine knows no operation by name: a call is published (its sends, its receives, its
// coming to a collective become known, and what it depends on is listed), waits for those dependencies, and is concluded with its end.
#pragma once

#include <array>

#include "state.hpp"

namespace polter::replay {

class Bytes;
class Engine;
class Input;
struct LockQueue;
struct Scratch;

// All that is to be said of one kind of dependency.
struct DependencyRule {
    bool (*satisfied)(Engine&, const Dependency&);         // the record that is waited for has been read
    void (*wait)(Engine&, Thread&, const Dependency&);     // to be woken when it has
    bool (*partner_finished)(Engine&, const Dependency&);  // whoever would write it has no more records
    // It will never come: counted, and the call ends as if it had not waited for it.
    void (*give_up)(Engine&, Thread&, Dependency&);
    void (*constrain)(Engine&, Thread&, const Dependency&, Scratch&);  // when the call cannot end before
};
using DependencyRules = std::array<DependencyRule, Dependency::kinds>;

class Semantics {
  public:
    virtual ~Semantics() = default;

    virtual const DependencyRules& dependency_rules() const = 0;  // by Dependency::Kind
    virtual void attach(Engine& engine) = 0;                      // before anything else, once
    virtual void publish(Engine& engine, Thread& thread) = 0;
    virtual void publish_unfinished(Engine& engine, Thread& thread) = 0;  // the trace ends inside the call
    virtual CallEnd conclude(Engine& engine, Thread& thread) = 0;

    virtual void message_arrived(Match& match) = 0;    // where its receiver is read
    virtual void message_forgotten(Match& match) = 0;  // one with Match::of_farm is given back
    virtual void drop(LockQueue* queue) = 0;           // Match::queue, with its message
    // Whether threads wait for their turn in a scenario's own time: then nobody is released before everybody waits, and the first of
    // them goes on. grant(): null where nobody can.
    virtual bool takes_turns() const = 0;
    virtual Thread* grant() = 0;

    // What the learning pass found, of several processes.
    virtual void write(Bytes& to) const = 0;
    virtual void merge(Input& from) = 0;
};

}  // namespace polter::replay
