// SPDX-License-Identifier: BSD-3-Clause
// What ranks leave behind: sidecars, event files and tails.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "../../tracer/conventions.hpp"
#include "../../tracer/seal/seal.hpp"
#include "../../tracer/seal/sidecar.hpp"
#include "../../tracer/seal/unify.hpp"
#include "../tracer/seal_ranks.hpp"
#include "parsers.hpp"
#include "replay/replay.hpp"

namespace polter::test {

namespace {

namespace fs = std::filesystem;

const char* const rank_lines[] = {
    R"({"polter_rank":1,"rank":1,"size":4,"host":"n1","pid":12,"program":"p","mpi":"m","thread_level":"t","clock_offset_ns":-5,"world":"w"})",
    R"({"exporter":"bpf","seen":["timer","preempt"],"net":["timer"],"why":""})",
    R"({"location":1,"thread":0,"name":"MPI Rank 1","tid":7})",
    R"({"location":4294967297,"thread":1,"name":"MPI Rank 1 thread 1","tid":8})",
    R"({"string":0,"value":"rival"})",
    R"({"string":1,"value":"kworker/0:1 \u00e9 \"quoted\""})",
    R"({"comm":2,"name":"half","parent":0,"key":"w.1","group":"world"})",
    R"({"comm":3,"name":"","parent":2,"key":"w.1.0","group":[0,2,3]})",
    R"({"comm":4,"name":"between","parent":0,"key":"w.2","group":[0,1],"remote":[2,3]})",
    R"({"comm":5,"parent":3,"key":"w.3","group":{"same_as":3}})",
    R"({"object":0,"path":"/nowhere/app","build_id":"9bcd","bytes":19440,"modified_seconds":1795404564})",
    R"({"call_site":0,"object":0,"address":4262})",
    R"({"call_site":1,"address":140737353})",
    R"({"final":true,"events":{"1":340,"4294967297":2},"dropped":1,"dropped_ns":5,"own_cost_ns":7,"warnings":["w"],"times":{"1":[10,20]}})"};

// Lines that are still JSON, and say something else.
std::string damage_lines(std::string& text, Random& random) {
    static const char* const values[] = {"0",
                                         "-1",
                                         "1",
                                         "4294967295",
                                         "18446744073709551615",
                                         "99999999999999999999",
                                         "1e308",
                                         "0.5",
                                         "null",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"world\"",
                                         "[0,0]",
                                         "[99]",
                                         "true",
                                         "\"\\u0000\"",
                                         "[[]]",
                                         "\"x\"",
                                         "{\"same_as\":7}"};
    if (random() % 2) {  // a value
        std::vector<size_t> colons;
        for (size_t i = 0; i < text.size(); ++i)
            if (text[i] == ':') colons.push_back(i);
        if (colons.empty()) return "nothing";
        const size_t at = colons[below(random, colons.size())] + 1, end = std::min(text.find_first_of(",}\n", at), text.size());
        const char* value = values[below(random, std::size(values))];
        text.replace(at, end - at, value);
        return fmt::format("value at {} is {}", at, value);
    }
    std::string line = rank_lines[below(random, std::size(rank_lines))];
    switch (random() % 8) {  // bombs: far ids, chains, nests
        case 0:
            line = fmt::format(R"({{"string":{},"value":"far"}})", random() % (1u << 23));
            break;
        case 1:
            line = fmt::format(R"({{"comm":{},"key":"k","group":{{"same_as":{}}}}})", random() % (1u << 13), random() % 8);
            break;
        case 2:
            line = fmt::format(R"({{"warnings":{}}})", std::string(below(random, 5000), '['));
            break;
        case 3:
            line.clear();
            for (uint32_t id = 10; id < 200; ++id)
                line += fmt::format("{{\"comm\":{},\"key\":\"c\",\"group\":{{\"same_as\":{}}}}}\n", id, id == 10 ? 3 : id - 1);
            break;
        default:
            break;
    }
    const size_t begin = below(random, text.size() + 1), newline = text.find('\n', begin),
                 at = newline == std::string::npos ? text.size() : newline + 1;
    text.insert(at, line + "\n");
    return fmt::format("a further line at {}", at);
}

