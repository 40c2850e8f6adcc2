// SPDX-License-Identifier: BSD-3-Clause
#include "model_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "replay/base/error.hpp"
#include "replay/base/json_file.hpp"

namespace polter::replay {

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* schema = "polter.model/1";
constexpr const char* wanted = "give a file that `polter replay --save-model` wrote";
constexpr const char* kinds[] = {"receive_after_send", "receive_after_post", "wait_own",     "send_after_post", "send_own",
                                 "collective_tail",    "collective_own",     "notice_after", "notice_own",      "epoch_own",
                                 "collective_send"};  // what only learning needs is not written
static_assert(std::size(kinds) == static_cast<size_t>(CostKind::collective_shortest));
constexpr int64_t most_ns = 1'000'000'000'000;  // a quarter of an hour: sums of such times stay far from the end of an integer
constexpr uint32_t most_members = 1u << 24;

// One object of the file; each question says in the error where it was asked.
class Fields {
  public:
    Fields(const std::string& file, std::string where, const Json& object) : file_(file), where_(std::move(where)), object_(object) {
        if (!object_.is_object()) refuse("is no object");
    }
    [[noreturn]] void refuse(const std::string& what) const { throw InputError(fmt::format("{}: {} {}; {}", file_, where_, what, wanted)); }
    const Json& at(const char* name) const {
        const auto found = object_.find(name);
        if (found == object_.end()) refuse(fmt::format("lacks \"{}\"", name));
        return *found;
    }
    Fields inside(const char* name) const { return {file_, fmt::format("{}.{}", where_, name), at(name)}; }
    bool flag_if_there(const char* name) const { return object_.contains(name) && flag(name); }  // files of older versions lack it
    bool flag(const char* name) const {
        if (!at(name).is_boolean()) refuse(fmt::format("has a \"{}\" that is neither true nor false", name));
        return at(name).get<bool>();
    }
    int64_t number(const char* name, int64_t least, int64_t most) const { return integer(at(name), name, least, most); }
    int64_t number_if_there(const char* name, int64_t least, int64_t most, int64_t otherwise) const {
        return object_.contains(name) ? number(name, least, most) : otherwise;
    }
    int64_t integer(const Json& value, const char* name, int64_t least, int64_t most) const {
        if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) ||
            value.get<int64_t>() < least || value.get<int64_t>() > most)
            refuse(fmt::format("has a \"{}\" that is no integer from {} to {}", name, least, most));
        return value.get<int64_t>();
    }
    std::string text(const char* name) const {
        if (!at(name).is_string()) refuse(fmt::format("has a \"{}\" that is no text", name));
        return at(name).get<std::string>();
    }
    // `read(fields)` of each object of a list.
    template <class Read>
    void each(const char* name, Read read) const {
        const Json& list = at(name);
        if (!list.is_array()) refuse(fmt::format("has a \"{}\" that is no list", name));
        for (size_t i = 0; i < list.size(); ++i) read(Fields(file_, fmt::format("{}[{}]", name, i), list[i]));
    }

  private:
    const std::string& file_;
    std::string where_;
    const Json& object_;
};

Json class_json(const CostClass& of) {
    return {{"what", kinds[static_cast<size_t>(of.kind)]},
            {"same_host", of.same_host},
            {"synchronous", of.synchronous},
            {"operation", of.operation},
            {"size", of.size}};
}

CostClass read_class(const Fields& fields) {
    const std::string what = fields.text("what");
    const auto kind = std::find(std::begin(kinds), std::end(kinds), what);
    if (kind == std::end(kinds)) fields.refuse(fmt::format("is of an unknown kind \"{}\"", what));
    return {static_cast<CostKind>(kind - std::begin(kinds)), fields.flag("same_host"), fields.flag("synchronous"),
            static_cast<uint16_t>(fields.number("operation", 0, UINT16_MAX)), static_cast<uint64_t>(fields.number("size", 0, INT64_MAX))};
}

LearnedCost read_cost(const Fields& fields) {
    LearnedCost cost{read_class(fields), {}, fields.number("samples", 1, INT64_MAX)};
    const Json& ns = fields.at("ns");
    if (!ns.is_array() || ns.size() != 3) fields.refuse("has an \"ns\" that is no list of three: 5 %, median, 95 %");
    const auto part = [&](size_t i) { return fields.integer(ns[i], "ns", 0, most_ns); };
    cost.cost = {part(0), part(1), part(2), true, fields.number("spread_ns", 0, most_ns)};
    cost.cost.noise_ppm = static_cast<int32_t>(fields.number_if_there("noise_ppm", 0, Cost::all_of_excess, Cost::all_of_excess));
    if (cost.cost.spread > cost.cost.high - cost.cost.low) fields.refuse("has a \"spread_ns\" wider than its \"ns\"");
    if (cost.cost.low > cost.cost.mid || cost.cost.mid > cost.cost.high) fields.refuse("has an \"ns\" that does not rise");
    return cost;
}

