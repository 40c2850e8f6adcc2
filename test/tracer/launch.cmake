polter_unit_test(test-launch SOURCES launch_test.cpp LIBS polter-launch fmt::fmt)
polter_unit_test(test-collect SOURCES collect_test.cpp LIBS polter-launch fmt::fmt THREADS)
