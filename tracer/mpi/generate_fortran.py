#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the wrappers of the Fortran bindings (mpif.h, mpi, mpi_f08) from functions.txt, for every MPI alike.

    generate_fortran.py wrappers --table functions.txt -o fortran_wrappers.cpp
    generate_fortran.py check    --table functions.txt < names     these names, which an MPI library has, are wrapped

A wrapper has the shape of the C ones, and their handlers (generate.py). It takes what the prototype has, all by reference, then the error
code, then the length of each text. The bindings differ by name alone, but for buffers in array descriptors.
"""
import argparse
import re
import sys

sys.dont_write_bytecode = True  # the sources stay as they are
from generate import COLLECTIVES, HANDLERS, UNMADE, fail, guard, left_out, read_table, write

# Names that no table has: constants, callbacks, and what asks or converts without communication.
NOT_WRAPPED = re.compile(r"mpi_(fortran_\w+|sizeof\w*|\w*(dup|copy|delete)_fn|conversion_fn_null|f_sync_reg|aint_(add|diff)|wtime|wtick|pcontrol"
                         r"|status_\w*2\w*|\w+_[cf]2[cf]|delete_error_(class|code|string))(_f08(ts)?|_f90|_cptr)?__?")
WITH_C_PTR = {"MPI_Alloc_mem", "MPI_Win_allocate", "MPI_Win_allocate_shared", "MPI_Win_shared_query"}  # MPI-3.1, section 8.2
PARAMETER = re.compile(r"(?:const )?(\w+) ?(\**) ?(\w+)((?:\[\w*\])*)")
BY_VALUE = re.compile(r"MPI_(Comm|Datatype|File|Group|Message|Request|Win)")
# Arguments that are handles which the call makes.
MADE = {"newcomm", "new_comm", "comm_cart", "comm_graph", "comm_dist_graph", "newintercomm"}
MAKES_REQUEST = {"isend", "irecv", "isendrecv", "send_init", "recv_init", "psend_init", "precv_init", "neighbour_request", "neighbour_init", "file_request", "rma_request", "irequest", "request_init", "imrecv", "comm_idup", *COLLECTIVES}
MAKES = {"win_create": "win", "file_open": "fh", "mprobe": "message", "improbe": "message"}


class Parameter:
    def __init__(self, text):
        self.base, stars, self.name, arrays = PARAMETER.fullmatch(text).groups()
        self.pointer, self.array = bool(stars), bool(arrays)
        self.text = self.base == "char"
        if self.base == "int" or BY_VALUE.fullmatch(self.base):
            self.type = "MPI_Fint*"
        else:
            self.type = "MPI_Count*" if self.base == "MPI_Count" else "void*"


class Wrapper:
    """The C++ text of one function."""

    def __init__(self, index, function):
        self.index, self.f = index, function
        texts = [p for p, a in zip(function.parameters, function.arguments) if not ("argc" in function.arguments and a in ("argc", "argv"))]
        self.parameters = [Parameter(p) for p in texts]
        self.by_name = {p.name: p for p in self.parameters}
        self.before, self.after = [], []
        self.passed = {}
        self.converted = {}

    def convert(self, name):
        """The argument as a handler takes it."""
        if name not in self.converted:
            self.converted[name] = self.convert_once(name)
        return self.converted[name]

    def local(self, name, declaration, take=".take()"):
        self.before.append(declaration)
        self.after.append(f"{name}_{take};")
        return f"{name}_"

    def convert_once(self, name):
        p = self.by_name.get(name)
        if not p:
            return name  # a fact of the table
        count = next((c for c in ("incount", "count") if c in self.by_name), None)
        if p.base == "MPI_Status":
            local = self.local(name, f"Statuses {name}_({name}, {'*' + count if p.array or name.startswith('array_of') else '1'});")
            self.passed[name] = f"{local}.c()"
            return f"{local}.c()"
        if p.base == "MPI_Request" and p.array:
            return self.local(name, f"Requests {name}_({name}, *{count});", ".take(result_)") + ".variables()"
        if p.base == "MPI_Datatype" and p.array:
            side, buffer = (0, "sendbuf") if name.startswith("send") else (1, "recvbuf")
            significant = "true" if side else f"{self.convert(buffer)} != MPI_IN_PLACE"
            return f"c_types({name}, {self.convert('comm')}, {significant}, {side})"
        if BY_VALUE.fullmatch(p.base) and p.pointer:
            makes = name in MADE or (name == "request" and self.f.semantic in MAKES_REQUEST) or MAKES.get(self.f.semantic) == name
            local = self.local(name, f"Reference<{p.base}> {name}_({name}, {'made' if makes else 'given'});")
            return local + (".variables()" if p.base == "MPI_Request" else ".c()")
        if BY_VALUE.fullmatch(p.base) and not p.array:
            self.before.append(f"const auto {name}_ = f2c<{p.base}>(*{name});")
            return f"{name}_"
        if p.text:
            return f"c_text({name}, {name}_length).c_str()"
        if p.base == "int" and p.array and name == "array_of_indices":
            return self.local(name, f"Indices {name}_({name}, *{count}, outcount, first_index[slot_]);") + ".c()"
        if p.base == "int" and p.pointer and name in ("flag", "index"):
            return self.local(name, f"{name.capitalize()} {name}_({name}{', first_index[slot_]' if name == 'index' else ''});") + ".c()"
        if p.base == "void":
            return f"c_buffer({name}, descriptors_)"
        if p.pointer or p.array:
            return name  # the same integers
        return f"*{name}"

    def data(self, side):
        if side not in self.f.roles:
            return "Data()"
        return f"Data({', '.join(self.convert(a) for a in self.f.roles[side].split(','))})"

    def handler(self):
        f = self.f
        if f.semantic == "init":
            return f"handler::Init handler_({self.index}, from_);"
        if f.semantic in COLLECTIVES:
            request = [self.convert("request")] if f.semantic != "collective" else []
            arguments = ["call_", f"Op::{f.roles['op']}", self.data("send"), self.data("recv"),
                         self.convert(f.roles["root"]) if "root" in f.roles else "no_root", self.convert("comm"), *request]
            return f"handler::{COLLECTIVES[f.semantic]} handler_({', '.join(arguments)});"
        if f.semantic in HANDLERS:
            name, roles, _ = HANDLERS[f.semantic]
            arguments = ", ".join(["call_"] + [self.convert(f.argument(r)) for r in roles.split()])
            return f"handler::{name} handler_({arguments});"
        return ""

    def names(self):
        """Of each binding: (name, other compilers' names, array descriptors)."""
        name, large = (self.f.name[:-2], "_large") if self.f.name.endswith("_c") else (self.f.name, "")
        lower = name.lower()
        choice = any(p.base == "void" for p in self.parameters)
        if not large:
            for stem in [lower] + ([lower + "_cptr"] if name in WITH_C_PTR else []):
                yield f"{stem}_", (f"{stem}__", stem.upper()), "false"
        yield f"{lower}_f08{large}_", (), "false"
        if choice:
            yield f"{lower}_f08ts{large}_", (), "true"

    def lines(self, slots):
        f, handler = self.f, self.handler()
        types = [p.type for p in self.parameters] + ["MPI_Fint*"] + ["size_t"] * sum(p.text for p in self.parameters)
        names = [p.name for p in self.parameters] + ["ierror"] + [f"{p.name}_length" for p in self.parameters if p.text]
        declared = ", ".join(f"{t} {n}" for t, n in zip(types, names))
        plain = ", ".join("result_.at()" if n == "ierror" else n for n in names)
        passed = ", ".join("result_.at()" if n == "ierror" else self.passed.get(n, n) for n in names)
        body = [f"const auto next_ = next_of<void (*)({', '.join(types)})>(slot_);", "if (!next_) return missing(slot_, ierror);",
                "Result result_(ierror);"]
        if f.semantic == "init":
            body += [handler, f"next_({passed});", "handler_.end(result_);"]
        else:
            body += left_out(self.index, f, f"next_({plain})")
            body.append(f"{guard(f)} call_({self.index}, from_);")
            if handler and f.semantic != "finalize":
                body.append(f"if (!traced(call_)) return next_({plain});")
            body += [*self.before, *([handler] if handler else []), "call_.begun();", f"next_({passed});", *self.after,
                     "handler_.end(result_);" if handler else "call_.leave();"]
        buffers = "descriptors_" in " ".join(body)
        text = [f"\nstatic void {f.name}_(unsigned slot_, const void* from_, {'bool descriptors_, ' if buffers else ''}{declared}) {{\n    " + "\n    ".join(body) + "\n}\n"]
        for name, aliases, descriptors in self.names():
            arguments = ", ".join([str(len(slots)), "__builtin_return_address(0)", *([descriptors] if buffers else []), *names])
            text.append(f"POLTER_WRAPPER void {name}({declared}) {{\n    {f.name}_({arguments});\n}}\n")
            for number, alias in enumerate(aliases):
                text.append(f'POLTER_ALIAS(alias{number}_{name}, "{alias}", {name})\n')
            slots.append(name)
        return "".join(text)


def wrappers(functions):
    slots, text = [], []
    for index, function in enumerate(functions):
        if function.semantic not in UNMADE:
            text.append(Wrapper(index, function).lines(slots))
    names = ",\n    ".join(f'"{s}"' for s in slots)
    return f"""// Made by generate_fortran.py from functions.txt.
#include "fortran.hpp"
#include "handlers.hpp"

#define POLTER_ALIAS(own, name, target) \\
    extern "C" __attribute__((visibility("default"), alias(#target))) decltype(target) own __asm__(name);

namespace polter::mpi::fortran {{

{''.join(text)}
const char* const slot_names[] = {{
    {names}}};
const unsigned slot_count = {len(slots)};
void* next_functions[{len(slots)}];
int first_index[{len(slots)}];

}}  // namespace polter::mpi::fortran
"""


def check(functions, names):
    known = set()
    for index, function in enumerate(functions):
        if function.semantic not in UNMADE:
            for name, aliases, _ in Wrapper(index, function).names():
                known.update((name, *aliases))
    wanted = {n for n in names if not NOT_WRAPPED.fullmatch(n)}
    if not any(n in known for n in wanted):
        fail("none of these names is a Fortran routine of MPI")
    missing = sorted(wanted - known)
    if missing:
        fail(f"Fortran routines that are not wrapped: {' '.join(missing)}")
    print(f"{len(wanted)} Fortran routines, all wrapped; {len(set(names)) - len(wanted)} names are none")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["wrappers", "check"])
    parser.add_argument("--table", required=True)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    functions = read_table(options.table)
    if options.what == "wrappers":
        write(options.output, wrappers(functions))
    else:
        check(functions, sys.stdin.read().split())


if __name__ == "__main__":
    main()
