// SPDX-License-Identifier: BSD-3-Clause
// write_micro FILE DIR: a micro trace as an archive. write_micro --hostile DIR: names as nobody should choose them.
#include <cstring>

#include "test/replay/support/micro_parse.hpp"

using namespace polter::test;

namespace {

TraceSpec hostile() {
    TraceSpec trace(2);
    trace.accounts = {"os:<script>alert(1)</script>", "os:a,\"b\"\nc"};
    const std::string names[] = {"MPI_Send",
                                 "<script>alert('x')</script>",
                                 "quote\" comma, newline\n tab\t return\r bell\a",
                                 std::string(10'000, 'x'),
                                 "bad \xff\xfe utf-8 \xc3",
                                 "=1+1",
                                 "right \xe2\x80\xae to left",
                                 "  blanks  "};
    int64_t time = 100;
    for (const std::string& name : names) {
        for (size_t rank = 0; rank < 2; ++rank) {
            trace.add(rank, time, Record::Kind::enter, name);
            trace.add(rank, time + 10, Record::Kind::leave, name);
            Record& noise = trace.add(rank, time + 50, Record::Kind::noise, trace.accounts[rank]);
            noise.ns = 20;
            noise.culprit = name;
        }
        time += 100;
    }
    return trace;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    write_trace(std::strcmp(argv[1], "--hostile") == 0 ? hostile() : parse_micro(argv[1]).trace, argv[2]);
    return 0;
}
