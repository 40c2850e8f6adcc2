// SPDX-License-Identifier: BSD-3-Clause
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <deque>

#include "mpi_plugin.h"
#include "replay/base/error.hpp"
#include "transport.hpp"

namespace polter::replay {

namespace {

int number(const char* variable) {
    const char* text = std::getenv(variable);
    return text ? std::atoi(text) : 0;
}

// The MPI of the launcher, from its environment variables; empty if there is only one process. Slurm sets its own variables in the whole
// job, even where srun started nothing, so a step's count is believed only together with PMIX_RANK.
std::string launcher_mpi() {
    const bool openmpi = number("OMPI_COMM_WORLD_SIZE") > 1 || (std::getenv("PMIX_RANK") && number("SLURM_STEP_NUM_TASKS") > 1);
    const bool mpich = number("PMI_SIZE") > 1;
    if (!openmpi && !mpich) return {};
    if (const char* asked = std::getenv("POLTER_MPI"); asked && *asked) return asked;
    return openmpi ? "openmpi" : "mpich";
}

class MpiTransport : public Transport {
  public:
    explicit MpiTransport(const std::string& library) {
        // RTLD_GLOBAL: MPI libraries load plug-ins that look up its symbols globally.
        void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (!handle)
            throw InputError(
                fmt::format("{}: cannot be loaded ({}); install that MPI, or start polter without a launcher", library, dlerror()));
        mpi_ = static_cast<const polter_group_mpi*>(dlsym(handle, "polter_group_mpi"));
        if (!mpi_) throw InputError(fmt::format("{}: is no part of polter ({}); install polter again", library, dlerror()));
        check(mpi_->start(&rank_, &size_), "start");
    }
    int rank() const override { return rank_; }
    int size() const override { return size_; }

    void send(int to, std::vector<uint8_t> message) override {
        if (message.size() > INT_MAX)
            throw InputError("what the analysis processes have to tell each other is too much for MPI; start fewer of them");
        Sending& sending = sending_.emplace_back(Sending{std::move(message), 0});
        check(mpi_->send(to, sending.message.data(), static_cast<int>(sending.message.size()), &sending.request), "send");
    }

    bool receive(int* from, std::vector<uint8_t>* message) override {
        forget_sent();
        int count = -1;
        check(mpi_->probe(from, &count), "look for messages");
        if (count < 0) return false;
        message->resize(static_cast<size_t>(count));
        check(mpi_->receive(*from, message->data(), count), "receive");
        return true;
    }

    void close() override {
        while (!sending_.empty()) forget_sent();
        check(mpi_->finish(), "end");
    }
    [[noreturn]] void abort(int code) override {
        mpi_->abort(code);
        _exit(code);
    }

  private:
    struct Sending {
        std::vector<uint8_t> message;
        uint64_t request;
    };

    void forget_sent() {
        while (!sending_.empty()) {
            int done = 0;
            check(mpi_->sent(&sending_.front().request, &done), "send");
            if (!done) return;
            sending_.pop_front();
        }
    }
    static void check(int error, const char* what) {
        if (error != 0) throw InputError(fmt::format("MPI cannot {} (error {}); start polter without a launcher", what, error));
    }

    const polter_group_mpi* mpi_ = nullptr;
    int rank_ = 0, size_ = 1;
    std::deque<Sending> sending_;
};

}  // namespace

std::unique_ptr<Transport> launched_together(const std::function<std::string(const std::string&)>& find_part) {
    const std::string mpi = launcher_mpi();
    if (mpi.empty()) return nullptr;
    if (mpi != "openmpi" && mpi != "mpich")
        throw InputError(fmt::format("POLTER_MPI={}: not an MPI that is known; set openmpi or mpich", mpi));
    const std::string file = fmt::format("libpolter-group-{}.so", mpi), library = find_part(file);
    if (library.empty())
        throw InputError(
            fmt::format("{}: not found beside polter; build polter where {} is installed, or start it without a launcher", file, mpi));
    auto transport = std::make_unique<MpiTransport>(library);
    if (transport->size() < 2)
        throw InputError(fmt::format("the launcher started several processes, and {} sees one: set POLTER_MPI to the launcher's MPI", mpi));
    return transport;
}

}  // namespace polter::replay
