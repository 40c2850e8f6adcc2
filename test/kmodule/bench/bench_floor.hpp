// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The least that programs at the exporter's tracepoints can cost: the kernel's way to a program and back.

#include <memory>
#include <string>

class Floor {
  public:
    enum class Does { nothing, reads_clock };

    // Programs that do this, at all tracepoints of scheduling and interruptions that the exporter uses, until the object's end. Throws
    // std::runtime_error where that is not possible here.
    explicit Floor(Does does);
    ~Floor();
    Floor(const Floor&) = delete;

  private:
    struct Programs;
    std::unique_ptr<Programs> programs_;
};
