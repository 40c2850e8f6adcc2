// SPDX-License-Identifier: BSD-3-Clause
#include "definition_copy.hpp"

#include <algorithm>
#include <cstdlib>

#include "replay/trace/archive.hpp"
#include "replay/trace/otf2_records.hpp"

// OTF2 has deprecated callsites and callpaths for recorders, but a trace may contain them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace polter::replay {

namespace {

OTF2_CallbackCode written(DefinitionCopy& copy, OTF2_ErrorCode code) {
    copy.code = code;
    return code == OTF2_SUCCESS ? OTF2_CALLBACK_SUCCESS : OTF2_CALLBACK_INTERRUPT;
}

// The reader's callback and the writer take the same arguments.
template <auto Write>
struct Plain;
template <class... Values, OTF2_ErrorCode (*Write)(OTF2_GlobalDefWriter*, Values...)>
struct Plain<Write> {
    static OTF2_CallbackCode copy(void* user, Values... values) {
        DefinitionCopy& copy = *static_cast<DefinitionCopy*>(user);
        return written(copy, Write(copy.writer, values...));
    }
};

OTF2_CallbackCode clock_properties(void* user, uint64_t resolution, uint64_t offset, uint64_t length, uint64_t realtime) {
    DefinitionCopy& copy = *static_cast<DefinitionCopy*>(user);
    length = std::max(length - std::min(length, copy.shorter_by), copy.least_length);
    return written(copy, OTF2_GlobalDefWriter_WriteClockProperties(copy.writer, resolution, offset, length, realtime));
}

OTF2_CallbackCode location(void* user, OTF2_LocationRef self, OTF2_StringRef name, OTF2_LocationType type, uint64_t,
                           OTF2_LocationGroupRef group) {
    DefinitionCopy& copy = *static_cast<DefinitionCopy*>(user);
    copy.locations.push_back(self);
    if (!copy.writer) return OTF2_CALLBACK_SUCCESS;
    const auto found = copy.events.find(self);
    const uint64_t events = found == copy.events.end() ? 0 : found->second;
    return written(copy, OTF2_GlobalDefWriter_WriteLocation(copy.writer, self, name, type, events, group));
}

OTF2_CallbackCode unknown_definition(void* user) {
    ++static_cast<DefinitionCopy*>(user)->unknown;
    return OTF2_CALLBACK_SUCCESS;
}

}  // namespace

void copy_definitions(OTF2_Reader* reader, const std::string& anchor, DefinitionCopy& copy) {
    OTF2_GlobalDefReader* definitions = OTF2_Reader_GetGlobalDefReader(reader);
    if (!definitions) {
        copy.code = OTF2_ERROR_FILE_INTERACTION;
        return;
    }
    OTF2_GlobalDefReaderCallbacks* callbacks = OTF2_GlobalDefReaderCallbacks_New();
    OTF2_GlobalDefReaderCallbacks_SetLocationCallback(callbacks, location);
    if (copy.writer) {
#define POLTER_DEFINITION(Kind) OTF2_GlobalDefReaderCallbacks_Set##Kind##Callback(callbacks, Plain<OTF2_GlobalDefWriter_Write##Kind>::copy);
        POLTER_DEFINITIONS(POLTER_DEFINITION)
#undef POLTER_DEFINITION
        OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(callbacks, clock_properties);
        OTF2_GlobalDefReaderCallbacks_SetUnknownCallback(callbacks, unknown_definition);
    }
    OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, callbacks, &copy);
    OTF2_GlobalDefReaderCallbacks_Delete(callbacks);
    uint64_t read = 0;
    const OTF2_ErrorCode code = read_global_definitions(reader, definitions, anchor, &read);
    OTF2_Reader_CloseGlobalDefReader(reader, definitions);
    if (copy.code == OTF2_SUCCESS) copy.code = code;
}

uint64_t copy_properties(OTF2_Reader* reader, OTF2_Archive* archive) {
    char* text = nullptr;
    if (OTF2_Reader_GetMachineName(reader, &text) == OTF2_SUCCESS && text) OTF2_Archive_SetMachineName(archive, text);
    std::free(text);
    text = nullptr;
    if (OTF2_Reader_GetDescription(reader, &text) == OTF2_SUCCESS && text) OTF2_Archive_SetDescription(archive, text);
    std::free(text);
    text = nullptr;
    if (OTF2_Reader_GetCreator(reader, &text) == OTF2_SUCCESS && text) OTF2_Archive_SetCreator(archive, text);
    std::free(text);
    uint64_t refused = 0;
    uint32_t count = 0;
    char** list = nullptr;
    if (OTF2_Reader_GetPropertyNames(reader, &count, &list) != OTF2_SUCCESS || !list) return 0;
    for (uint32_t i = 0; i < count; ++i) {
        char* value = nullptr;
        const bool copied = OTF2_Reader_GetProperty(reader, list[i], &value) == OTF2_SUCCESS && value &&
                            OTF2_Archive_SetProperty(archive, list[i], value, true) == OTF2_SUCCESS;
        refused += copied ? 0 : 1;
        std::free(value);
    }
    std::free(list);  // one block, which also holds the names
    return refused;
}

}  // namespace polter::replay
