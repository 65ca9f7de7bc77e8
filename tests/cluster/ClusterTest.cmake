# Tests that run on a virtual cluster (tests/cluster/cluster; needs root).
#
#   include(ClusterTest)   # or by path
#   add_cluster_test(
#     NAME redundancy.xor_survives_a_node
#     NODES 4                        # nodes of the cluster
#     [SLOTS 2]                      # ranks per node
#     [SIZE 256m]                    # storage of a node
#     [LIGHT]                        # hostnames and storage only, MPI over shared memory
#     [TIMEOUT 120]                  # seconds the command may take
#     [LABELS ...]                   # besides "cluster", which all of them have
#     [ENVIRONMENT NAME=value ...]
#     [WORKING_DIRECTORY dir]
#     COMMAND cluster run -n 8 $<TARGET_FILE:program> ...)
#
# COMMAND runs outside the nodes, as `cluster with NODES -- COMMAND`, with `cluster` in its PATH; see
# `cluster --help` for what it can call and which variables it gets. A target must be written as
# $<TARGET_FILE:target>. Such a test counts as two jobs of `ctest -j`: it waits much, for mpirun and for what it
# looks for, but when it does not, it has more ranks than a machine for tests has cores. The cluster starts
# programs with Open MPI's mpirun, so there is no such test with another MPI.

set(H5SCR_CLUSTER_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/cluster" CACHE INTERNAL "the virtual cluster")

function(add_cluster_test)
  if(NOT H5SCR_OPEN_MPI)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 arg "LIGHT" "NAME;NODES;SLOTS;SIZE;TIMEOUT;WORKING_DIRECTORY"
                        "LABELS;ENVIRONMENT;COMMAND")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "add_cluster_test: what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  foreach(needed NAME NODES COMMAND)
    if(NOT DEFINED arg_${needed})
      message(FATAL_ERROR "add_cluster_test(NAME ${arg_NAME}): ${needed} is missing")
    endif()
  endforeach()
  if(NOT DEFINED arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT DEFINED arg_WORKING_DIRECTORY)
    set(arg_WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()

  set(options --timeout ${arg_TIMEOUT})
  if(DEFINED arg_SLOTS)
    list(APPEND options --slots ${arg_SLOTS})
  endif()
  if(DEFINED arg_SIZE)
    list(APPEND options --size ${arg_SIZE})
  endif()
  if(arg_LIGHT)
    list(APPEND options --light)
  endif()
  add_test(NAME ${arg_NAME}
           COMMAND "${H5SCR_CLUSTER_SCRIPT}" with ${arg_NODES} ${options}
                   --bind "${CMAKE_BINARY_DIR}" -- ${arg_COMMAND}
           WORKING_DIRECTORY "${arg_WORKING_DIRECTORY}")

  # The script ends a command that takes too long and cleans up; CTest, which would kill the script
  # itself, is only there for the case that even this fails.
  math(EXPR limit "${arg_TIMEOUT} + 60")
  set_tests_properties(${arg_NAME} PROPERTIES
    LABELS "cluster;${arg_LABELS}"
    ENVIRONMENT "${arg_ENVIRONMENT}"
    PROCESSORS 2
    COST ${arg_TIMEOUT} # before the short ones, also where CTest has not measured it yet
    TIMEOUT ${limit})
endfunction()
