// SPDX-License-Identifier: BSD-3-Clause
// All that the generated wrappers use.
#pragma once

#include "collectives/collectives.hpp"
#include "collectives/communicators.hpp"
#include "messages/completion.hpp"
#include "collectives/files.hpp"
#include "init.hpp"
#include "collectives/neighbours.hpp"
#include "messages/partitioned.hpp"
#include "messages/persistent.hpp"
#include "messages/probe.hpp"
#include "collectives/windows.hpp"
