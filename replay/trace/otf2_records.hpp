// SPDX-License-Identifier: BSD-3-Clause
// OTF2's record kinds by name, for code that treats all of them alike: POLTER_…(X) applies X to each.
// Source: OTF2 3.0, OTF2_EvtReaderCallbacks.h and OTF2_GlobalDefReaderCallbacks.h.
#pragma once

// Laid out by hand: clang-format's output for such lists is not stable.
// clang-format off

// Events that begin something which ends later or elsewhere. Metric and BufferFlush hold more than plain values and are in neither list.
#define POLTER_BEGINNING_EVENTS(X) \
    X(MpiSend) X(MpiIsend) X(MpiIrecvRequest) X(MpiCollectiveBegin) X(NonBlockingCollectiveRequest) X(RmaCollectiveBegin) \
    X(RmaRequestLock) X(RmaPut) X(RmaGet) X(RmaAtomic) X(IoOperationBegin) X(IoOperationIssued)

#define POLTER_OTHER_EVENTS(X) \
    X(MeasurementOnOff) X(Enter) X(Leave) X(MpiIsendComplete) X(MpiRecv) X(MpiIrecv) X(MpiRequestTest) X(MpiRequestCancelled) \
    X(MpiCollectiveEnd) X(OmpFork) X(OmpJoin) X(OmpAcquireLock) X(OmpReleaseLock) X(OmpTaskCreate) X(OmpTaskSwitch) \
    X(OmpTaskComplete) X(ParameterString) X(ParameterInt) X(ParameterUnsignedInt) X(RmaWinCreate) X(RmaWinDestroy) \
    X(RmaCollectiveEnd) X(RmaGroupSync) X(RmaAcquireLock) X(RmaTryLock) X(RmaReleaseLock) X(RmaSync) X(RmaWaitChange) \
    X(RmaOpCompleteBlocking) X(RmaOpCompleteNonBlocking) X(RmaOpTest) X(RmaOpCompleteRemote) X(ThreadFork) X(ThreadJoin) \
    X(ThreadTeamBegin) X(ThreadTeamEnd) X(ThreadAcquireLock) X(ThreadReleaseLock) X(ThreadTaskCreate) X(ThreadTaskSwitch) \
    X(ThreadTaskComplete) X(ThreadCreate) X(ThreadBegin) X(ThreadWait) X(ThreadEnd) X(CallingContextEnter) X(CallingContextLeave) \
    X(CallingContextSample) X(IoCreateHandle) X(IoDestroyHandle) X(IoDuplicateHandle) X(IoSeek) X(IoChangeStatusFlags) \
    X(IoDeleteFile) X(IoOperationTest) X(IoOperationComplete) X(IoOperationCancelled) X(IoAcquireLock) X(IoReleaseLock) \
    X(IoTryLock) X(ProgramBegin) X(ProgramEnd) X(NonBlockingCollectiveComplete) X(CommCreate) X(CommDestroy)

// All but ClockProperties and Location, which depend on the events.
#define POLTER_DEFINITIONS(X) \
    X(Paradigm) X(ParadigmProperty) X(IoParadigm) X(String) X(Attribute) X(SystemTreeNode) X(LocationGroup) X(Region) X(Callsite) \
    X(Callpath) X(Group) X(MetricMember) X(MetricClass) X(MetricInstance) X(Comm) X(Parameter) X(RmaWin) X(MetricClassRecorder) \
    X(SystemTreeNodeProperty) X(SystemTreeNodeDomain) X(LocationGroupProperty) X(LocationProperty) X(CartDimension) \
    X(CartTopology) X(CartCoordinate) X(SourceCodeLocation) X(CallingContext) X(CallingContextProperty) X(InterruptGenerator) \
    X(IoFileProperty) X(IoRegularFile) X(IoDirectory) X(IoHandle) X(IoPreCreatedHandleState) X(CallpathParameter) X(InterComm)

// clang-format on
