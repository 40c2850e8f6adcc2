// SPDX-License-Identifier: BSD-3-Clause
#include "bench_crowds.hpp"

#include <functional>
#include <map>
#include <memory>

#include "../support/crowd.hpp"
#include "start.hpp"

namespace {

struct Times {
    std::vector<double> all_ms, slowest_ms;
    int failed = 0;
    void add(const Crowd& crowd, std::uint64_t ns) {
        all_ms.push_back(static_cast<double>(ns) / 1e6);
        slowest_ms.push_back(static_cast<double>(crowd.result().slowest_ns.load()) / 1e6);
        failed += crowd.result().failed;
    }
    static double median(std::vector<double> values) {
        std::sort(values.begin(), values.end());
        return values.empty() ? 0 : values[values.size() / 2];
    }
    nlohmann::json json() const {
        return {{"all_ms", median(all_ms)}, {"slowest_one_ms", median(slowest_ms)}, {"failed", failed}, {"rounds", all_ms.size()}};
    }
};

}  // namespace

nlohmann::json crowds(const std::string& polterd, const std::string& socket, int rounds) {
    if (geteuid() != 0) return {{"skipped", "only root can be several users"}};
    std::map<std::string, Times> times;
    std::vector<double> ratios;
    // A daemon of its own each time: what one crowd has left prepared is not the next one's.
    const auto with_daemon = [&](const std::function<void()>& body) {
        const auto daemon = polter::daemon::start_daemon(polterd, socket, {.exit_with_last = false});
        if (daemon) body();
        polter::daemon::stop_daemon(daemon.pid);
        return static_cast<bool>(daemon);
    };
    const auto one = [&](const std::string& name, int processes, int threads, uid_t uid) {
        return with_daemon([&] {
            Crowd crowd(socket, processes, threads, uid);
            times[name].add(crowd, crowd.run());
        });
    };
    constexpr int half = 256;
    for (int round = 0; round < rounds; round++) {
        if (!one("64 processes", 64, 1, first_user) || !one("512 processes", 512, 1, first_user) ||
            !one("4096 threads of 4 processes", 4, 1024, first_user) ||
            !one("256 processes of the first user alone", half, 1, first_user) ||
            !one("256 processes of the second user alone", half, 1, second_user))
            return {{"error", "polterd does not run here"}};
        with_daemon([&] {
            Crowd first(socket, half, 1, first_user), second(socket, half, 1, second_user);
            first.begin();
            second.begin();
            const std::uint64_t a = first.wait(), b = second.wait();
            times["256 processes of the first user, beside the second"].add(first, a);
            times["256 processes of the second user, beside the first"].add(second, b);
            const double alone = times["256 processes of the first user alone"].all_ms.back() +
                                 times["256 processes of the second user alone"].all_ms.back();
            ratios.push_back(static_cast<double>(std::max(a, b)) / 1e6 / (alone / 2));
        });
    }
    nlohmann::json out;
    for (const auto& [name, of] : times) out[name] = of.json();
    out["beside_another_user_times_longer"] = Times::median(ratios);
    return out;
}
