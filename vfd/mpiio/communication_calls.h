/* Calls without numbers of elements, for communication.c, which defines CALL. */
/* clang-format off */

/* from one process to another */
CALL(Start, MPI_Request*)
CALL(Startall, int, MPI_Request*)
#if MPI_VERSION >= 4
CALL(Pready, int, MPI_Request)
CALL(Pready_range, int, int, MPI_Request)
CALL(Pready_list, int, int*, MPI_Request)
#endif

/* collective */
CALL(Ibarrier, MPI_Comm, MPI_Request*)

/* one-sided */
CALL(Fetch_and_op, const void*, void*, MPI_Datatype, int, MPI_Aint, MPI_Op, MPI_Win)
CALL(Compare_and_swap, const void*, const void*, void*, MPI_Datatype, int, MPI_Aint, MPI_Win)
CALL(Win_fence, int, MPI_Win)
CALL(Win_start, MPI_Group, int, MPI_Win)
CALL(Win_complete, MPI_Win)
CALL(Win_post, MPI_Group, int, MPI_Win)
CALL(Win_wait, MPI_Win)
CALL(Win_test, MPI_Win, int*)
CALL(Win_lock, int, int, int, MPI_Win)
CALL(Win_lock_all, int, MPI_Win)
CALL(Win_unlock, int, MPI_Win)
CALL(Win_unlock_all, MPI_Win)
CALL(Win_flush, int, MPI_Win)
CALL(Win_flush_all, MPI_Win)
CALL(Win_flush_local, int, MPI_Win)
CALL(Win_flush_local_all, MPI_Win)
CALL(Win_sync, MPI_Win)
CALL(Win_create, void*, MPI_Aint, int, MPI_Info, MPI_Comm, MPI_Win*)
CALL(Win_allocate, MPI_Aint, int, MPI_Info, MPI_Comm, void*, MPI_Win*)
CALL(Win_allocate_shared, MPI_Aint, int, MPI_Info, MPI_Comm, void*, MPI_Win*)
CALL(Win_create_dynamic, MPI_Info, MPI_Comm, MPI_Win*)
CALL(Win_free, MPI_Win*)
#if MPI_VERSION >= 4
CALL(Win_create_c, void*, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, MPI_Win*)
CALL(Win_allocate_c, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*)
CALL(Win_allocate_shared_c, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*)
#endif

/* communicators */
CALL(Comm_dup, MPI_Comm, MPI_Comm*)
CALL(Comm_dup_with_info, MPI_Comm, MPI_Info, MPI_Comm*)
CALL(Comm_idup, MPI_Comm, MPI_Comm*, MPI_Request*)
CALL(Comm_create, MPI_Comm, MPI_Group, MPI_Comm*)
CALL(Comm_create_group, MPI_Comm, MPI_Group, int, MPI_Comm*)
CALL(Comm_split, MPI_Comm, int, int, MPI_Comm*)
CALL(Comm_split_type, MPI_Comm, int, int, MPI_Info, MPI_Comm*)
CALL(Comm_free, MPI_Comm*)
CALL(Comm_disconnect, MPI_Comm*)
CALL(Intercomm_create, MPI_Comm, int, MPI_Comm, int, int, MPI_Comm*)
CALL(Intercomm_merge, MPI_Comm, int, MPI_Comm*)
CALL(Cart_create, MPI_Comm, int, const int*, const int*, int, MPI_Comm*)
CALL(Cart_sub, MPI_Comm, const int*, MPI_Comm*)
CALL(Graph_create, MPI_Comm, int, const int*, const int*, int, MPI_Comm*)
CALL(Dist_graph_create, MPI_Comm, int, const int*, const int*, const int*, const int*, MPI_Info, int, MPI_Comm*)
CALL(Dist_graph_create_adjacent, MPI_Comm, int, const int*, const int*, int, const int*, const int*, MPI_Info, int, MPI_Comm*)
#if MPI_VERSION >= 4
CALL(Comm_idup_with_info, MPI_Comm, MPI_Info, MPI_Comm*, MPI_Request*)
CALL(Comm_create_from_group, MPI_Group, const char*, MPI_Info, MPI_Errhandler, MPI_Comm*)
CALL(Intercomm_create_from_groups, MPI_Group, int, MPI_Group, int, const char*, MPI_Info, MPI_Errhandler, MPI_Comm*)
#endif

/* other programs */
CALL(Comm_spawn, const char*, char**, int, MPI_Info, int, MPI_Comm, MPI_Comm*, int*)
CALL(Comm_spawn_multiple, int, char**, char***, const int*, const MPI_Info*, int, MPI_Comm, MPI_Comm*, int*)
CALL(Comm_accept, const char*, MPI_Info, int, MPI_Comm, MPI_Comm*)
CALL(Comm_connect, const char*, MPI_Info, int, MPI_Comm, MPI_Comm*)
CALL(Comm_join, int, MPI_Comm*)
CALL(Publish_name, const char*, MPI_Info, const char*)
/* clang-format on */
