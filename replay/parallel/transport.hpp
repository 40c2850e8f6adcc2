// SPDX-License-Identifier: BSD-3-Clause
// How bytes get from one analysis process to another. Between two processes messages come in the order in which they were sent.
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
    // False: nothing is there. Also moves on what was sent. Throws InputError where another process has died.
    virtual bool receive(int* from, std::vector<uint8_t>* message) = 0;
    // All have come to their end and nothing is under way.
    virtual void close() = 0;
    // Ends all processes with this exit code, where they no longer come to their end by themselves.
    [[noreturn]] virtual void abort(int code) = 0;
};

// The processes that a launcher started together with this one (mpirun, mpiexec, srun: its environment tells, and by which MPI); none where
// this one is alone. `find_part`: the path of a file that is installed with polter. Throws InputError.
std::unique_ptr<Transport> launched_together(const std::function<std::string(const std::string&)>& find_part);

}  // namespace polter::replay
