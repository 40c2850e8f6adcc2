// SPDX-License-Identifier: BSD-3-Clause
// A program or library on this host, asked for what an address in it belongs to. It may be damaged or made to do harm: to be used in a
// process of its own, with limits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "../sidecar.hpp"

namespace polter::seal {

struct CallSiteName {
    std::string function;  // as people write it; with "+0x1a" behind it where only the symbol table tells, else with the object's name
    std::string linkage;   // as the linker writes it; empty: the same
    std::string file;
    uint32_t line = 0;  // 0: not known, and no file
};

class CodeFile {
  public:
    // Opens the file only if it is a regular one and the very one that ran: by its build id, or its size and time of change.
    explicit CodeFile(const SidecarObject&);
    ~CodeFile();
    explicit operator bool() const;
    // The call behind which `address` stands, of an inlined function the innermost. An empty function: not known.
    CallSiteName call_before(uint64_t address) const;

  private:
    struct Opened;
    std::unique_ptr<Opened> opened_;
};

// "foo::bar" of "_ZN3foo3barEi": without parameters and result. Other names stay as they are.
std::string demangled(const std::string& linkage);

}  // namespace polter::seal