class SidecarTarget : public Target {
  public:
    explicit SidecarTarget(const std::string& work) : folder_(work) { fs::create_directories(folder_); }

    std::string run(Random& random) override {
        std::string text, told;
        for (const char* line : rank_lines) text += std::string(line) + "\n";
        for (size_t k = 1 + below(random, 4); k > 0 && !text.empty(); --k)
            told += (random() % 3 ? damage_lines(text, random) : damage_bytes(text, random)) + "; ";
        std::ofstream(folder_ / trace::sidecar_name, std::ios::binary) << text;
        std::string why;
        auto rank = seal::read_sidecar(seal::Folder::open(folder_), why);
        if (!rank) {
            if (why.empty()) throw std::logic_error("refused without a reason");
            return told + why;
        }
        if (rank->rank >= rank->size) throw std::logic_error("a rank outside of its world");
        seal::Strings strings;
        const auto unified = seal::unify({*rank, *rank}, strings);
        for (const auto& group : unified.groups)
            for (const uint32_t member : group)
                if (member >= rank->size) throw std::logic_error("a member outside of the world");
        return told;
    }

  private:
    fs::path folder_;
};

class SealTarget : public Target {
  public:
    explicit SealTarget(const std::string& work) : experiment_(work + "/experiment") {
        add({{.rank = 0, .calls = 40}, {.rank = 1, .calls = 40}});
        add({{.rank = 0, .calls = 40, .times = false}, {.rank = 1, .calls = 40, .finishes = false}});
        add({{.rank = 0, .size = 3, .calls = 20, .finishes = false}, {.rank = 2, .size = 3, .calls = 20, .finishes = false}});
    }

    std::string run(Random& random) override {
        ArchiveBytes files = seeds_[below(random, seeds_.size())];
        std::string told;
        for (size_t k = 1 + below(random, 3); k > 0; --k) {
            auto victim = files.files.begin();
            std::advance(victim, static_cast<std::ptrdiff_t>(below(random, files.files.size())));
            if (victim->first.ends_with(trace::sidecar_name) && random() % 2 && !victim->second.empty())
                told += victim->first + ": " + damage_lines(victim->second, random) + "; ";
            else
                damage(files, random, told);
            if (files.files.empty()) break;
        }
        write_archive_bytes(files, experiment_);
        fs::create_directories(fs::path(experiment_) / trace::ranks_folder);
        try {
            seal::seal({.experiment = experiment_, .command = "fuzz"});
        } catch (const seal::Error& error) {
            return told + error.what();
        }
        replay::Options options;
        options.trace = experiment_;
        try {
            replay::replay(options);
        } catch (const replay::InputError& error) {  // ranks of which nothing was left
            if (std::string(error.what()).find("empty") == std::string::npos)
                throw std::logic_error(std::string("sealed, but: ") + error.what());
        }
        return told;
    }

  private:
    void add(const std::vector<seal_test::RankSpec>& ranks) {
        const seal_test::Experiment made;
        for (const auto& rank : ranks) seal_test::write_rank(made.path, rank);
        ArchiveBytes files = read_archive_bytes(made.path);
        for (auto& [name, bytes] : files.files)  // slots that were never used
            if (name.ends_with(".tail"))
                bytes.resize(std::min<size_t>(bytes.size(), trace::tail_header_size + 5 * trace::event_chunk_size));
        seeds_.push_back(std::move(files));
    }

    std::string experiment_;
    std::vector<ArchiveBytes> seeds_;
};

}  // namespace

std::unique_ptr<Target> make_sidecar_target(const std::string& work) {
    return std::make_unique<SidecarTarget>(work);
}
std::unique_ptr<Target> make_seal_target(const std::string& work) {
    return std::make_unique<SealTarget>(work);
}

}  // namespace polter::test
