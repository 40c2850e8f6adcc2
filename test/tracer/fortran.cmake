# Of one flavour: the names that its libraries have, and one Fortran text a program, compiled for each binding and counted below the
# MPI's own bindings.

polter_mpi_program(${flavour} test/programs programs/fortran/count_fortran.c SHARED)
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
  --expect MPI_Group_incl=1 --expect MPI_Allreduce=4 --expect MPI_Comm_free=7 --expect MPI_Win_fence=2 --expect MPI_Rget=1 --expect MPI_Type_get_name=1
  --defined "\"even and odd\"" --defined "\"halo\"")
set(fortran_threads_expects --expect MPI_Init_thread=1 --expect MPI_Waitall=50 --expect locations=1)
# Kernels with a right answer: as the NAS kernels CG, LU, MG and FT communicate. Each sees for itself that it is right.
set(fortran_cg_expects --expect MPI_Irecv=52 --expect MPI_Send=52 --expect MPI_Wait=52 --expect MPI_Allreduce=54 --expect MPI_Comm_split=1)
set(fortran_lu_expects --expect MPI_Send=180 --expect MPI_Recv=180 --expect MPI_Cart_shift=2 --expect MPI_Allreduce=1)
set(fortran_mg_expects --expect MPI_Sendrecv=436 --expect MPI_Allreduce=3 --expect MPI_Type_vector=109)
set(fortran_ft_expects --expect MPI_Alltoall=9 --expect MPI_Allreduce=9)
# Whom each receives from and sends to: in the ring, in the graph, at the end of the line.
set(fortran_neighbours_expects --expect MPI_Neighbor_allgather=12 --expect MPI_Neighbor_alltoall=8 --expect MPI_Dist_graph_create_adjacent=2
  --defined "\"in 1 2 out 1 2\"" --defined "\"in 2 out 1\"" --defined "\"in 1 out 1\"")
set(ranks_of_fortran_threads 2)
set(ranks_of_fortran_messages 2 3)
set(ranks_of_fortran_groups 2 3)
foreach(kernel cg lu mg)
  set(ranks_of_fortran_${kernel} 4)
endforeach()
set(ranks_of_fortran_ft 3)
set(ranks_of_fortran_neighbours 3)
foreach(program fortran_messages fortran_groups fortran_threads fortran_cg fortran_lu fortran_mg fortran_ft fortran_neighbours)
  foreach(binding 1 2 3)
    set(out ${built}/${program}-${binding})
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/programs/fortran/${program}.F90)
    set(flags -O2 -g -cpp -DBINDING=${binding} -fopenmp -fallow-argument-mismatch -w)
    add_custom_command(OUTPUT ${out}
      COMMAND ${MPIFORT_${upper}} ${flags} ${source} -o ${out}
      DEPENDS ${source} ${CMAKE_CURRENT_SOURCE_DIR}/programs/fortran/bindings.h WORKING_DIRECTORY ${built} VERBATIM)
    add_custom_target(mpi-program-${flavour}-${program}-${binding} ALL DEPENDS ${out})
    if(program STREQUAL fortran_groups)  # once more as a plug-in
      set(plugin ${built}/lib${program}-${binding}.so)
      add_custom_command(OUTPUT ${plugin}
        COMMAND ${MPIFORT_${upper}} ${flags} -shared -fPIC ${source} -o ${plugin}
        DEPENDS ${source} ${CMAKE_CURRENT_SOURCE_DIR}/programs/fortran/bindings.h WORKING_DIRECTORY ${built} VERBATIM)
      add_custom_target(mpi-program-${flavour}-${program}-${binding}-plugin ALL DEPENDS ${plugin})
    endif()
    foreach(ranks ${ranks_of_${program}})
      add_test(NAME counts-${flavour}-${program}-${binding}-${ranks} COMMAND ${compare_fortran} -n ${ranks} ${${program}_expects} ${out})
    endforeach()
  endforeach()
endforeach()
# What tracing adds to a call: by mpif.h and by mpi_f08 (scripts/bench calls).
foreach(binding 1 3)
  set(language fortran)
  if(binding EQUAL 3)
    set(language fortran_f08)
  endif()
  set(out ${CMAKE_BINARY_DIR}/bench/${flavour}/bench_mpi_calls_${language})
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/programs/fortran/bench_mpi_calls_fortran.F90)
  file(MAKE_DIRECTORY ${out}.modules)  # one each: both write the same module files, perhaps at once
  add_custom_command(OUTPUT ${out}
    COMMAND ${MPIFORT_${upper}} -O2 -g -cpp -DBINDING=${binding} -fallow-argument-mismatch -w ${source} -o ${out}
    WORKING_DIRECTORY ${out}.modules DEPENDS ${source} ${CMAKE_CURRENT_SOURCE_DIR}/programs/fortran/bindings.h VERBATIM)
  add_custom_target(bench-${flavour}-${language} ALL DEPENDS ${out})
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
