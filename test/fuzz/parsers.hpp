// SPDX-License-Identifier: BSD-3-Clause
// The parsers of bytes that are ours, each as a function of one mutant. A mutant depends on (seed, number) alone. What is wrong is
// thrown as std::logic_error; crashes and endless loops are the driver's to see.
#pragma once

#include <memory>
#include <string>

#include "archive_bytes.hpp"

namespace polter::test {

class Target {
  public:
    virtual ~Target() = default;
    // Returns what was done, for the one who repeats it.
    virtual std::string run(Random&) = 0;
    virtual void finish() {}  // after the last one
};

// sidecar: what a rank said about itself. seal: a whole experiment that ranks left, killed ones too; what it makes must be readable.
// page: the noise page. client: the daemon's answers. daemon: its clients' requests. elf, loader-cache, command: what `polter run` reads of a
// command. `work`: an empty directory.
std::unique_ptr<Target> make_target(const std::string& name, const std::string& work);

std::unique_ptr<Target> make_sidecar_target(const std::string& work);
std::unique_ptr<Target> make_seal_target(const std::string& work);
std::unique_ptr<Target> make_page_target();
std::unique_ptr<Target> make_client_target();
std::unique_ptr<Target> make_daemon_target(const std::string& work);
std::unique_ptr<Target> make_elf_target(const std::string& work);
std::unique_ptr<Target> make_loader_cache_target();
std::unique_ptr<Target> make_command_target();

}  // namespace polter::test
