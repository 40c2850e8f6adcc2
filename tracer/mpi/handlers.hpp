// SPDX-License-Identifier: BSD-3-Clause
// All that the generated wrappers use.
#pragma once

#include "collectives.hpp"
#include "communicators.hpp"
#include "completion.hpp"
#include "files.hpp"
#include "init.hpp"
#include "neighbours.hpp"
#include "partitioned.hpp"
#include "persistent.hpp"
#include "probe.hpp"
#include "windows.hpp"
