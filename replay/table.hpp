// SPDX-License-Identifier: BSD-3-Clause
// Aligned columns: the first to the left, the others to the right. Cells may hold names from outside.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "printable.hpp"

namespace polter::replay {

class Table {
  public:
    explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
    void add(std::vector<std::string> row) {
        for (std::string& cell : row) cell = printable(cell);
        rows_.push_back(std::move(row));
    }
    std::string text() const {
        std::vector<size_t> width;
        for (const auto& row : rows_) {
            width.resize(std::max(width.size(), row.size()), 0);
            for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
        }
        std::string out;
        for (const auto& row : rows_) {
            out += "  ";
            for (size_t i = 0; i < row.size(); ++i)
                out += i == 0 ? fmt::format("{:<{}}", row[i], width[i]) : fmt::format("  {:>{}}", row[i], width[i]);
            while (!out.empty() && out.back() == ' ') out.pop_back();
            out += '\n';
        }
        return out;
    }

  private:
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace polter::replay