LearnedProtocol read_protocol(const Fields& fields) {
    return {fields.flag("same_host"), static_cast<uint64_t>(fields.number("size", 0, INT64_MAX)),
            fields.number("before_posting", 0, INT64_MAX), fields.number("after_posting", 0, INT64_MAX),
            fields.flag_if_there("partitioned")};
}

Json structure_json(const std::optional<Structure>& structure) {
    if (!structure) return nullptr;
    return {{"made_of", to_string(structure->pattern)},
            {"hop_ns", structure->hop},
            {"own_ns", structure->own},
            {"hop_data_ns", structure->hop_data},
            {"own_data_ns", structure->own_data},
            {"taking_data_ns", structure->taking_data},
            {"call_ns", structure->call},
            {"eager_ppm", structure->eager_ppm},
            {"data_by_link", structure->link},
            {"link_elsewhere", structure->link_elsewhere},
            {"error_ns", structure->error},
            {"root_error_ns", structure->root_error},
            {"beyond_doubt", structure->certain}};
}

Structure read_structure(const Fields& fields, const CostClass& of, uint32_t members) {
    const auto operation = static_cast<uint8_t>(of.operation & 0xff);
    const Waits waits = structural_waits(operation, collective_waits(operation));
    const std::string name = fields.text("made_of");
    for (const Candidate& candidate : candidates(kind_of(of, waits, members), members))
        if (to_string(candidate.pattern) == name)
            return {.pattern = candidate.pattern,
                    .hop = fields.number("hop_ns", 0, most_ns),
                    .own = fields.number("own_ns", 0, most_ns),
                    .taking_data = fields.number_if_there("taking_data_ns", 0, most_ns, 0),
                    .hop_data = fields.number_if_there("hop_data_ns", 0, most_ns, 0),
                    .own_data = fields.number_if_there("own_data_ns", 0, most_ns, 0),
                    .call = fields.number_if_there("call_ns", 0, most_ns, 0),
                    .eager_ppm = fields.number_if_there("eager_ppm", 0, Structure::all_eager, Structure::all_eager),
                    .link = fields.flag_if_there("data_by_link"),
                    .link_elsewhere = fields.flag_if_there("link_elsewhere"),
                    .error = fields.number("error_ns", 0, most_ns),
                    .root_error = fields.number_if_there("root_error_ns", 0, most_ns, 0),
                    .certain = fields.flag("beyond_doubt")};
    fields.refuse(fmt::format("is made of \"{}\", which such a collective cannot be", name));
}

LearnedStructure read_collective(const Fields& fields) {
    LearnedStructure learned{read_class(fields), read_class(fields.inside("by_root")),
                             static_cast<uint32_t>(fields.number("members", 2, most_members)), fields.number("instances", 1, INT64_MAX)};
    if (learned.of.kind != CostKind::collective_tail || learned.by_root.kind != CostKind::collective_tail ||
        learned.of.operation != learned.by_root.operation)
        fields.refuse("is no class of collectives");
    const Json& error = fields.at("constant_error_ns");
    if (!error.is_number() || !std::isfinite(error.get<double>()) || error.get<double>() < 0)
        fields.refuse("has a \"constant_error_ns\" that is no time");
    learned.constant_error = error.get<double>();
    learned.constant_root_error = fields.number_if_there("constant_root_error_ns", 0, most_ns, 0);
    const auto structure = [&](const char* name) -> std::optional<Structure> {
        if (fields.at(name).is_null()) return std::nullopt;
        return read_structure(fields.inside(name), learned.of, learned.members);
    };
    learned.structure = structure("structure");
    learned.likeliest = structure("likeliest");
    return learned;
}

Json to_file(const Learned& model) {
    Json costs = Json::array(), protocols = costs, structures = costs;
    for (const LearnedCost& cost : model.costs) {
        Json row = class_json(cost.of);
        row["samples"] = cost.samples;
        row["ns"] = {cost.cost.low, cost.cost.mid, cost.cost.high};
        row["spread_ns"] = cost.cost.spread;
        row["noise_ppm"] = cost.cost.noise_ppm;
        costs.push_back(std::move(row));
    }
    for (const LearnedProtocol& protocol : model.protocols)
        protocols.push_back({{"same_host", protocol.same_host},
                             {"size", protocol.size},
                             {"before_posting", protocol.eager},
                             {"after_posting", protocol.late},
                             {"partitioned", protocol.partitioned}});
    for (const LearnedStructure& learned : model.structures) {
        Json row = class_json(learned.of);
        row["by_root"] = class_json(learned.by_root);
        row["members"] = learned.members;
        row["instances"] = learned.instances;
        row["constant_error_ns"] = learned.constant_error;
        row["constant_root_error_ns"] = learned.constant_root_error;
        row["structure"] = structure_json(learned.structure);
        row["likeliest"] = structure_json(learned.likeliest);
        structures.push_back(std::move(row));
    }
    return {{"schema", schema},
            {"costs", costs},
            {"protocols", protocols},
            {"structures", structures},
            {"clock_disorder_ns", model.clock_disorder_ns}};
}

