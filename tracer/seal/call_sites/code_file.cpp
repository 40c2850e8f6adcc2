// SPDX-License-Identifier: BSD-3-Clause
#include "code_file.hpp"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "../folder.hpp"

namespace polter::seal {

struct CodeFile::Opened {
    Dwfl* dwfl = nullptr;
    Dwfl_Module* module = nullptr;
    ~Opened() { dwfl_end(dwfl); }
};

namespace {

// Of the module, which is the only one: as it lies in the file, so that addresses are the file's own.
Dwfl_Module* report(Dwfl* dwfl, const std::string& path, File&& file) {
    const int own = fcntl(file.fd(), F_DUPFD_CLOEXEC, 0);  // libdwfl closes it where it succeeds
    dwfl_report_begin(dwfl);
    Dwfl_Module* module = dwfl_report_elf(dwfl, path.c_str(), path.c_str(), own, 0, true);
    dwfl_report_end(dwfl, nullptr, nullptr);
    if (!module) close(own);
    return module;
}

// Nothing is opened but regular files: a device may do something when it is opened, a pipe waits for somebody.
File open_regular(const std::string& path, struct stat& status) {
    const File place(open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!place || fstat(place.fd(), &status) != 0 || !S_ISREG(status.st_mode)) return File();
    return File(open(fmt::format("/proc/self/fd/{}", place.fd()).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
}

bool same_build(Dwfl_Module* module, const SidecarObject& object) {
    const unsigned char* bytes = nullptr;
    GElf_Addr at = 0;
    const int count = dwfl_module_build_id(module, &bytes, &at);
    std::string id;
    for (int i = 0; i < count; ++i) id += fmt::format("{:02x}", bytes[i]);
    return id == object.build_id;
}

const char* text_of(Dwarf_Die* die, unsigned attribute) {
    Dwarf_Attribute memory;
    return dwarf_formstring(dwarf_attr_integrate(die, attribute, &memory));
}

// The compilation unit; where the file has no table of addresses (clang makes none) all are asked.
Dwarf_Die* unit_of(Dwfl_Module* module, Dwarf_Addr address, Dwarf_Addr* bias) {
    if (Dwarf_Die* unit = dwfl_module_addrdie(module, address, bias)) return unit;
    Dwarf_Die* unit = nullptr;
    while ((unit = dwfl_module_nextcu(module, unit, bias)))
        if (dwarf_haspc(unit, address - *bias) == 1) return unit;
    return nullptr;
}

// The innermost function around the address, inlined ones too. dwarf_getscopes does not look into Fortran's modules.
bool find_function(Dwarf_Die* parent, Dwarf_Addr address, int depth, Dwarf_Die* found) {
    constexpr int deepest = 64;
    Dwarf_Die child;
    if (depth > deepest || dwarf_child(parent, &child) != 0) return false;
    do {
        const int tag = dwarf_tag(&child);
        if (tag == DW_TAG_module || tag == DW_TAG_namespace) {
            if (find_function(&child, address, depth + 1, found)) return true;
            continue;
        }
        const bool function = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
        if ((!function && tag != DW_TAG_lexical_block) || dwarf_haspc(&child, address) != 1) continue;
        if (function) *found = child;
        return find_function(&child, address, depth + 1, found) || function;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

void name_function(Dwarf_Die* unit, Dwarf_Addr address, CallSiteName& name) {
    Dwarf_Die function;
    if (!find_function(unit, address, 0, &function)) return;
    const char* linkage = text_of(&function, DW_AT_linkage_name);
    if (!linkage) linkage = text_of(&function, DW_AT_MIPS_linkage_name);
    const char* plain = text_of(&function, DW_AT_name);
    if (linkage) name.linkage = linkage;
    name.function = linkage ? demangled(linkage) : "";
    // Only C++ says more by its linker's name.
    if (plain && (name.function.empty() || name.function == name.linkage)) name.function = plain;
}

void name_line(Dwarf_Die* unit, Dwarf_Addr address, CallSiteName& name) {
    Dwarf_Line* line = dwarf_getsrc_die(unit, address);
    const char* file = line ? dwarf_linesrc(line, nullptr, nullptr) : nullptr;
    int number = 0;
    if (!file || dwarf_lineno(line, &number) != 0 || number <= 0) return;
    name.file = file;
    name.line = static_cast<uint32_t>(number);
    const char* folder = name.file.front() != '/' ? text_of(unit, DW_AT_comp_dir) : nullptr;
    if (folder) name.file = std::string(folder) + "/" + name.file;
}

}  // namespace

CodeFile::CodeFile(const SidecarObject& object) {
    static const Dwfl_Callbacks callbacks{dwfl_build_id_find_elf, dwfl_standard_find_debuginfo, dwfl_offline_section_address, nullptr};
    struct stat status {};
    File file = open_regular(object.path, status);
    if (!file) return;
    const bool changed =
        static_cast<uint64_t>(status.st_size) != object.bytes || static_cast<uint64_t>(status.st_mtime) != object.modified_seconds;
    if (object.build_id.empty() && changed) return;
    auto opened = std::make_unique<Opened>();
    opened->dwfl = dwfl_begin(&callbacks);
    if (!opened->dwfl) return;
    opened->module = report(opened->dwfl, object.path, std::move(file));
    if (opened->module && (object.build_id.empty() || same_build(opened->module, object))) opened_ = std::move(opened);
}

CodeFile::~CodeFile() = default;

CodeFile::operator bool() const {
    return opened_ != nullptr;
}

CallSiteName CodeFile::call_before(uint64_t address) const {
    CallSiteName name;
    if (!opened_ || address == 0) return name;
    const uint64_t call = address - 1;  // the call may be its function's last instruction
    Dwarf_Addr bias = 0;
    if (Dwarf_Die* unit = unit_of(opened_->module, call, &bias)) {
        name_function(unit, call - bias, name);
        if (!name.function.empty()) name_line(unit, call - bias, name);
    }
    if (!name.function.empty()) return name;
    GElf_Off into = 0;
    GElf_Sym symbol{};
    const char* known = dwfl_module_addrinfo(opened_->module, call, &into, &symbol, nullptr, nullptr, nullptr);
    if (!known || into >= symbol.st_size) return {};
    name.linkage = known;
    name.function = fmt::format("{}+{:#x}", demangled(known), into + 1);
    return name;
}

std::string demangled(const std::string& linkage) {
    if (!linkage.starts_with("_Z")) return linkage;
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(linkage.c_str(), nullptr, nullptr, &status), std::free);
    if (status != 0 || !text) return linkage;
    std::string name = text.get();
    // What stands behind the name: parameters, and what follows them.
    if (const size_t end = name.rfind(')'); end != std::string::npos) {
        size_t at = end;
        for (int depth = 0; at > 0; --at) {
            depth += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
            if (depth == 0) break;
        }
        if (at > 0) name.erase(at);
    }
    // A template's result stands in front of it.
    if (name.find("operator") != std::string::npos) return name;
    int depth = 0;
    for (size_t at = name.size(); at > 0; --at) {
        const char c = name[at - 1];
        depth += c == '>' || c == ')' || c == '}' || c == ']' ? 1 : c == '<' || c == '(' || c == '{' || c == '[' ? -1 : 0;
        if (c == ' ' && depth == 0) return name.substr(at);
    }
    return name;
}

}  // namespace polter::seal
