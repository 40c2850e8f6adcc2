// SPDX-License-Identifier: BSD-3-Clause
#include "trace_neighbours.hpp"

#include <fmt/format.h>
#include <otf2/otf2.h>

#include <map>
#include <sstream>
#include <tuple>

#include "../../tracer/conventions.hpp"

namespace {

enum Side { sender = 1, receiver = 2 };

// Ranks in the communicators of the tests are world ranks.
struct Properties {
    std::map<uint32_t, std::string> strings;
    std::map<std::tuple<std::string, uint32_t, uint32_t>, int> exchanges;  // communicator, from, to: the sides that know of it

    // "in 1 2 out 3", as a rank has it
    void read(uint32_t rank, const std::string& communicator, const std::string& value) {
        std::istringstream words(value);
        bool in = true;
        for (std::string word; words >> word;) {
            if (word == "in" || word == "out") {
                in = word == "in";
                continue;
            }
            const auto other = static_cast<uint32_t>(std::stoul(word));
            exchanges[{communicator, in ? other : rank, in ? rank : other}] |= in ? receiver : sender;
        }
    }
};

OTF2_CallbackCode on_string(void* data, OTF2_StringRef id, const char* text) {
    static_cast<Properties*>(data)->strings[id] = text;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_property(void* data, OTF2_LocationRef location, OTF2_StringRef name, OTF2_Type, OTF2_AttributeValue value) {
    auto& all = *static_cast<Properties*>(data);
    all.read(polter::trace::rank_of(location), all.strings[name], all.strings[value.stringRef]);
    return OTF2_CALLBACK_SUCCESS;
}

}  // namespace

Neighbourhoods read_neighbourhoods(const std::string& anchor) {
    Neighbourhoods read;
    OTF2_Reader* reader = OTF2_Reader_Open(anchor.c_str());
    if (!reader) return read;
    OTF2_Reader_SetSerialCollectiveCallbacks(reader);
    Properties all;
    OTF2_GlobalDefReader* definitions = OTF2_Reader_GetGlobalDefReader(reader);
    OTF2_GlobalDefReaderCallbacks* wanted = OTF2_GlobalDefReaderCallbacks_New();
    OTF2_GlobalDefReaderCallbacks_SetStringCallback(wanted, on_string);
    OTF2_GlobalDefReaderCallbacks_SetLocationPropertyCallback(wanted, on_property);
    OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, wanted, &all);
    uint64_t n = 0;
    OTF2_Reader_ReadAllGlobalDefinitions(reader, definitions, &n);
    OTF2_GlobalDefReaderCallbacks_Delete(wanted);
    OTF2_Reader_Close(reader);
    read.exchanges = all.exchanges.size();
    for (const auto& [exchange, sides] : all.exchanges) {
        const auto& [communicator, from, to] = exchange;
        if (sides != (sender | receiver)) read.one_sided.push_back(fmt::format("{}: only one side of {} → {}", communicator, from, to));
    }
    return read;
}
