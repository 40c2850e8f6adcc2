// SPDX-License-Identifier: BSD-3-Clause
// Aligned columns: the first to the left, the others to the right, where nothing else is asked for. Cells may hold names from outside.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "printable.hpp"

namespace polter::replay {

class Table {
  public:
    explicit Table(std::vector<std::string> header, std::vector<size_t> left = {0}) : left_(std::move(left)) {
        if (!header.empty()) rows_.push_back(std::move(header));
    }
    void add(std::vector<std::string> row) {
        for (std::string& cell : row) cell = printable(cell);
        rows_.push_back(std::move(row));
    }
    // Of the longest line, in bytes: at least as many as columns.
    size_t width() const {
        size_t all = indent_of_rows;
        for (const size_t one : widths()) all += one + 2;
        return all - 2;
    }
    std::string text(size_t indent = indent_of_rows) const {
        const std::vector<size_t> width = widths();
        std::string out;
        for (const auto& row : rows_) {
            out.append(indent, ' ');
            for (size_t i = 0; i < row.size(); ++i) {
                if (i > 0) out += "  ";
                const bool left = std::find(left_.begin(), left_.end(), i) != left_.end();
                out += left ? fmt::format("{:<{}}", row[i], width[i]) : fmt::format("{:>{}}", row[i], width[i]);
            }
            while (!out.empty() && out.back() == ' ') out.pop_back();
            out += '\n';
        }
        return out;
    }

  private:
    static constexpr size_t indent_of_rows = 2;
    std::vector<size_t> widths() const {
        std::vector<size_t> width;
        for (const auto& row : rows_) {
            width.resize(std::max(width.size(), row.size()), 0);
            for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
        }
        return width;
    }
    std::vector<std::vector<std::string>> rows_;
    std::vector<size_t> left_;
};

}  // namespace polter::replay
