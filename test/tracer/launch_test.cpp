// SPDX-License-Identifier: BSD-3-Clause
// What `polter run` finds out by reading: the programs of a command, the libraries of a program, the loader's cache.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "../../tracer/launch/capture.hpp"
#include "../../tracer/launch/experiment.hpp"
#include "../../tracer/launch/programs/command_programs.hpp"
#include "../../tracer/launch/programs/elf.hpp"
#include "../../tracer/launch/programs/flavour.hpp"
#include "../../tracer/launch/programs/libraries.hpp"
#include "../../tracer/launch/programs/loader_cache.hpp"
#include "../../tracer/launch/programs/shell_words.hpp"

using namespace polter::launch;
namespace fs = std::filesystem;

namespace {

// A folder that alone is PATH, with empty programs of the given names.
class Programs {
  public:
    explicit Programs(const std::vector<std::string>& names) {
        std::string name = (fs::temp_directory_path() / "polter-launch-XXXXXX").string();
        folder_ = mkdtemp(name.data());
        for (const auto& program : names) add(program, "");
        before_ = std::getenv("PATH") ? std::getenv("PATH") : "";
        setenv("PATH", folder_.c_str(), 1);
    }
    ~Programs() {
        setenv("PATH", before_.c_str(), 1);
        fs::remove_all(folder_);
    }
    Programs(const Programs&) = delete;
    Programs& operator=(const Programs&) = delete;
    void add(const std::string& name, const std::string& content) const {
        std::ofstream(folder_ / name) << content;
        chmod((folder_ / name).c_str(), 0755);
    }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }

  private:
    fs::path folder_;
    std::string before_;
};

// "launcher > program program", names only.
std::string told(const std::string& line) {
    std::vector<std::string> words;
    std::istringstream text(line);
    for (std::string word; text >> word;) words.push_back(word);
    const auto found = programs_of(words);
    std::string out = found.launcher.empty() ? "" : fs::path(found.launcher).filename().string() + " >";
    for (const auto& program : found.programs) out += (out.empty() ? "" : " ") + fs::path(program.path).filename().string();
    return out;
}

TEST_CASE("the programs of a command: options, their values and arguments are none") {
    const Programs programs({"app", "other", "data", "mpirun", "mpiexec", "srun", "env", "timeout", "numactl", "taskset", "nice", "time",
                             "flux", "test", "2", "python3", "strace", "wc", "apptainer"});
    CHECK(told("app data other") == "app");
    CHECK(told("wc -c data") == "wc");
    CHECK(told("mpirun -n 2 app data") == "mpirun > app");
    CHECK(told("mpirun app -n 2 : other") == "mpirun > app other");
    CHECK(told("mpirun -n 1 app data : -n 2 -x A=1 other data") == "mpirun > app other");
    CHECK(told("mpirun --mca btl tcp,self --host test:2 -x test app") == "mpirun > app");
    CHECK(told("mpirun --oversubscribe -np 2 --bind-to none app") == "mpirun > app");
    CHECK(told("mpirun --an-option-of-tomorrow value app data") == "mpirun > app");
    CHECK(told("mpirun --an-option-of-tomorrow app data") == "mpirun > app");
    CHECK(told("mpiexec -genv test other -env a b -hosts test,other -ppn 2 app") == "mpiexec > app");
    CHECK(told("mpirun -n 2 ./missing app") == "mpirun >");
    CHECK(told("srun -n4 --mpi=pmix -p test --partition other -N 2 app data") == "app");
    CHECK(told("flux run -n 2 app") == "app");
    CHECK(told("timeout -k 5 10 mpirun -n 2 numactl -N 0 --localalloc app data") == "mpirun > app");
    CHECK(told("timeout --foreground --signal=INT 10 app") == "app");
    CHECK(told("env -u test A=other -i B=/data app data") == "app");
    CHECK(told("taskset -c 2 app") == "app");
    CHECK(told("nice -n 2 time -p app data") == "app");
    CHECK(told("strace -f -o data -e trace=all app") == "app");
    CHECK(told("apptainer exec -B test image app") == "app");
    CHECK(told("python3 app") == "python3");
    CHECK(told("env") == "env");
    CHECK(told("missing app") == "");
    CHECK(told("").empty());
    CHECK(application_name({"mpirun", "-n", "2", "app", "data"}, "") == "app");
    CHECK(application_name({"missing", "app"}, "") == "missing");
    CHECK(application_name({"mpirun", "app"}, "/usr/bin/other") == "other");
}

