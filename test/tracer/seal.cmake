polter_unit_test(test-seal SOURCES seal_test.cpp seal_ranks.cpp LIBS polter-seal fmt::fmt OTF2::OTF2)
polter_unit_test(test-seal-attacks SOURCES seal_attack_test.cpp seal_ranks.cpp LIBS polter-seal polter-write fmt::fmt OTF2::OTF2)
