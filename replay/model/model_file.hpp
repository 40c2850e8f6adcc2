// SPDX-License-Identifier: BSD-3-Clause
// A model as a file: what one trace taught, for the replay of another. JSON, schema polter.model/1; times in integer nanoseconds, sizes
// in bytes (of "wait_own": requests), operations as OTF2 numbers them (253: init, 254: finalize, + 256: non-blocking).
#pragma once

#include <string>
#include <vector>

#include "model.hpp"
#include "replay/base/flaws.hpp"

namespace polter::replay {

// All throw InputError: file, what, what to do.
void check_writable(const std::string& file);  // before the work is done rather than after it
void write_model(const Learned&, const std::string& file);
Learned read_model(const std::string& file);  // every field is checked

// What a trace shows that the model of `file` does not know: at most one line.
std::vector<Warning> unknown_lines(const Learned& shown, const Model& given, const std::string& file);

}  // namespace polter::replay
