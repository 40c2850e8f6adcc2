// SPDX-License-Identifier: BSD-3-Clause
#include "random.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace polter::truth {

namespace {

MakePhase* maker(const std::string& kind) {
    for (const PhaseKinds* kinds : {&message_phases(), &choice_phases(), &collective_phases(), &window_phases()})
        if (const auto found = kinds->find(kind); found != kinds->end()) return found->second;
    return nullptr;
}

using Set = std::function<void(PhaseDescription&, double)>;

template <class T>
Set field(T PhaseDescription::*member) {
    return [member](PhaseDescription& phase, double value) { phase.*member = static_cast<T>(value); };
}

const std::map<std::string, Set>& fields() {
    static const std::map<std::string, Set> all{{"id", field(&PhaseDescription::id)},
                                                {"compute_ns", field(&PhaseDescription::compute_ns)},
                                                {"imbalance", field(&PhaseDescription::imbalance)},
                                                {"skew", field(&PhaseDescription::skew)},
                                                {"overlap", field(&PhaseDescription::overlap)},
                                                {"bytes", field(&PhaseDescription::bytes)},
                                                {"spread", field(&PhaseDescription::spread)},
                                                {"root", field(&PhaseDescription::root)},
                                                {"distance", field(&PhaseDescription::distance)},
                                                {"count", field(&PhaseDescription::count)},
                                                {"groups", field(&PhaseDescription::groups)},
                                                {"strided", field(&PhaseDescription::strided)},
                                                {"synchronous", field(&PhaseDescription::synchronous)},
                                                {"rotate", field(&PhaseDescription::rotate)}};
    return all;
}

PhaseDescription read_phase(const std::string& kind, std::istream& line) {
    if (maker(kind) == nullptr) throw std::runtime_error("no kind of phase: " + kind);
    PhaseDescription phase;
    phase.kind = kind;
    for (std::string setting; line >> setting;) {
        const size_t equals = setting.find('=');
        const auto found = fields().find(setting.substr(0, equals));
        if (equals == std::string::npos || found == fields().end()) throw std::runtime_error("no setting of a phase: " + setting);
        found->second(phase, std::stod(setting.substr(equals + 1)));
    }
    if (phase.bytes < 1 || phase.distance < 1 || phase.count < 1 || phase.groups < 1 || phase.root < 0)
        throw std::runtime_error("a setting out of range: " + kind);
    return phase;
}

}  // namespace

std::vector<Block> read_program(const std::string& file) {
    std::ifstream stream(file);
    if (!stream) throw std::runtime_error(file + ": cannot be read");
    std::vector<Block> blocks;
    for (std::string text; std::getline(stream, text);) {
        std::istringstream line(text);
        std::string word;
        if (!(line >> word) || word[0] == '#') continue;
        if (word == "block") {
            blocks.emplace_back();
            if (!(line >> blocks.back().repeat)) throw std::runtime_error(file + ": a block without its number of repetitions");
        } else {
            if (blocks.empty()) throw std::runtime_error(file + ": a phase before the first block");
            blocks.back().phases.push_back(read_phase(word, line));
        }
    }
    return blocks;
}

void run_program(const std::vector<Block>& blocks) {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int64_t most = 1;
    for (const Block& block : blocks)
        for (const PhaseDescription& phase : block.phases) most = std::max(most, phase.bytes);
    Phase::make_room(most * size);
    for (const Block& block : blocks) {
        std::vector<std::unique_ptr<Phase>> phases;
        for (const PhaseDescription& phase : block.phases) phases.push_back(maker(phase.kind)(phase));
        for (int64_t i = 0; i < block.repeat; ++i)
            for (const auto& phase : phases) phase->run(i);
        while (!phases.empty()) phases.pop_back();
    }
}

char* Phase::out = nullptr;
char* Phase::in = nullptr;

void Phase::make_room(int64_t bytes) {
    if (out != nullptr) return;  // the ranks are actors of one process
    out = static_cast<char*>(std::calloc(bytes, 1));
    in = static_cast<char*>(std::calloc(bytes, 1));
    if (out == nullptr || in == nullptr) throw std::runtime_error("no memory for the messages");
}

Phase::Phase(const PhaseDescription& description) : is(description) {
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (is.groups > 1) {
        const int groups = std::min(is.groups, size);
        MPI_Comm_split(MPI_COMM_WORLD, is.strided ? world % groups : world * groups / size, world, &comm);
    }
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
}

Phase::~Phase() {
    if (is.groups > 1) MPI_Comm_free(&comm);
}

int Phase::bytes(int64_t iteration, int sender) const {
    if (is.spread == 0) return static_cast<int>(is.bytes);
    const double share = 1 - is.spread * draw(is.id, iteration, 1000 + static_cast<uint64_t>(sender));
    return std::max(1, static_cast<int>(static_cast<double>(is.bytes) * share));
}

void Phase::work(int64_t iteration, double share, uint64_t part) const {
    const auto who = static_cast<uint64_t>(world);
    const double by_rank = 1 + is.skew * (2 * draw(is.id, ~who, 0) - 1);
    const double by_iteration = 1 + is.imbalance * (2 * draw(is.id * 64 + part, iteration, who) - 1);
    if (share > 0 && is.compute_ns > 0) compute(static_cast<int64_t>(static_cast<double>(is.compute_ns) * share * by_rank * by_iteration));
}

}  // namespace polter::truth
