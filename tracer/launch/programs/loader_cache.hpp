// SPDX-License-Identifier: BSD-3-Clause
// /etc/ld.so.cache: which files the dynamic loader knows by a library's name (glibc, sysdeps/generic/dl-cache.h).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace polter::launch {

// Name → paths, in the cache's order; 32-bit ones and those for other CPUs are among them. Empty where this is no cache of the format
// "glibc-ld.so.cache1.1" (alone, or behind one of the older format). `bytes` may be damaged: entries that point outside are left out.
using LoaderCache = std::unordered_map<std::string, std::vector<std::string>>;
LoaderCache parse_loader_cache(std::string_view bytes);

}  // namespace polter::launch
