# SCR_FLUSH_TYPE=DAEMON on four nodes, with a scr_transfer on each (docs/transfer.md).
include(${PROJECT_SOURCE_DIR}/tests/cluster/ClusterTest.cmake)
foreach(layout files containers)
  add_cluster_test(NAME flush.daemon.${layout} NODES 4 SLOTS 2 TIMEOUT 400 LABELS flush
    COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/daemon.sh ${CMAKE_BINARY_DIR}/tests ${CMAKE_BINARY_DIR}/bin ${layout})
endforeach()
