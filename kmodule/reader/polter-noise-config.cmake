# SPDX-License-Identifier: BSD-3-Clause
# find_package(polter-noise): the library polter::noise.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/polter-noise-targets.cmake)
