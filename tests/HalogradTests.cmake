# halograd_add_tests(folder label): every test of tests/<folder>, found by name; see CMakeLists.txt beside this file.

set(halograd_mpi_test_ranks 1 2 3 4 8)
cmake_host_system_information(RESULT halograd_cores QUERY NUMBER_OF_LOGICAL_CORES)

# Fewer threads than a whole machine, never pinned or spinning: tests share cores with each other.
set(halograd_test_environment OMP_PROC_BIND=false OMP_WAIT_POLICY=passive)
if(HALOGRAD_SANITIZE MATCHES "thread")
  # UCX's hooks of the memory's calls break threads that end.
  list(APPEND halograd_test_environment UCX_MEM_EVENTS=n
    TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/mpi/thread_sanitizer.txt:history_size=7)
endif()
# What scripts and whole-program tests need to know.
set(halograd_script_environment ${halograd_test_environment} OMP_NUM_THREADS=1
  PYTHONDONTWRITEBYTECODE=1 HALOGRAD_SOURCE_DIR=${PROJECT_SOURCE_DIR}
  HALOGRAD_PROGRAM=$<TARGET_FILE:halograd_program> HALOGRAD_MPIEXEC=${MPIEXEC_EXECUTABLE})

set(halograd_mpiexec_flags ${MPIEXEC_PREFLAGS})
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE mpiexec_version ERROR_VARIABLE mpiexec_version)
if(mpiexec_version MATCHES "Open MPI|OpenRTE|PRRTE")
  # Open MPI starts neither more ranks than cores nor anything as root unless told, binds two ranks to the first two
  # cores, also those of the test beside, and comments on a status that is not 0.
  set(halograd_open_mpi ON)
  list(APPEND halograd_mpiexec_flags --oversubscribe)
  list(APPEND halograd_script_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_orte_execute_quiet=1)
  # Between nodes: UCX (docs/building.md).
  set(halograd_ucx OMPI_MCA_pml=ucx OMPI_MCA_osc=sm,ucx OMPI_MCA_opal_common_ucx_tls=any
    OMPI_MCA_opal_common_ucx_devices=any)
  set(halograd_several_nodes_environment SLURM_MPI_TYPE=pmix ${halograd_ucx})
endif()

# How a launcher makes two nodes of this machine: MPICH pretends, Open MPI starts the ranks of the second one below a
# daemon of another host name.
if(mpiexec_version MATCHES "HYDRA")
  set(halograd_two_nodes "")
  set(halograd_two_nodes_environment MPIR_CVAR_NUM_CLIQUES=2)
elseif(halograd_open_mpi)
  execute_process(COMMAND unshare --uts true RESULT_VARIABLE unshare_result OUTPUT_QUIET ERROR_QUIET)
  if(unshare_result EQUAL 0)
    set(halograd_two_nodes --mca plm_rsh_agent ${CMAKE_CURRENT_LIST_DIR}/mpi/other_node.sh --host localhost:2,other:2)
    set(halograd_two_nodes_environment ${halograd_ucx})
  endif()
endif()

if(HALOGRAD_SANITIZE MATCHES "address")
  # MPI libraries leak from modules that are gone by the end, so no suppression can name them. Serial tests still look.
  list(APPEND halograd_script_environment ASAN_OPTIONS=detect_leaks=0)
endif()
if(mpiexec_version MATCHES "HYDRA" AND NOT HALOGRAD_SANITIZE)  # the sanitizers' own library has to come first
  add_library(halograd_test_yield MODULE ${CMAKE_CURRENT_LIST_DIR}/mpi/yielding_progress.cpp)
  target_link_libraries(halograd_test_yield PRIVATE ${CMAKE_DL_LIBS} halograd_options)
  list(APPEND halograd_script_environment LD_PRELOAD=$<TARGET_FILE:halograd_test_yield>)
