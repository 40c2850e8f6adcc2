// SPDX-License-Identifier: BSD-3-Clause
// polter doctor: what works here, what does not, and the command that mends it.
#include "../../tracer/doctor/doctor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "../../tracer/launch/exporter.hpp"
#include "../../tracer/launch/launch.hpp"
#include "../../tracer/launch/layout.hpp"
#include "../verb.hpp"
#include "analyzers/report/report.hpp"
#include "replay/base/printable.hpp"

namespace polter::cli {
namespace {

using doctor::Finding;
using doctor::Findings;
using doctor::State;

void append(Findings& all, Findings more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

bool works(const Findings& findings, const std::string& group, const std::string& name) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& f) { return f.group == group && f.name == name && f.state != State::fails; });
}

bool in_this_version(const std::string& exporter) {
    try {
        launch::check_exporter(exporter);
        return true;
    } catch (const launch::Error&) {
        return false;
    }
}

// What `polter run` would take; empty: nothing.
std::string best_exporter(const Findings& findings) {
    for (const auto& f : findings)
        if (f.group == "exporter" && f.name == "polterd" && f.state == State::works) return "polterd";
    for (const char* name : {"module", "bpf", "perf", "proc"})
        if (in_this_version(name) && works(findings, "exporter", name)) return name;
    return {};
}

void print_text(const Findings& findings, const std::string& verdict) {
    std::string group;
    for (const auto& f : findings) {
        if (f.group != group) fmt::print("{}{}\n", group.empty() ? "" : "\n", f.group);
        group = f.group;
        fmt::print("  {:<6} {:<14} {}\n", doctor::name_of(f.state), f.name, replay::printable(f.text));
        if (!f.mend.empty()) fmt::print("  {:<6} {:<14} -> {}\n", "", "", f.mend);
    }
    fmt::print("\n{}\n", verdict);
}

void print_json(const Findings& findings, bool ready, const std::string& exporter, const std::string& verdict) {
    nlohmann::json json{{"schema", "polter.doctor/1"}, {"ready", ready}, {"verdict", verdict}, {"findings", nlohmann::json::array()}};
    json["exporter"] = exporter.empty() ? nlohmann::json() : nlohmann::json(exporter);
    for (const auto& f : findings)
        json["findings"].push_back({{"group", f.group},
                                    {"name", f.name},
                                    {"state", doctor::name_of(f.state)},
                                    {"text", f.text},
                                    {"mend", f.mend.empty() ? nlohmann::json() : nlohmann::json(f.mend)}});
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

Finding report_page() {
    if (!report::page().empty()) return {"report", "page", State::works, "polter report writes the result as a page", ""};
    return {"report", "page", State::note, "polter was built without the page of polter report: node or npm was missing",
            "scripts/setup && scripts/build"};
}

void examine(const Common& common) {
    Findings findings;
    append(findings, doctor::exporters(launch::find_part(launch::daemon_program).string()));
    append(findings, doctor::mpis());
    append(findings, doctor::libraries());
    append(findings, doctor::limits());
    findings.push_back(doctor::host_name());
    append(findings, doctor::kernel());
    findings.push_back(report_page());
    for (auto& f : findings)
        if (f.group == "exporter" && f.name != "polterd" && f.state != State::fails && !in_this_version(f.name)) {
            f.state = State::note;
            f.text += "; but this version of polter cannot use it";
        }

    const std::string exporter = best_exporter(findings);
    const bool mpi = works(findings, "mpi", "openmpi") || works(findings, "mpi", "mpich");
    const bool ready = mpi && !exporter.empty();
    const std::string verdict =
        ready  ? fmt::format("Ready: a job can be traced, and its noise measured by {}. Try: polter run mpirun -n 2 ./app", exporter)
        : !mpi ? "No job can be traced: no MPI works here."
               : "A job can be traced, but its noise cannot be measured: no exporter works here.";
    if (common.json)
        print_json(findings, ready, exporter, verdict);
    else
        print_text(findings, verdict);
    if (!ready) throw Exit{1};
}

}  // namespace

void add_doctor(CLI::App& parent) {
    auto* verb = parent.add_subcommand("doctor", "Check what works on this machine; show the command that fixes what does not");
    const auto common = std::make_shared<Common>();
    add_common(*verb, *common);
    verb->footer(
        "Exit code: 0 if a job can be traced with its noise, else 1. It changes nothing.\n"
        "Example: polter doctor");
    verb->callback([common] { examine(*common); });
}

}  // namespace polter::cli
