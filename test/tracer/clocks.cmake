polter_unit_test(test-clocks SOURCES clocks/clocks_test.cpp LIBS polter-clocks)
add_executable(bench_clocks EXCLUDE_FROM_ALL clocks/bench_clocks.cpp)
add_dependencies(benchmarks bench_clocks)
target_link_libraries(bench_clocks PRIVATE polter-clocks fmt::fmt nlohmann_json::nlohmann_json)
set_target_properties(bench_clocks PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
polter_unit_test(test-leaders SOURCES clocks/leaders_test.cpp ${CMAKE_SOURCE_DIR}/tracer/mpi/clocks/leaders.cpp
  ${CMAKE_SOURCE_DIR}/tracer/mpi/clocks/meeting.cpp ${CMAKE_SOURCE_DIR}/tracer/mpi/clocks/datagrams.cpp LIBS polter-write)
polter_unit_test(test-datagrams SOURCES clocks/datagrams_test.cpp ${CMAKE_SOURCE_DIR}/tracer/mpi/clocks/datagrams.cpp LIBS polter-write)
