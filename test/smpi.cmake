# SimGrid's SMPI, on which programs run where the truth is known. POLTER_NO_SMPI: why its tests cannot run here; empty: they can.
find_path(SMPI_INCLUDE_DIR smpi/smpi.h)
find_library(SIMGRID_LIBRARY simgrid)
find_program(SMPIRUN smpirun)
set(POLTER_NO_SMPI "")
if(NOT SMPI_INCLUDE_DIR OR NOT SIMGRID_LIBRARY OR NOT SMPIRUN)
  set(POLTER_NO_SMPI "SimGrid with SMPI is not installed (Debian: libsimgrid-dev, installed by scripts/setup)")
elseif(POLTER_SANITIZE)
  set(POLTER_NO_SMPI "the sanitizers do not follow the stacks that SimGrid switches between")
endif()

# polter_smpi_program(TARGET): a MODULE library that smpirun loads. -Bsymbolic: its calls of MPI_ functions go to its own, not to SMPI's.
function(polter_smpi_program target)
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${SMPI_INCLUDE_DIR} ${SMPI_INCLUDE_DIR}/smpi)
  target_link_libraries(${target} PRIVATE ${SIMGRID_LIBRARY} m)
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic)
endfunction()

# polter_smpi_skipped(TEST…): tests that only say why they are skipped.
function(polter_smpi_skipped)
  foreach(name ${ARGN})
    add_test(NAME ${name} COMMAND sh -c "echo 'SKIP: ${POLTER_NO_SMPI}'; exit ${POLTER_SKIP}")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE ${POLTER_SKIP})
  endforeach()
endfunction()
