#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The entry points of the dispatcher (dispatch.c), in assembly: one for each function that any of the tracers wraps. An entry jumps to where
its slot says, with all arguments as they are; while the slot is empty it asks polter_resolve first. Slots lie in .bss, so that a program
without MPI has nothing to relocate."""
import argparse
import subprocess

COMMON = """
# In: r11d, the number of the function. Arguments of MPI functions are integers and addresses.
    .type polter_entry, @function
polter_entry:
    .cfi_startproc
    push %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    mov %rsp, %rbp
    .cfi_def_cfa_register %rbp
    push %rdi
    push %rsi
    push %rdx
    push %rcx
    push %r8
    push %r9
    push %rax
    push %r10
    mov %r11d, %edi
    call polter_resolve
    mov %rax, %r11
    pop %r10
    pop %rax
    pop %r9
    pop %r8
    pop %rcx
    pop %rdx
    pop %rsi
    pop %rdi
    pop %rbp
    .cfi_def_cfa %rsp, 8
    jmp *%r11
    .cfi_endproc
    .size polter_entry, . - polter_entry
"""

ENTRY = """
    .globl {name}
    .type {name}, @function
{name}:
    .cfi_startproc
    mov polter_slots + {offset}(%rip), %r11
    test %r11, %r11
    je 1f
    jmp *%r11
1:  mov ${number}, %r11d
    jmp polter_entry
    .cfi_endproc
    .size {name}, . - {name}
"""


def exported(nm, library):
    lines = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TW"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", required=True)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("libraries", nargs="+")
    arguments = parser.parse_args()
    names = set().union(*(exported(arguments.nm, library) for library in arguments.libraries))
    names = sorted(name for name in names if name not in ("sched_yield", "ompt_start_tool") and not name.startswith(("polter_", "GOMP_", "__kmpc_", "omp_", "pthread_")))
    out = ["# made by tracer/dispatch/generate.py", "    .text", COMMON]
    out += [ENTRY.format(name=name, number=number, offset=8 * number) for number, name in enumerate(names)]
    out += ["    .section .rodata", "    .globl polter_names", "polter_names:", *(f'    .asciz "{name}"' for name in names)]
    out += ["    .bss", "    .balign 8", "    .globl polter_slots", "polter_slots:", f"    .zero {8 * len(names)}"]
    out += ['    .section .note.GNU-stack, "", @progbits', ""]
    with open(arguments.output, "w", encoding="ascii") as file:
        file.write("\n".join(out))


if __name__ == "__main__":
    main()
