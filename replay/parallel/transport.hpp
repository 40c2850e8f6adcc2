// SPDX-License-Identifier: BSD-3-Clause
// Transfers bytes between analysis processes. Messages from one process to another arrive in the order in which they were sent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace polter::replay {

class Transport {
  public:
    virtual ~Transport() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual void send(int to, std::vector<uint8_t> message) = 0;  // does not wait for the receiver
    // False: no message is there. Also completes pending sends. Throws InputError if another process has died.
    virtual bool receive(int* from, std::vector<uint8_t>* message) = 0;
    // Called when all processes have ended their work and no message is under way.
    virtual void close() = 0;
    // Ends all processes with this exit code, when they can no longer end by themselves.
    [[noreturn]] virtual void abort(int code) = 0;
};

// The processes that a launcher (mpirun, mpiexec, srun) started together with this one, found from its environment; null if this process is
// alone. `find_part` returns the path of a file installed with polter. Throws InputError.
std::unique_ptr<Transport> launched_together(const std::function<std::string(const std::string&)>& find_part);

}  // namespace polter::replay
