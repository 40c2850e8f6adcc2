# Of one flavour: the names that its libraries have, and one Fortran text a program, compiled for each binding and counted below the
# MPI's own bindings.

polter_mpi_program(${flavour} test/programs programs/count_fortran.c SHARED)
add_test(NAME table-${flavour}-fortran COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/fortran_names_test.py
  ${CMAKE_SOURCE_DIR}/tracer/mpi/generate_fortran.py ${CMAKE_SOURCE_DIR}/tracer/mpi/functions.txt
  $<TARGET_FILE:polter-mpi-${flavour}> ${MPIFORT_${upper}})

set(compare_fortran Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/compare_counts.py --tracer $<TARGET_FILE:polter-mpi-${flavour}>
  --counter ${built}/libcount_fortran.so --reader $<TARGET_FILE:trace_counts> --launcher mpirun.${flavour} --same-output)
# Calls of rank 0 as the text has them.
set(fortran_messages_expects --expect MPI_Init=1 --expect MPI_Comm_rank=1 --expect MPI_Get_count=8 --expect MPI_Send=3 --expect MPI_Recv=8
  --expect MPI_Wait=5 --expect MPI_Barrier=2 --expect MPI_Get_address=2 --expect MPI_Request_free=3 --expect MPI_Error_string=1
  --expect cancelled=1)
set(fortran_groups_expects --expect MPI_Init=1 --expect MPI_Comm_rank=2 --expect MPI_Comm_get_name=1 --expect MPI_Info_set=1
  --expect MPI_Group_incl=1 --expect MPI_Allreduce=4 --expect MPI_Comm_free=7 --expect MPI_Win_fence=2 --expect MPI_Type_get_name=1
  --defined "\"even and odd\"" --defined "\"halo\"")
set(fortran_threads_expects --expect MPI_Init_thread=1 --expect MPI_Waitall=50 --expect locations=1)
foreach(program fortran_messages fortran_groups fortran_threads)
  foreach(binding 1 2 3)
    set(out ${built}/${program}-${binding})
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/programs/${program}.F90)
    set(flags -O2 -g -cpp -DBINDING=${binding} -fopenmp -fallow-argument-mismatch -w)
    add_custom_command(OUTPUT ${out}
      COMMAND ${MPIFORT_${upper}} ${flags} ${source} -o ${out}
      DEPENDS ${source} ${CMAKE_CURRENT_SOURCE_DIR}/programs/bindings.h WORKING_DIRECTORY ${built} VERBATIM)
    add_custom_target(mpi-program-${flavour}-${program}-${binding} ALL DEPENDS ${out})
    if(program STREQUAL fortran_groups)  # once more as a plug-in
      set(plugin ${built}/lib${program}-${binding}.so)
      add_custom_command(OUTPUT ${plugin}
        COMMAND ${MPIFORT_${upper}} ${flags} -shared -fPIC ${source} -o ${plugin}
        DEPENDS ${source} ${CMAKE_CURRENT_SOURCE_DIR}/programs/bindings.h WORKING_DIRECTORY ${built} VERBATIM)
      add_custom_target(mpi-program-${flavour}-${program}-${binding}-plugin ALL DEPENDS ${plugin})
    endif()
    set(ranks_of_program 2 3)
    if(program STREQUAL fortran_threads)
      set(ranks_of_program 2)
    endif()
    foreach(ranks ${ranks_of_program})
      add_test(NAME counts-${flavour}-${program}-${binding}-${ranks} COMMAND ${compare_fortran} -n ${ranks} ${${program}_expects} ${out})
    endforeach()
  endforeach()
endforeach()
set_tests_properties(counts-${flavour}-fortran_threads-1-2 counts-${flavour}-fortran_threads-2-2 counts-${flavour}-fortran_threads-3-2
  PROPERTIES ENVIRONMENT OMP_NUM_THREADS=2)

# A real program in Fortran, where it is installed: the sparse solver MUMPS. It polls for packed messages from anybody.
if(flavour STREQUAL openmpi)
  find_program(MUMPS_EXAMPLE dsimpletest PATHS /usr/lib/mumps)
  if(MUMPS_EXAMPLE)
    set(matrix ${built}/mumps.in)
    add_custom_command(OUTPUT ${matrix} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/programs/mumps_input.py 40 ${matrix}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/programs/mumps_input.py VERBATIM)
    add_custom_target(mumps-input ALL DEPENDS ${matrix})
    foreach(ranks 2 4)
      add_test(NAME counts-openmpi-mumps-${ranks} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/compare_counts.py
        --tracer $<TARGET_FILE:polter-mpi-openmpi> --counter ${built}/libcount_fortran.so --reader $<TARGET_FILE:trace_counts>
        --launcher mpirun.openmpi -n ${ranks} --stdin ${matrix} ${MUMPS_EXAMPLE})
    endforeach()
  endif()
endif()