TEST_CASE("a launcher's command with another program in place of each of its own") {
    const Programs programs({"app", "other", "mpirun", "mpiexec", "srun", "env", "timeout", "collector"});
    const auto changed = [](const std::string& line, const std::vector<std::string>& options = {}) {
        std::vector<std::string> words;
        std::istringstream text(line);
        for (std::string word; text >> word;) words.push_back(word);
        const auto command = with_other_program(words, {"collector"}, options);
        return command ? fmt::format("{}", fmt::join(*command, " ")) : "none";
    };
    CHECK(changed("mpirun -n 2 -H a,b app data") == "mpirun -n 2 -H a,b collector");
    CHECK(changed("mpirun -n 2 app : -n 1 other x") == "mpirun -n 2 collector : -n 1 collector");
    CHECK(changed("mpirun -n 2 -x A app : -n 1 other x", {"-x", "B"}) == "mpirun -x B -n 2 -x A collector : -x B -n 1 collector");
    CHECK(changed("timeout 60 mpirun -n 2 app") == "timeout 60 mpirun -n 2 collector");
    CHECK(changed("srun -n 2 app : other") == "srun -n 2 collector");  // the colon is an argument
    for (const char* line : {"app data", "mpirun -n 2", "timeout 60 app", "env A=b", ""}) CHECK_MESSAGE(changed(line) == "none", line);
}

TEST_CASE("the programs of sh -c, and of scripts") {
    const Programs programs({"app", "other", "data", "mpirun", "sh", "echo", "env"});
    auto of = [](const std::vector<std::string>& words) {
        std::string out;
        const auto found = programs_of(words);
        if (!found.launcher.empty()) out = "> ";
        for (const auto& program : found.programs) out += fs::path(program.path).filename().string() + " ";
        return out;
    };
    CHECK(of({"sh", "-c", "cd /tmp && A=1 mpirun -n 2 app data | other"}) == "> sh app other ");
    CHECK(of({"sh", "-c", "exec \"$0\" \"$@\"", "app", "data"}) == "sh app ");
    CHECK(of({"sh", "-ec", "if true; then exec \"$@\"; fi", "x", "mpirun", "other"}) == "> sh other ");
    CHECK(of({"sh", "-c", "echo 'app' \"other\" > data; $UNKNOWN other; `app`"}) == "sh echo ");
    CHECK(of({"sh", "-c", "# app\n echo a 2>&1 >app"}) == "sh echo ");
    CHECK(of({"sh", "app", "data"}) == "sh ");
    programs.add("script", "#!" + programs.path("env") + " sh\nmpirun app\n");
    CHECK(of({"script", "app"}) == "script ");
    CHECK(programs_of({"script"}).programs.front().file == programs.path("sh"));
    CHECK(programs_of({"script"}).programs.front().starts_others);
    programs.add("itself", "#!" + programs.path("itself") + "\n");
    CHECK(of({"itself"}) == "itself ");
}

TEST_CASE("words of a shell's text") {
    auto of = [](const char* text) {
        std::string out;
        for (const auto& command : shell_commands(text, {})) out += fmt::format("[{}]", fmt::join(command, "|"));
        return out;
    };
    CHECK(of("a b;c&&d\ne||f&g") == "[a|b][c][d][e][f][g]");
    CHECK(of("a 'b c' \"d e\" f\\ g 'h'i") == "[a|b c|d e|f g|hi]");
    CHECK(of("a >b 2>c <d e 2>&1 f &>g h") == "[a|e|f|h]");
    CHECK(of("a $(b c) ${d} \"$e\" f") == "[a||||f]");
    CHECK(of("'never ended") == "[never ended]");
    CHECK(of("a \\") == "[a|]");
}

