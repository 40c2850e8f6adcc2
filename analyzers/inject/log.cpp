// SPDX-License-Identifier: BSD-3-Clause
#include "log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "replay/base/error.hpp"
#include "replay/base/json_file.hpp"
#include "spec.hpp"

namespace polter::inject {

namespace {

using Json = nlohmann::json;
constexpr const char* schema = "polter.inject/1";

Json events_of(const LoggedSource& source, int64_t origin) {
    Json list = Json::array();
    for (const Injected& event : source.events)
        if (event.begin_ns >= origin)
            list.push_back(
                {{"rank", event.rank}, {"time_ns", event.begin_ns - origin}, {"duration_ns", event.duration_ns}, {"cpu", event.cpu}});
    return list;
}

bool is_stretched(const Injected& event) {
    return event.duration_ns - event.cpu_ns > std::max<int64_t>(event.duration_ns / 20, 2'000);
}

}  // namespace

size_t Log::events() const {
    size_t sum = 0;
    for (const LoggedSource& source : sources) sum += source.events.size();
    return sum;
}

size_t Log::stretched() const {
    size_t sum = 0;
    for (const LoggedSource& source : sources)
        sum += static_cast<size_t>(std::count_if(source.events.begin(), source.events.end(), is_stretched));
    return sum;
}

Json to_json(const Log& log) {
    Json sources = Json::array(), specs = Json::array(), interrupts = Json::array();
    for (const LoggedSource& source : log.sources) {
        specs.push_back({{"name", source.name}, {"spec", source.spec}, {"events", source.events.size()}});
        Json events = events_of(source, log.origin_ns);
        if (!events.empty()) sources.push_back({{"name", source.name}, {"events", std::move(events)}});
    }
    for (const LoggedInterrupts& each : log.interrupts)
        interrupts.push_back({{"name", each.name},
                              {"spec", each.spec},
                              {"cpus", each.cpus},
                              {"period_ns", each.period_ns},
                              {"begin_ns", each.begin_ns - log.origin_ns},
                              {"end_ns", each.end_ns - log.origin_ns},
                              {"caused", each.caused}});
    return {{"schema", schema},
            {"sources", std::move(sources)},
            {"injector",
             {{"origin_ns", log.origin_ns},
              {"begin_ns", log.begin_ns - log.origin_ns},
              {"end_ns", log.end_ns - log.origin_ns},
              {"priority", log.real_time ? "real-time" : "normal"},
              {"stretched", log.stretched()},
              {"incomplete", log.incomplete},
              {"specs", std::move(specs)},
              {"interrupts", std::move(interrupts)},
              {"warnings", log.warnings}}}};
}

Log log_from_json(const Json& json, const std::string& file) {
    Log log;
    try {
        if (json.at("schema") != schema) throw Error(fmt::format("{}: is not of schema {}", file, schema));
        const Json& injector = json.at("injector");
        log.origin_ns = injector.at("origin_ns").get<int64_t>();
        log.begin_ns = log.origin_ns + injector.at("begin_ns").get<int64_t>();
        log.end_ns = log.origin_ns + injector.at("end_ns").get<int64_t>();
        log.real_time = injector.at("priority") == "real-time";
        log.incomplete = injector.at("incomplete").get<std::string>();
        log.warnings = injector.at("warnings").get<std::vector<std::string>>();
        for (const Json& spec : injector.at("specs")) log.sources.push_back({spec.at("name"), spec.at("spec"), {}});
        for (const Json& each : injector.at("interrupts"))
            log.interrupts.push_back({each.at("name"), each.at("spec"), each.at("cpus").get<std::vector<int32_t>>(),
                                      each.at("period_ns").get<int64_t>(), log.origin_ns + each.at("begin_ns").get<int64_t>(),
                                      log.origin_ns + each.at("end_ns").get<int64_t>(), each.at("caused").get<uint64_t>()});
        for (const Json& source : json.at("sources")) {
            const auto to =
                std::find_if(log.sources.begin(), log.sources.end(), [&](const auto& one) { return one.name == source.at("name"); });
            if (to == log.sources.end()) throw Error(fmt::format("{}: source {} has no specification", file, source.at("name").dump()));
            for (const Json& event : source.at("events")) {
                const auto duration = event.at("duration_ns").get<int64_t>();
                to->events.push_back({event.at("rank").get<int32_t>(), event.value("cpu", -1),
                                      log.origin_ns + event.at("time_ns").get<int64_t>(), duration, duration});
            }
        }
    } catch (const Json::exception& error) {
        throw Error(fmt::format("{}: is no log of the injector: {}", file, error.what()));
    }
    return log;
}

Log read_log(const std::string& file) {
    try {
        return log_from_json(replay::read_json(file, fmt::format("a log of polter inject, schema {}", schema)), file);
    } catch (const replay::InputError& error) {
        throw Error(error.what());
    }
}

void write_log(const Log& log, const std::filesystem::path& file) {
    const std::string text = to_json(log).dump(1) + "\n", part = file.string() + ".part";
    const auto failed = [&] {
        const int reason = errno;
        unlink(part.c_str());
        throw Error(fmt::format("{}: the log of the injected noise cannot be written: {}; free some room, or name another file",
                                file.string(), std::strerror(reason)));
    };
    const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) failed();
    for (size_t done = 0; done < text.size();) {
        const ssize_t n = write(fd, text.data() + done, text.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            const int reason = errno;
            close(fd);
            errno = reason;
            failed();
        }
        done += static_cast<size_t>(n);
    }
    if (close(fd) != 0 || rename(part.c_str(), file.c_str()) != 0) failed();
}

}  // namespace polter::inject