endif()
if(NOT HALOGRAD_SANITIZE)
  add_library(halograd_test_disk MODULE ${CMAKE_CURRENT_LIST_DIR}/app/disk_faults.cpp)
  target_link_libraries(halograd_test_disk PRIVATE ${CMAKE_DL_LIBS} halograd_options)
  list(APPEND halograd_script_environment HALOGRAD_TEST_DISK_SHIM=$<TARGET_FILE:halograd_test_disk>)
  add_library(halograd_test_regions MODULE ${CMAKE_CURRENT_LIST_DIR}/app/region_logger.cpp)
  target_link_libraries(halograd_test_regions PRIVATE halograd_options)
  list(APPEND halograd_script_environment HALOGRAD_TEST_REGION_LOGGER=$<TARGET_FILE:halograd_test_regions>)
endif()
string(JOIN " " halograd_mpiexec_flag_text ${halograd_mpiexec_flags})
list(APPEND halograd_script_environment "HALOGRAD_MPIEXEC_FLAGS=${halograd_mpiexec_flag_text}")

# What all of them are compiled with.
add_library(halograd_test_options INTERFACE)
target_link_libraries(halograd_test_options INTERFACE halograd GTest::gtest halograd_options)
# g++ 12 believes that copies inside std::string's + overlap where much is inlined (GCC's bug 105651).
target_compile_options(halograd_test_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Most tests wait for what they test, not for themselves: they compile in half the time. The plain loops that kernels are held
# against would take five times as long.
target_compile_options(halograd_test_options INTERFACE
  "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU,Clang>>:$<IF:$<BOOL:$<TARGET_PROPERTY:HALOGRAD_PLAIN_LOOPS>>,-O1,-O0>>")
if(Kokkos_DEVICES MATCHES "HIP" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  target_compile_options(halograd_test_options INTERFACE "SHELL:-include ${PROJECT_SOURCE_DIR}/tests/clang15.hpp")
endif()

# Serial tests are listed by their program when it is built; where that does not start without the device's driver, as on
# a login node, when ctest is run.
set(halograd_test_discovery POST_BUILD)
if(Kokkos_DEVICES MATCHES "CUDA")
  set(halograd_test_discovery PRE_TEST)
endif()

# The main functions, compiled once for all folders.
foreach(main IN ITEMS main mpi_main)
  add_library(halograd_test_${main} OBJECT ${PROJECT_SOURCE_DIR}/tests/${main}.cpp)
  target_link_libraries(halograd_test_${main} PRIVATE halograd_test_options)
endforeach()
halograd_precompile(halograd_test_main PRIVATE <Kokkos_Core.hpp> <gtest/gtest.h>)

function(halograd_add_test_executable target main)
  add_executable(${target} $<TARGET_OBJECTS:halograd_test_${main}> ${ARGN})
  target_link_libraries(${target} PRIVATE halograd_test_options)
  # Tests look behind the public interface: the library's own headers on HDF5 and TOML.
  target_link_libraries(${target} PRIVATE ${HDF5_C_LIBRARIES} ZLIB::ZLIB toml11::toml11 CLI11::CLI11
    nlohmann_json::nlohmann_json)
  target_include_directories(${target} SYSTEM PRIVATE ${HDF5_C_INCLUDE_DIRS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PRIVATE HALOGRAD_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    HALOGRAD_PROGRAM="$<TARGET_FILE:halograd_program>" HALOGRAD_MPIEXEC="${MPIEXEC_EXECUTABLE}"
    HALOGRAD_MPIEXEC_FLAGS="${halograd_mpiexec_flag_text}")
  if(target STREQUAL "halograd_test_kernels")
    set_target_properties(${target} PROPERTIES HALOGRAD_PLAIN_LOOPS ON)
    halograd_precompile(${target} PRIVATE <Kokkos_Core.hpp> <gtest/gtest.h>)
  else()
    halograd_precompile(${target} REUSE_FROM halograd_test_main)
  endif()
  add_dependencies(${target} halograd_program)
endfunction()

# A label more for names that end _long_test.
function(halograd_test_labels output name label)
  set(labels ${label})
  if(name MATCHES "_long_test$")
    list(APPEND labels long)
  endif()
  set(${output} "${labels}" PARENT_SCOPE)
endfunction()

function(halograd_add_tests folder label)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*_test.cpp)
  set(mpi_sources ${sources})
  list(FILTER mpi_sources INCLUDE REGEX "_mpi_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_mpi_test\\.cpp$")

  if(sources)
    set(target halograd_test_${folder})
    halograd_add_test_executable(${target} main ${sources})
    # Only these spend their time in kernels on both threads; a test of the others would keep an idle core from its neighbours.
    set(processors 1)
    if(folder MATCHES "^(kernels|nn)$")
      set(processors 2)
    endif()
    # GCC's libgomp is not compiled for the thread sanitizer, which sees no barrier of its threads: there is one then. Folders
    # that have no other threads need not be looked at, and take minutes.
    set(labels ${label})
    set(threads 2)
    if(HALOGRAD_SANITIZE MATCHES "thread")
      set(threads 1)
      if(folder MATCHES "^(kernels|nn|graph|run)$")
        list(APPEND labels long)
      endif()
    endif()
    gtest_discover_tests(${target} TEST_PREFIX ${folder}. DISCOVERY_TIMEOUT 60
      DISCOVERY_MODE ${halograd_test_discovery} PROPERTIES PROCESSORS ${processors} TIMEOUT 300)
    # Not by gtest_discover_tests, which takes the second element of a list for a property's name.
    set(properties ${CMAKE_CURRENT_BINARY_DIR}/${target}_properties.cmake)
    file(CONFIGURE OUTPUT ${properties} @ONLY CONTENT "foreach(test IN LISTS ${target}_TESTS)
  set_tests_properties(\${test} PROPERTIES LABELS \"${labels}\"
    ENVIRONMENT \"${halograd_test_environment};OMP_NUM_THREADS=${threads}\")
endforeach()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${properties})
  endif()

  if(mpi_sources)
    set(target halograd_mpi_test_${folder})
    halograd_add_test_executable(${target} mpi_main ${mpi_sources})
    foreach(ranks IN LISTS halograd_mpi_test_ranks)
      set(name ${folder}.mpi.${ranks})
      # Ranks that wait give their core away, so that more of them than cores still leave time to a program beside. They
      # begin first, as long as there are programs.
      set(processors ${ranks})
      if(processors GREATER halograd_cores)
        set(processors ${halograd_cores})
      endif()
      add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${halograd_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
        $<TARGET_FILE:${target}> ${MPIEXEC_POSTFLAGS})
      set_tests_properties(${name} PROPERTIES LABELS mpi PROCESSORS ${processors} COST ${ranks} TIMEOUT 900
        ENVIRONMENT "${halograd_script_environment};HALOGRAD_TEST_RANKS=${ranks}")
    endforeach()
  endif()

  # Ranks that are told to be on two nodes: edges by store and by put in one window.
  set(two_nodes_mpi "Communicator.*:NodeMemory.*")
  set(two_nodes_window
    "DeckTest.*:HaloWindow.*:*/HaloWindowTest.*:HaloMemory.*:ProgressThread.*:BackPressure.*:NetworkTrial.*:TransportChoice.*:*Mail*:*AllReduce*:*GroupWindow*")
  set(two_nodes_io "LocalCopies.*")
  set(two_nodes_nn "Space.*")
  set(two_nodes_averagers "Averager.Stores*:Averager.Halos*:AllreduceBuckets.*:Graphs/NeighbourAverager.*")
  if(DEFINED two_nodes_${folder} AND DEFINED halograd_two_nodes)
    add_test(NAME ${folder}.nodes.4 COMMAND ${MPIEXEC_EXECUTABLE} ${halograd_mpiexec_flags} ${halograd_two_nodes}
      ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:halograd_mpi_test_${folder}> "--gtest_filter=${two_nodes_${folder}}" ${MPIEXEC_POSTFLAGS})
    set_tests_properties(${folder}.nodes.4 PROPERTIES LABELS mpi PROCESSORS 4 TIMEOUT 600
      ENVIRONMENT "${halograd_script_environment};HALOGRAD_TEST_RANKS=4;HALOGRAD_TEST_NODES=2;${halograd_two_nodes_environment}")
  endif()

  # Ranks that MPI puts on a node each, as MPICH 5 does when it is built for UCX: halograd itself finds those that share
  # memory. It takes MPIR_CVAR_NOLOCAL for the user's wish to keep them apart, but not this other name of the switch.
  if(DEFINED two_nodes_${folder} AND mpiexec_version MATCHES "HYDRA")
    add_test(NAME ${folder}.alone.4 COMMAND ${MPIEXEC_EXECUTABLE} ${halograd_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} 4
      $<TARGET_FILE:halograd_mpi_test_${folder}> "--gtest_filter=${two_nodes_${folder}}" ${MPIEXEC_POSTFLAGS})
    set_tests_properties(${folder}.alone.4 PROPERTIES LABELS mpi PROCESSORS 4 TIMEOUT 600
      ENVIRONMENT "${halograd_script_environment};HALOGRAD_TEST_RANKS=4;MPICH_NOLOCAL=1")
  endif()

  if(folder STREQUAL "averagers")
    add_test(NAME averagers.large.2 COMMAND ${MPIEXEC_EXECUTABLE} ${halograd_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} 2
      $<TARGET_FILE:halograd_mpi_test_averagers> "--gtest_filter=Edges/LargeHalo.*" ${MPIEXEC_POSTFLAGS})
    set_tests_properties(averagers.large.2 PROPERTIES LABELS "mpi;long" PROCESSORS 2 TIMEOUT 1800
      ENVIRONMENT "${halograd_script_environment};HALOGRAD_TEST_RANKS=2;HALOGRAD_TEST_LARGE=1")
  endif()

  set(environment ${halograd_script_environment})
  if(label MATCHES "^(slurm|network)$")
    list(APPEND environment ${halograd_several_nodes_environment})
  endif()
  file(GLOB_RECURSE scripts CONFIGURE_DEPENDS ${folder}/*_test.py ${folder}/*_test.sh)
  foreach(script IN LISTS scripts)
    cmake_path(GET script STEM stem)
    set(runner bash)
    if(script MATCHES "\\.py$")
      set(runner ${Python3_EXECUTABLE})
    endif()
    halograd_test_labels(labels ${stem} ${label})
    add_test(NAME ${folder}.${stem} COMMAND ${runner} ${script})
    # Whole programs run beside others, for they wait much; alone run hosts of a network, and the test that holds booked
    # seconds against the clock. Faults of a network and jobs of Slurm are waited for: these tests begin first, one Slurm at
    # a time, so that there are others to run beside them.
    set(processors 1)
    set(cost 0)
    set(timeout 900)
    if("long" IN_LIST labels)
      set(timeout 3600)
    endif()
    if(label STREQUAL "slurm" OR (label STREQUAL "network" AND stem MATCHES "^(faults|healing)"))
      set(cost 60)
    elseif(label STREQUAL "network" OR stem STREQUAL "clocks_test")
      set(processors 4)
    endif()
    set_tests_properties(${folder}.${stem} PROPERTIES LABELS "${labels}" PROCESSORS ${processors} COST ${cost} TIMEOUT ${timeout}
      SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
    if(label STREQUAL "slurm")
      set_tests_properties(${folder}.${stem} PROPERTIES RESOURCE_LOCK slurm)
    endif()
  endforeach()
endfunction()
