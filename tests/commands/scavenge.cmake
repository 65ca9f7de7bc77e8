# Scavenges at the end of an allocation, on the virtual cluster.
include(${PROJECT_SOURCE_DIR}/tests/cluster/ClusterTest.cmake)

foreach(case files containers unrecoverable kill running)
  add_cluster_test(NAME commands.scavenge.${case} NODES 4 SLOTS 2 TIMEOUT 400 LABELS commands
    COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/scavenge.sh ${CMAKE_BINARY_DIR}/tests ${case})
endforeach()