bool is_standard_output(const std::string& file) {
    struct stat named {
    }, output{};
    return stat(file.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &output) == 0 && named.st_dev == output.st_dev &&
           named.st_ino == output.st_ino;
}

// A model of before, or nothing yet.
bool replaceable(const std::string& file) {
    std::ifstream in(file);
    if (in && in.peek() == std::ifstream::traits_type::eof()) return true;
    const Json json = Json::parse(in, nullptr, false);
    return json.is_object() && json.value("schema", Json()) == schema;
}

// Where links lead, to a file that need not exist.
fs::path target_of(fs::path path) {
    std::error_code error;
    if (const fs::path found = fs::canonical(path, error); !error) return found;
    constexpr int most_links = 40;  // as the kernel follows
    for (int i = 0; i < most_links && fs::is_symlink(fs::symlink_status(path, error)); ++i)
        path = path.parent_path() / fs::read_symlink(path, error);
    return path;
}

}  // namespace

void check_writable(const std::string& file) {
    const auto refuse = [&](const std::string& why) { throw InputError(fmt::format("{}: {}; name a file elsewhere", file, why)); };
    std::error_code error;
    const fs::file_status there = fs::status(file, error);
    if (!fs::status_known(there)) refuse(fmt::format("cannot be written ({})", error.message()));
    if (fs::is_directory(there)) refuse("is a directory");
    if (fs::is_block_file(there)) refuse("is a block device");
    if (fs::exists(there)) {
        if (access(file.c_str(), W_OK) != 0) refuse(fmt::format("cannot be written ({})", std::strerror(errno)));
        if (!fs::is_regular_file(there)) return;
        if (is_standard_output(file)) refuse("is where the result goes");
        if (!replaceable(file)) refuse(fmt::format("exists and is no model ({}), so it is not overwritten", schema));
    }
    const fs::path target = target_of(file), folder = target.has_parent_path() ? target.parent_path() : ".";
    if (access(folder.c_str(), W_OK) != 0) refuse(fmt::format("cannot be written ({}: {})", folder.string(), std::strerror(errno)));
}

void write_model(const Learned& model, const std::string& file) {
    // A file is replaced in one step; devices and pipes are there to be written to.
    const bool in_place = fs::exists(file) && !fs::is_regular_file(file);
    const std::string target = in_place ? file : target_of(file).string();
    const std::string written = in_place ? target : fmt::format("{}.partial-{}", target, getpid());
    std::ofstream out(written);
    out << to_file(model).dump(1) << '\n';
    out.close();
    std::error_code error;
    if (out && !in_place) fs::rename(written, target, error);
    if (out && !error) return;
    const std::string why = error ? error.message() : std::strerror(errno);
    if (!in_place) fs::remove(written, error);
    throw InputError(fmt::format("{}: the model cannot be written ({}); name a file elsewhere", file, why));
}

Learned read_model(const std::string& file) {
    const Json json = read_json(file, wanted);
    const Fields fields(file, "the model", json);
    if (const std::string found = fields.text("schema"); found != schema)
        fields.refuse(fmt::format("is of schema \"{}\", not {}", found, schema));
    Learned learned;
    std::set<uint64_t> known;
    std::set<std::pair<uint64_t, uint32_t>> known_structures;
    fields.each("costs", [&](const Fields& row) {
        learned.costs.push_back(read_cost(row));
        if (!known.insert(learned.costs.back().of.key()).second) row.refuse("stands there twice");
    });
    fields.each("protocols", [&](const Fields& row) { learned.protocols.push_back(read_protocol(row)); });
    fields.each("structures", [&](const Fields& row) {
        learned.structures.push_back(read_collective(row));
        const LearnedStructure& last = learned.structures.back();
        if (!known_structures.insert({last.of.key(), last.members}).second) row.refuse("stands there twice");
    });
    learned.clock_disorder_ns = fields.number("clock_disorder_ns", 0, INT64_MAX);
    return learned;
}

std::vector<Warning> unknown_lines(const Learned& shown, const Model& given, const std::string& file) {
    int64_t classes = 0, times = 0;
    const auto count = [&](bool known, int64_t samples) {
        if (known) return;
        ++classes;
        times += samples;
    };
    for (const LearnedCost& cost : shown.costs) count(given.cost(cost.of).known, cost.samples);
    for (const LearnedProtocol& protocol : shown.protocols)
        count(given.knows_protocol(protocol.same_host, protocol.partitioned), protocol.eager + protocol.late);
    for (const LearnedStructure& structure : shown.structures)
        count(given.knows_structure(structure.of, structure.members), structure.instances);
    if (classes == 0) return {};
    return {warning(Flaw::not_in_model, classes, times, file)};
}

}  // namespace polter::replay
