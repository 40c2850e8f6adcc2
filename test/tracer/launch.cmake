polter_unit_test(test-launch SOURCES launch_test.cpp LIBS polter-launch fmt::fmt)
