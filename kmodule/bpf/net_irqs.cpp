// SPDX-License-Identifier: BSD-3-Clause
#include "net_irqs.hpp"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace polter::exporter {
namespace {

namespace fs = std::filesystem;

bool parse(const std::string& text, unsigned& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

void add_lines_of(const fs::path& device, std::set<unsigned>& lines) {
    std::error_code error;
    const fs::path devices = fs::path("devices");
    // Upwards to the first that has interrupts; never past the devices' root.
    for (fs::path at = device; at.has_relative_path() && at.filename() != devices; at = at.parent_path()) {
        bool found = false;
        unsigned line;
        for (const auto& entry : fs::directory_iterator(at / "msi_irqs", error))
            if (parse(entry.path().filename().string(), line)) lines.insert(line), found = true;
        std::ifstream file(at / "irq");
        if (std::string text; file >> text && parse(text, line) && line != 0) lines.insert(line), found = true;
        if (found) return;
    }
}

}  // namespace

std::set<unsigned> net_irqs(const fs::path& sys, const fs::path& proc) {
    std::set<unsigned> lines;
    std::vector<std::string> interfaces;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(sys / "class/net", error)) {
        const fs::path device = fs::canonical(entry.path() / "device", error);
        if (error) continue;  // loopback, bridges and their like have no device
        interfaces.push_back(entry.path().filename().string());
        add_lines_of(device, lines);
    }
    std::ifstream interrupts(proc / "interrupts");
    for (std::string text; std::getline(interrupts, text);) {
        unsigned line;
        const auto colon = text.find(':');
        const auto digits = text.find_first_not_of(' ');
        if (colon == text.npos || digits >= colon || !parse(text.substr(digits, colon - digits), line)) continue;
        for (const auto& interface : interfaces)
            if (text.find(interface, colon) != text.npos) lines.insert(line);
    }
    return lines;
}

}  // namespace polter::exporter
