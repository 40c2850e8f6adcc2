#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the wrappers of one MPI, and the table of regions, from functions.txt.

    generate.py regions  --table functions.txt -o mpi_regions.hpp
    generate.py wrappers --table functions.txt --compiler cc --include DIR… -o wrappers.cpp
    generate.py check    --table functions.txt --compiler cc --include DIR…     every function of that mpi.h is in the table

A wrapper is: guard (Call), begin (the handler's constructor), call, end. Its own names end in _, as no argument does. Only functions that the mpi.h declares are wrapped.
It takes handles in the width of a register (Wide in mpi.hpp), and has therefore a name of its own and MPI's only for the linker.
"""
import argparse
import re
import subprocess
import sys

# class: (handler, its arguments, what is passed to MPI instead of an argument). An argument is a role, renamed by `role=name` in the
# table; in braces: a fact of the table as it stands there.
HANDLERS = {
    "send": ("Send", "{mode} count datatype dest tag comm", {}),
    "recv": ("Receive", "source tag comm status", {"status": "status"}),
    "sendrecv": ("SendReceive", "count datatype dest sendtag source recvtag comm status", {"status": "status"}),
    "isend": ("Isend", "{mode} count datatype dest tag comm request", {}),
    "irecv": ("Ireceive", "source tag comm request", {}),
    "isendrecv": ("IsendReceive", "count datatype dest sendtag source recvtag comm request", {}),
    "send_init": ("SendInit", "{mode} count datatype dest tag comm request", {}),
    "recv_init": ("ReceiveInit", "source tag comm request", {}),
    "psend_init": ("PartitionedSendInit", "partitions count datatype dest tag comm request", {}),
    "precv_init": ("PartitionedReceiveInit", "partitions count datatype source tag comm request", {}),
    "pready": ("Pready", "request", {}),
    "pready_range": ("PreadyRange", "partition_low partition_high request", {}),
    "pready_list": ("PreadyList", "length request", {}),
    "parrived": ("Parrived", "request flag", {}),
    "start": ("Start", "request", {}),
    "startall": ("Startall", "count array_of_requests", {}),
    "irequest": ("OtherRequest", "request", {}),
    "request_init": ("OtherRequestInit", "request", {}),
    "wait": ("Wait", "request status", {"status": "status"}),
    "waitall": ("Waitall", "count array_of_requests array_of_statuses", {"array_of_statuses": "statuses"}),
    "waitany": ("Waitany", "count array_of_requests index status", {"status": "status"}),
    "waitsome": ("Waitsome", "incount array_of_requests outcount array_of_indices array_of_statuses", {"array_of_statuses": "statuses"}),
    "test": ("Test", "request flag status", {"status": "status"}),
    "testall": ("Testall", "count array_of_requests flag array_of_statuses", {"array_of_statuses": "statuses"}),
    "testany": ("Testany", "count array_of_requests index flag status", {"status": "status"}),
    "testsome": ("Testsome", "incount array_of_requests outcount array_of_indices array_of_statuses", {"array_of_statuses": "statuses"}),
    "request_get_status": ("RequestGetStatus", "request flag", {}),
    "request_free": ("RequestFree", "request", {}),
    "cancel": ("Cancel", "request", {}),
    "probe": ("Probe", "source tag comm status", {"status": "status"}),
    "iprobe": ("Iprobe", "source tag comm flag status", {"status": "status"}),
    "mprobe": ("Mprobe", "source tag comm message status", {"status": "status"}),
    "improbe": ("Improbe", "source tag comm flag message status", {"status": "status"}),
    "mrecv": ("Mreceive", "message status", {"status": "status"}),
    "imrecv": ("Imreceive", "message request", {}),
    "comm_create": ("CommCreate", "comm new {same}", {}),
    "comm_create_group": ("CommCreateGroup", "comm tag new", {}),
    "comm_idup": ("CommIdup", "comm newcomm request", {}),
    "comm_free": ("CommFree", "comm", {}),
    "comm_name": ("CommName", "comm comm_name", {}),
    "win_create": ("WinCreate", "comm win {memory}", {}),
    "win_free": ("WinFree", "win", {}),
    "win_fence": ("WinFence", "assert win", {}),
    "win_post": ("WinPost", "group win", {}),
    "win_start": ("WinStart", "group win", {}),
    "win_complete": ("WinComplete", "win", {}),
    "win_wait": ("WinWait", "win", {}),
    "win_test": ("WinTest", "win flag", {}),
    "win_lock": ("WinLock", "lock_type rank win", {}),
    "win_lock_all": ("WinLockAll", "win", {}),
    "win_unlock": ("WinUnlock", "rank win", {}),
    "win_unlock_all": ("WinUnlockAll", "win", {}),
    "win_flush": ("WinFlush", "rank win", {}),
    "win_flush_all": ("WinFlushAll", "win", {}),
    "win_name": ("WinName", "win win_name", {}),
    "rma": ("RmaOperation", "{memory} count datatype target_rank win", {}),
    "rma_request": ("RmaRequest", "{memory} count datatype target_rank win request", {}),
    "rma_one": ("RmaOne", "{memory} datatype target_rank win", {}),
    "file_open": ("FileOpen", "comm fh", {}),
    "file_collective": ("FileCollective", "fh", {}),
    "file_request": ("FileRequest", "fh request", {}),
    "file_close": ("FileClose", "fh", {}),
    "neighbour_collective": ("NeighbourCollective", "comm", {}),
    "neighbour_request": ("NeighbourRequest", "comm request", {}),
    "neighbour_init": ("NeighbourInit", "comm request", {}),
    "finalize": ("Finalize", "", {}),
}
HANDLE = re.compile(r"(MPI_(?:Comm|Datatype|Errhandler|File|Group|Info|Message|Op|Request|Session|Win)) (\w+)")  # by value
COLLECTIVES = {"collective": "BlockingCollective", "icollective": "NonBlockingCollective", "collective_init": "PersistentCollective"}
SILENT = {"plain", "query", "waiting"}  # Enter and Leave only
POLLS = {"test", "testall", "testany", "testsome", "request_get_status", "iprobe", "improbe"}
UNMADE = {"none", "pcontrol"}  # not wrapped, or by hand
CLASSES = {*SILENT, *UNMADE, "init", *HANDLERS, *COLLECTIVES}
FACTS = {"mode", "op", "role", "reason", "same", "memory", "send", "recv"}  # not the name of one argument

ONE_TO_ALL = {"bcast", "scatter", "scatterv"}
ALL_TO_ONE = {"gather", "gatherv", "reduce"}
POINT_TO_POINT = re.compile(r"(mode|probe|improbe|i?m?recv|i?sendrecv|recv_init|start|wait|test|request_free|cancel)")
ROLES = {"p2p": "POINT2POINT", "rma": "RMA", "file": "FILE_IO", "file_metadata": "FILE_IO_METADATA", "allocate": "ALLOCATE",
         "deallocate": "DEALLOCATE", "all_to_all": "COLL_ALL2ALL"}


def fail(message):
    sys.exit(f"generate.py: {message}")


class Function:
    def __init__(self, where, line):
        try:
            self.name, description, prototype = (part.strip() for part in line.split("|"))
            self.semantic, *roles = description.split()
            self.roles = dict(role.split("=", 1) for role in roles)
            self.result, parameters = re.fullmatch(r"(\w+)\((.*)\)", prototype).groups()
        except (ValueError, AttributeError):
            fail(f"{where}: expected `name | class role=value … | result(parameters)`")
        self.parameters = [] if parameters == "void" else [p.strip() for p in parameters.split(",")]
        self.arguments = [re.search(r"(\w+)\s*(\[\w*\])*$", p).group(1) if p != "..." else p for p in self.parameters]
        if self.semantic not in CLASSES:
            fail(f"{where}: {self.name}: no class {self.semantic}; one of {' '.join(sorted(CLASSES))}")
        for role, argument in self.roles.items():
            if role in FACTS and role not in ("send", "recv"):
                continue
            for name in argument.split(","):
                if name not in self.arguments:
                    fail(f"{where}: {self.name}: {role}={argument}, but there is no argument {name}")

    def argument(self, role):
        if role.startswith("{"):
            return f"Fact::{self.roles[role[1:-1]]}" if role[1:-1] in self.roles else "Fact::none"
        name = self.roles.get(role, role)
        if name not in self.arguments:
            if self.semantic == "comm_create_group" and role == "comm":  # those without a parent
                return "no_comm()"
            fail(f"{self.name}: class {self.semantic} needs an argument {role}; name it by {role}=…")
        return name

    def recorded(self):
        return {"none": "nothing", "plain": "local", "query": "on_request", "waiting": "enter_and_leave"}.get(self.semantic, "everything")

    def detail(self):
        return self.roles.get("op", self.roles.get("reason", ""))

    def otf2_role(self):
        if "role" in self.roles:
            return ROLES[self.roles["role"]]
        if self.semantic in COLLECTIVES:
            op = self.roles["op"]
            if op == "barrier":
                return "BARRIER"
            return "COLL_ONE2ALL" if op in ONE_TO_ALL else "COLL_ALL2ONE" if op in ALL_TO_ONE else "COLL_OTHER" if "scan" in op else "COLL_ALL2ALL"
        if self.semantic.startswith(("comm_create", "comm_idup", "comm_free")):
            return "COLL_OTHER"
        if "mode" in self.roles or POINT_TO_POINT.match(self.semantic):
            return "POINT2POINT"
        return "FUNCTION"


def read_table(path):
    functions = []
    with open(path, encoding="utf-8") as table:
        for number, line in enumerate(table, 1):
            line = line.strip()
            if line and not line.startswith("#"):
                functions.append(Function(f"{path}:{number}", line))
    names = [f.name for f in functions]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        fail(f"{path}: twice in the table: {' '.join(sorted(twice))}")
    return functions


def declared(compiler, include):
    """The MPI functions that an mpi.h declares, and how many arguments each has."""
    command = [compiler, "-E", "-P", "-x", "c", *(f"-I{d}" for d in include), "-"]
    run = subprocess.run(command, input="#include <mpi.h>\n", capture_output=True, text=True, check=False)
    if run.returncode:
        fail(f"{' '.join(command)}: {run.stderr.strip()}")
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", run.stdout)
    text = re.sub(r"\btypedef\b[^;{]*;", ";", text)
    found = {}
    for name, parameters in re.findall(r"\b(MPI_[A-Za-z]\w*)\s*\(([^;{}]*?)\)\s*;", text):
        found[name] = 0 if parameters.strip() == "void" else parameters.count(",") + 1
    if "MPI_Init" not in found:
        fail(f"{' '.join(command)}: declares no MPI_Init")
    return found


def guard(function):
    return "LocalCall" if function.semantic in ("plain", "query") else "PollCall" if function.semantic in POLLS else "Call"


def left_out(index, function, returned):
    """What a wrapper of such a function begins with: a load and a branch, where it is not recorded."""
    return [f"if (process.detail.leaves_out({index})) return {returned};"] if function.semantic in ("plain", "query") else []


def wrapper(index, function):
    f = function
    handles = {name: kind for kind, name in filter(None, (re.fullmatch(HANDLE, p) and re.fullmatch(HANDLE, p).groups() for p in f.parameters))}
    wide = [f"Wide<{handles[a]}> {a}_" if a in handles else p for a, p in zip(f.arguments, f.parameters)]
    body = []
    passed = [a + "_" if a in handles else a for a in f.arguments]
    if f.semantic in COLLECTIVES:
        sides = [f"Data({', '.join(f.roles[side].split(','))})" if side in f.roles else "Data()" for side in ("send", "recv")]
        root = f.roles.get("root", "no_root")
        request = ", request" if f.semantic != "collective" else ""
        body.append(f"handler::{COLLECTIVES[f.semantic]} handler_(call_, Op::{f.roles['op']}, {sides[0]}, {sides[1]}, {root}, comm{request});")
    elif f.semantic in HANDLERS:
        handler, roles, substitutes = HANDLERS[f.semantic]
        arguments = ", ".join(["call_"] + [f.argument(r) for r in roles.split()])
        body.append(f"handler::{handler} handler_({arguments});")
        for role, replacement in substitutes.items():
            passed[f.arguments.index(f.argument(role))] = f"handler_.{replacement}()"
    if f.semantic == "init":  # its own guard: nothing can be written before MPI is up
        body = [f"handler::Init handler_({index}, __builtin_return_address(0));"]
    else:
        body.insert(0, f"{guard(f)} call_({index}, __builtin_return_address(0));")
        body[:0] = left_out(index, f, f"next_({', '.join(passed)})")
        body.append("call_.begun();")
    body.append(f"const int result_ = next_({', '.join(passed)});")
    body.append("handler_.end(result_);" if f.semantic not in SILENT else "call_.leave();")
    if f.semantic not in SILENT:
        body = [f"const auto {name} = static_cast<{kind}>({name}_);" for name, kind in handles.items() if re.search(rf"\b{name}\b", " ".join(body))] + body
    lines = "\n    ".join(body)
    return f"""
static_assert(std::is_same_v<decltype({f.name}), int({', '.join(f.parameters)})>);
POLTER_WRAPPER int wrapped_{f.name}({', '.join(wide)}) __asm__("{f.name}");
int wrapped_{f.name}({', '.join(wide)}) {{
    const auto next_ = next_of<decltype(&wrapped_{f.name})>({index});
    if (!next_) return missing({index});
    {lines}
    return result_;
}}
"""


def write(path, text):
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def regions(functions):
    entries = "\n".join(f'    {{"{f.name}", OTF2_REGION_ROLE_{f.otf2_role()}, Recorded::{f.recorded()}, "{f.semantic}", "{f.detail()}"}},' for f in functions)
    return f"""// Made by generate.py from functions.txt. A region's id is its index here, in every trace and with every MPI.
#pragma once

#include <otf2/OTF2_Definitions.h>

namespace polter::trace {{

// What the trace has of a call. local: Enter and Leave, and no other process waits for it or is waited for in it. on_request: the same,
// where `polter run` was told to.
enum class Recorded : unsigned char {{ nothing, local, on_request, enter_and_leave, everything }};
constexpr bool is_local(Recorded recorded) {{
    return recorded == Recorded::local || recorded == Recorded::on_request;
}}

struct Region {{
    const char* name;
    OTF2_RegionRole role;
    Recorded recorded;
    const char *semantic, *detail;  // class, and operation of a collective or why nothing is recorded, as in functions.txt
}};

inline constexpr OTF2_Paradigm region_paradigm = OTF2_PARADIGM_MPI;
inline constexpr unsigned region_count = {len(functions)};
inline constexpr Region regions[region_count] = {{
{entries}
}};

}}  // namespace polter::trace
"""


def wrappers(functions, found):
    text = ["// Made by generate.py from functions.txt.\n#include \"handlers.hpp\"\n\nnamespace polter::mpi {\n"]
    for index, function in enumerate(functions):
        if function.semantic in UNMADE or function.name not in found:
            continue
        if found[function.name] != len(function.parameters):
            fail(f"{function.name} has {len(function.parameters)} arguments in the table, {found[function.name]} in this mpi.h")
        text.append(wrapper(index, function))
    text.append("\n}  // namespace polter::mpi\n")
    return "".join(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["regions", "wrappers", "check"])
    parser.add_argument("--table", required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--include", nargs="*", default=[])
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    functions = read_table(options.table)
    if options.what == "regions":
        write(options.output, regions(functions))
        return
    found = declared(options.compiler, options.include)
    if options.what == "wrappers":
        write(options.output, wrappers(functions, found))
        return
    missing = sorted(set(found) - {f.name for f in functions})
    if missing:
        fail(f"declared by mpi.h and not in {options.table}: {' '.join(missing)}")
    print(f"{len(found)} functions declared, all in the table ({len(functions)} entries)")


if __name__ == "__main__":
    main()
