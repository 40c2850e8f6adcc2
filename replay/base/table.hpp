// SPDX-License-Identifier: BSD-3-Clause
// Aligned columns: by default the first to the left, the others to the right. Cells may hold names from outside.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "layout.hpp"
#include "printable.hpp"

namespace polter::replay {

class Table {
  public:
    // `left`: columns aligned to the left. If the table is wider than the terminal, `optional` columns are left out, the last of the list
    // first; then cells of `flexible` columns are shortened.
    explicit Table(std::vector<std::string> header, std::vector<size_t> left = {0}, std::vector<size_t> flexible = {},
                   std::vector<size_t> optional = {})
        : left_(std::move(left)), flexible_(std::move(flexible)), optional_(std::move(optional)) {
        if (!header.empty()) rows_.push_back(std::move(header));
    }
    void add(std::vector<std::string> row) {
        for (std::string& cell : row) cell = printable(cell);
        rows_.push_back(std::move(row));
    }
    std::string text(size_t columns = usual_columns, size_t indent = 2) const {
        const std::vector<size_t> width = widths(columns, indent);
        std::string out;
        for (const auto& row : rows_) {
            out.append(indent, ' ');
            bool first = true;
            for (size_t i = 0; i < row.size(); ++i) {
                if (width[i] == left_out) continue;
                if (!first) out += "  ";
                first = false;
                const std::string cell = shortened(row[i], width[i]);
                const std::string blanks(width[i] - std::min(width[i], columns_of(cell)), ' ');
                out += contains(left_, i) ? cell + blanks : blanks + cell;
            }
            while (!out.empty() && out.back() == ' ') out.pop_back();
            out += '\n';
        }
        return out;
    }

  private:
    static constexpr size_t least_width = 8, left_out = SIZE_MAX;
    static bool contains(const std::vector<size_t>& list, size_t i) { return std::find(list.begin(), list.end(), i) != list.end(); }
    static size_t sum(const std::vector<size_t>& width, size_t indent) {
        size_t all = indent;
        for (const size_t one : width)
            if (one != left_out) all += one + 2;
        return all - 2;
    }
    std::vector<size_t> widths(size_t columns, size_t indent) const {
        std::vector<size_t> width;
        for (const auto& row : rows_) {
            width.resize(std::max(width.size(), row.size()), 0);
            for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], columns_of(row[i]));
        }
        const auto shrink = [&](size_t least) {
            while (sum(width, indent) > columns) {
                size_t widest = left_out;
                for (const size_t i : flexible_)
                    if (i < width.size() && width[i] > least && (widest == left_out || width[i] > width[widest])) widest = i;
                if (widest == left_out) return;
                --width[widest];
            }
        };
        shrink(2 * least_width);
        for (auto i = optional_.rbegin(); i != optional_.rend() && sum(width, indent) > columns; ++i)
            if (*i < width.size()) width[*i] = left_out;
        shrink(least_width);
        return width;
    }
    std::vector<std::vector<std::string>> rows_;
    std::vector<size_t> left_, flexible_, optional_;
};

}  // namespace polter::replay
