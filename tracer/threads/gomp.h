// SPDX-License-Identifier: BSD-3-Clause
// What gomp.c and ompt.c share within one preload library.
#pragma once

#include <stdatomic.h>

#include "openmp_hooks.h"

extern const struct polter_openmp_hooks* _Atomic polter_openmp_hooks;
extern _Atomic int polter_runtime_tells;  // the process's OpenMP runtime has a tool interface, and calls ompt.c: gomp.c records nothing
