// SPDX-License-Identifier: BSD-3-Clause
#include "delays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launch.hpp"
#include "layout.hpp"
#include "programs/flavour.hpp"
#include "spec.hpp"

namespace polter::inject {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void bad_delay(const std::string& spec, const std::string& what) {
    throw Error(fmt::format("delay \"{}\": {}; for example mpi,probability=0.1,mean=100us,sigma=20us", spec, what));
}

double probability_of(const std::string& spec, const std::string& text) {
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (*end == '%') value /= 100, ++end;
    if (text.empty() || *end != 0 || !(value > 0 && value <= 1)) bad_delay(spec, "probability is from above 0 to 1");
    return value;
}

void set(const std::string& spec, const std::string& word, Delays::Rule& rule, uint64_t& seed) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "probability")
        rule.probability = probability_of(spec, value);
    else if (key == "mean")
        rule.mean_ns = parse_time(value);
    else if (key == "sigma")
        rule.sigma_ns = parse_time(value);
    else if (key == "seed" && !value.empty() && value.find_first_not_of("0123456789") == std::string::npos && value.size() < 19)
        seed = std::stoull(value);
    else
        bad_delay(spec, fmt::format("\"{}\" is not known; known are probability, mean, sigma and seed", word));
}

}  // namespace

namespace {

std::vector<fs::path> logs_of(const fs::path& experiment) {
    std::vector<fs::path> logs;
    std::error_code error;
    for (const auto& file : fs::directory_iterator(experiment, error)) {
        const auto name = file.path().filename().string();
        if (name.starts_with("delays.") && name.ends_with(".jsonl")) logs.push_back(file.path());
    }
    return logs;
}

}  // namespace

bool has_delays(const fs::path& experiment) {
    return !logs_of(experiment).empty();
}

void align_delays(const fs::path& experiment, int64_t origin_ns) {
    for (const fs::path& log : logs_of(experiment)) {
        std::ifstream in(log);
        std::string line;
        std::getline(in, line);
        auto header = nlohmann::json::parse(line, nullptr, false);
        if (!header.is_object()) continue;
        header["origin_ns"] = origin_ns;
        const fs::path part = log.string() + ".part";
        std::ofstream out(part);
        out << header.dump() << '\n';
        if (in.peek() != EOF) out << in.rdbuf();
        out.close();
        if (!out) {
            fs::remove(part);
            throw Error(fmt::format("{}: the log of the delays cannot be written; free some room", log.string()));
        }
        fs::rename(part, log);
    }
}

Delays parse_delays(const std::vector<std::string>& specs) {
    Delays delays;
    for (const std::string& spec : specs) {
        size_t end = std::min(spec.find(','), spec.size());
        const std::string kind = spec.substr(0, end);
        if (kind != "mpi" && kind != "io") bad_delay(spec, fmt::format("\"{}\" is neither mpi nor io", kind));
        Delays::Rule& rule = kind == "mpi" ? delays.mpi : delays.io;
        while (end < spec.size()) {
            const size_t begin = end + 1;
            end = std::min(spec.find(',', begin), spec.size());
            set(spec, spec.substr(begin, end - begin), rule, delays.seed);
        }
        if (rule.probability <= 0 || rule.mean_ns + rule.sigma_ns <= 0) bad_delay(spec, "needs probability= and mean=");
    }
    return delays;
}

void preload_delays(const std::vector<std::string>& specs, const std::string& mpi, const std::vector<std::string>& command) {
    const Delays delays = parse_delays(specs);
    std::string name = mpi;
    if (name.empty()) {
        const auto flavour = launch::find_flavour(command);
        if (flavour.open || flavour.mpi == launch::Mpi::none)
            throw Error("--delay needs to know the MPI of the program: --mpi openmpi or --mpi mpich");
        name = launch::name_of(flavour.mpi);
    }
    const auto library = launch::find_part(fmt::format("libpolter-delays-{}.so", name));
    if (library.empty())
        throw Error(
            fmt::format("libpolter-delays-{}.so is not installed beside polter: build it with that MPI's development package", name));
    const char* others = std::getenv("LD_PRELOAD");
    setenv("LD_PRELOAD", others && *others ? fmt::format("{}:{}", library.string(), others).c_str() : library.c_str(), 1);
    setenv("POLTER_DELAYS",
           fmt::format("{} {} {} {} {} {} {}", delays.seed, delays.mpi.probability, delays.mpi.mean_ns, delays.mpi.sigma_ns,
                       delays.io.probability, delays.io.mean_ns, delays.io.sigma_ns)
               .c_str(),
           1);
}

}  // namespace polter::inject