TEST_CASE("whose launcher a file is") {
    const Programs programs({});
    auto of = [&](const char* content) {
        programs.add("mpirun", content);
        programs.add("program", "");
        return find_flavour({"mpirun", "-n", "2", "program"}).launcher;
    };
    CHECK(of("#!/bin/sh\nexec mpiexec.hydra \"$@\"\n") == Mpi::mpich);
    CHECK(of("#!/bin/sh\nexec /opt/openmpi/bin/mpirun \"$@\"\n") == Mpi::openmpi);
    CHECK(of("#!/bin/sh\nif true; then orterun; else mpiexec.hydra; fi\n") == Mpi::none);
    CHECK(of("#!/bin/sh\n") == Mpi::none);
    CHECK(find_flavour({"mpirun", "program"}).why.find("does not say") != std::string::npos);
}

// The names that the dynamic loader lists for a program, which must be one to be trusted.
std::set<std::string> listed(const std::string& program) {
    std::istringstream lines(capture({read_elf(program).interpreter, "--list", program}, 10));
    std::set<std::string> out;
    for (std::string line, name; std::getline(lines, line);) {
        std::istringstream(line) >> name;
        if (name.starts_with("linux-vdso") || name.find("/ld-linux") != std::string::npos) continue;
        out.insert(name);
    }
    return out;
}

TEST_CASE("the libraries of a program are those that the loader lists") {
    std::vector<std::string> programs{fs::canonical("/proc/self/exe").string()};
    for (const char* name : {"lmp", "mpirun.openmpi", "mpiexec.hydra", "gdb", "python3", "cmake"})
        if (const auto path = find_program(name)) programs.push_back(*path);
    for (const auto& program : programs) {
        INFO(program);
        const auto elf = read_elf(program);
        if (!elf.elf || elf.interpreter.empty()) continue;  // a script
        std::set<std::string> found;
        for (const auto& name : needed_libraries(program, elf))
            if (name.find("ld-linux") == std::string::npos) found.insert(name);
        CHECK(found == listed(program));
    }
}

TEST_CASE("files that are no ELF, or no files") {
    CHECK_FALSE(read_elf("/dev/null").elf);
    CHECK_FALSE(read_elf("/").elf);
    CHECK_FALSE(read_elf("/polter/nowhere").elf);
    const Programs programs({"empty"});
    CHECK_FALSE(read_elf(programs.path("empty")).elf);
    REQUIRE(mkfifo(programs.path("fifo").c_str(), 0700) == 0);
    CHECK_FALSE(read_elf(programs.path("fifo")).elf);
}

template <class T>
void append(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST_CASE("the loader's cache") {
    std::string strings("libx.so.1\0/lib/libx.so.1\0", 25), bytes = "glibc-ld.so.cache1.1";
    append<uint32_t>(bytes, 2);
    append<uint32_t>(bytes, static_cast<uint32_t>(strings.size()));
    bytes.resize(48, '\0');
    const uint32_t begin = 48 + 2 * 24;
    for (const uint32_t path : {begin + 10, UINT32_MAX}) {  // the second entry points outside
        append<int32_t>(bytes, 0x303);
        append<uint32_t>(bytes, begin);
        append<uint32_t>(bytes, path);
        append<uint32_t>(bytes, 0);
        append<uint64_t>(bytes, 0);
    }
    bytes += strings;
    const auto cache = parse_loader_cache(bytes);
    REQUIRE(cache.size() == 1);
    CHECK(cache.at("libx.so.1") == std::vector<std::string>{"/lib/libx.so.1"});
    std::string both("ld.so-1.7.0\0", 12);
    append<uint32_t>(both, 1);
    both.resize(16 + 12 + 4, '\0');
    CHECK(parse_loader_cache(both + bytes).size() == 1);
    for (size_t size = 0; size < bytes.size(); ++size) CHECK(parse_loader_cache(std::string_view(bytes).substr(0, size)).size() <= 1);
    if (std::ifstream file("/etc/ld.so.cache", std::ios::binary); file) {
        std::stringstream all;
        all << file.rdbuf();
        CHECK(parse_loader_cache(all.str()).count("libc.so.6") == 1);
    }
}

}  // namespace
