// SPDX-License-Identifier: BSD-3-Clause
#include "raw_definitions.hpp"

#include <fmt/core.h>

#include "archive.hpp"
#include "replay/base/error.hpp"

namespace polter::replay {

namespace {

using Raw = RawDefinitions;

Raw& raw(void* user) {
    return *static_cast<Raw*>(user);
}

// Paradigms whose members are threads of one process (OTF2_ParadigmClass THREAD_FORK_JOIN and THREAD_CREATE_WAIT).
bool of_threads(OTF2_Paradigm paradigm) {
    return paradigm == OTF2_PARADIGM_OPENMP || paradigm == OTF2_PARADIGM_PTHREAD;
}

OTF2_CallbackCode on_clock(void* user, uint64_t resolution, uint64_t offset, uint64_t, uint64_t) {
    raw(user).ticks = resolution;
    raw(user).offset = offset;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_string(void* user, OTF2_StringRef self, const char* text) {
    raw(user).strings[self] = text ? text : "";
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_group(void* user, OTF2_GroupRef self, OTF2_StringRef, OTF2_GroupType type, OTF2_Paradigm paradigm,
                           OTF2_GroupFlag flags, uint32_t count, const uint64_t* members) {
    raw(user).groups[self] = {type,
                              paradigm,
                              paradigm == OTF2_PARADIGM_MPI,
                              of_threads(paradigm),
                              (flags & OTF2_GROUP_FLAG_GLOBAL_MEMBERS) != 0,
                              {members, members + count}};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_location_group(void* user, OTF2_LocationGroupRef self, OTF2_StringRef, OTF2_LocationGroupType type,
                                    OTF2_SystemTreeNodeRef node, OTF2_LocationGroupRef) {
    raw(user).location_groups[self] = {type, node};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_system_tree_node(void* user, OTF2_SystemTreeNodeRef self, OTF2_StringRef name, OTF2_StringRef,
                                      OTF2_SystemTreeNodeRef) {
    raw(user).node_names[self] = name;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_location(void* user, OTF2_LocationRef self, OTF2_StringRef, OTF2_LocationType type, uint64_t events,
                              OTF2_LocationGroupRef group) {
    raw(user).locations.push_back({self, events, type, group});
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_comm(void* user, OTF2_CommRef self, OTF2_StringRef name, OTF2_GroupRef group, OTF2_CommRef parent, OTF2_CommFlag) {
    raw(user).comms[self] = {name, group, OTF2_UNDEFINED_UINT32, parent};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_intercomm(void* user, OTF2_CommRef self, OTF2_StringRef name, OTF2_GroupRef a, OTF2_GroupRef b, OTF2_CommRef,
                               OTF2_CommFlag) {
    raw(user).comms[self] = {name, a, b, OTF2_UNDEFINED_COMM};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_window(void* user, OTF2_RmaWinRef self, OTF2_StringRef, OTF2_CommRef comm, OTF2_RmaWinFlag) {
    raw(user).windows[self] = comm;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_location_property(void* user, OTF2_LocationRef location, OTF2_StringRef name, OTF2_Type type,
                                       OTF2_AttributeValue value) {
    if (type == OTF2_TYPE_STRING) raw(user).location_properties.push_back({location, name, value.stringRef});
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_region(void* user, OTF2_RegionRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_StringRef, OTF2_RegionRole role,
                            OTF2_Paradigm paradigm, OTF2_RegionFlag, OTF2_StringRef, uint32_t, uint32_t) {
    raw(user).regions[self] = {name, paradigm == OTF2_PARADIGM_MPI, paradigm == OTF2_PARADIGM_USER, of_threads(paradigm), role};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_member(void* user, OTF2_MetricMemberRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_MetricType,
                            OTF2_MetricMode mode, OTF2_Type, OTF2_Base base, int64_t exponent, OTF2_StringRef unit) {
    raw(user).members[self] = {name, unit, mode, base, exponent};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_class(void* user, OTF2_MetricRef self, uint8_t count, const OTF2_MetricMemberRef* members, OTF2_MetricOccurrence,
                           OTF2_RecorderKind) {
    raw(user).classes[self] = {members, members + count};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_instance(void* user, OTF2_MetricRef self, OTF2_MetricRef metric_class, OTF2_LocationRef, OTF2_MetricScope, uint64_t) {
    raw(user).instances[self] = metric_class;
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_attribute(void* user, OTF2_AttributeRef self, OTF2_StringRef name, OTF2_StringRef, OTF2_Type) {
    raw(user).attributes[self] = name;
    return OTF2_CALLBACK_SUCCESS;
}

OTF2_CallbackCode on_line(void* user, OTF2_SourceCodeLocationRef self, OTF2_StringRef file, uint32_t number) {
    raw(user).lines[self] = {file, number};
    return OTF2_CALLBACK_SUCCESS;
}
OTF2_CallbackCode on_context(void* user, OTF2_CallingContextRef self, OTF2_RegionRef region, OTF2_SourceCodeLocationRef line,
                             OTF2_CallingContextRef) {
    raw(user).contexts[self] = {region, line};
    return OTF2_CALLBACK_SUCCESS;
}

}  // namespace

RawDefinitions read_raw_definitions(OTF2_Reader* reader, const std::string& anchor) {
    OTF2_GlobalDefReader* definitions = OTF2_Reader_GetGlobalDefReader(reader);
    if (!definitions) throw InputError(fmt::format("{}: has no global definitions; the archive is incomplete", anchor));
    OTF2_GlobalDefReaderCallbacks* callbacks = OTF2_GlobalDefReaderCallbacks_New();
    OTF2_GlobalDefReaderCallbacks_SetClockPropertiesCallback(callbacks, on_clock);
    OTF2_GlobalDefReaderCallbacks_SetStringCallback(callbacks, on_string);
    OTF2_GlobalDefReaderCallbacks_SetGroupCallback(callbacks, on_group);
    OTF2_GlobalDefReaderCallbacks_SetSystemTreeNodeCallback(callbacks, on_system_tree_node);
    OTF2_GlobalDefReaderCallbacks_SetLocationGroupCallback(callbacks, on_location_group);
    OTF2_GlobalDefReaderCallbacks_SetLocationCallback(callbacks, on_location);
    OTF2_GlobalDefReaderCallbacks_SetCommCallback(callbacks, on_comm);
    OTF2_GlobalDefReaderCallbacks_SetInterCommCallback(callbacks, on_intercomm);
    OTF2_GlobalDefReaderCallbacks_SetRmaWinCallback(callbacks, on_window);
    OTF2_GlobalDefReaderCallbacks_SetLocationPropertyCallback(callbacks, on_location_property);
    OTF2_GlobalDefReaderCallbacks_SetRegionCallback(callbacks, on_region);
    OTF2_GlobalDefReaderCallbacks_SetMetricMemberCallback(callbacks, on_member);
    OTF2_GlobalDefReaderCallbacks_SetMetricClassCallback(callbacks, on_class);
    OTF2_GlobalDefReaderCallbacks_SetMetricInstanceCallback(callbacks, on_instance);
    OTF2_GlobalDefReaderCallbacks_SetAttributeCallback(callbacks, on_attribute);
    OTF2_GlobalDefReaderCallbacks_SetSourceCodeLocationCallback(callbacks, on_line);
    OTF2_GlobalDefReaderCallbacks_SetCallingContextCallback(callbacks, on_context);
    Raw result;
    OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, callbacks, &result);
    OTF2_GlobalDefReaderCallbacks_Delete(callbacks);
    uint64_t read = 0;
    const OTF2_ErrorCode code = read_global_definitions(reader, definitions, anchor, &read);
    OTF2_Reader_CloseGlobalDefReader(reader, definitions);
    if (code != OTF2_SUCCESS)
        throw InputError(
            fmt::format("{}: its definitions are damaged after {} records ({})", anchor, read, OTF2_Error_GetDescription(code)));
    return result;
}

}  // namespace polter::replay
