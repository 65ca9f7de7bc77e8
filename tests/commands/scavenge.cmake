# Scavenges at the end of an allocation, on the virtual cluster.
include(${PROJECT_SOURCE_DIR}/tests/cluster/ClusterTest.cmake)

foreach(case files containers unrecoverable kill command spare running)
  add_cluster_test(NAME commands.scavenge.${case} NODES 4 SLOTS 2 TIMEOUT 400 LABELS commands
    COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/scavenge.sh ${CMAKE_BINARY_DIR}/tests ${case})
endforeach()
# The same with a file that all ranks write together.
if(H5SCR_HDF5)
  foreach(case files containers unrecoverable kill)
    add_cluster_test(NAME commands.scavenge_shared.${case} NODES 4 SLOTS 2 TIMEOUT 800 LABELS commands
      COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/scavenge_shared.sh ${CMAKE_BINARY_DIR} ${case})
  endforeach()
  add_cluster_test(NAME commands.scavenge_deleted NODES 2 SLOTS 2 TIMEOUT 300 LABELS commands
    COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/scavenge_deleted.sh ${CMAKE_BINARY_DIR})
endif()
