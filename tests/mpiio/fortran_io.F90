! MPI-IO from Fortran, by each of its three interfaces: every rank writes through a view, and reads what the next
! one wrote. Prints DONE.
!   mpirun -n N fortran_io FILE
program fortran_io
#if defined(USE_F08)
  use mpi_f08
#elif defined(USE_MPI)
  use mpi
#endif
  implicit none
#if !defined(USE_F08) && !defined(USE_MPI)
  include 'mpif.h'
#endif
#ifdef USE_F08
  type(MPI_File) :: file
  type(MPI_Datatype) :: filetype
  type(MPI_Request) :: request
  type(MPI_Status) :: status
#else
  integer :: file, filetype, request, status(MPI_STATUS_SIZE)
#endif
  integer, parameter :: n = 50
  integer(kind=MPI_OFFSET_KIND) :: at, length
  integer :: numbers(n), seen(n), rank, ranks, other, error, count, i, wrong, all, amode
  character(len=1000) :: name

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, name)
  wrong = 0

  call MPI_File_open(MPI_COMM_WORLD, trim(name), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, error)
  if (error /= MPI_SUCCESS) wrong = wrong + 1
  call MPI_File_get_amode(file, amode, error)
  if (amode /= MPI_MODE_CREATE + MPI_MODE_RDWR) wrong = wrong + 1

  ! Numbers of all ranks in turn.
  call MPI_Type_vector(n, 1, ranks, MPI_INTEGER, filetype, error)
  call MPI_Type_commit(filetype, error)
  at = 4 * rank
  call MPI_File_set_view(file, at, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, error)
  call MPI_Type_free(filetype, error)
  numbers = [(1000 * rank + i, i = 1, n)]
  call MPI_File_write_all(file, numbers, n, MPI_INTEGER, status, error)
  call MPI_Get_count(status, MPI_INTEGER, count, error)
  if (error /= MPI_SUCCESS .or. count /= n) wrong = wrong + 1
  call MPI_Barrier(MPI_COMM_WORLD, error)

  at = 0
  call MPI_File_set_view(file, at, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, error)
  other = mod(rank + 1, ranks)
  do i = 1, n
    at = (i - 1) * ranks + other
    call MPI_File_iread_at(file, at, seen(i), 1, MPI_INTEGER, request, error)
    call MPI_Wait(request, status, error)
    call MPI_Get_count(status, MPI_INTEGER, count, error)
    if (count /= 1 .or. seen(i) /= 1000 * other + i) wrong = wrong + 1
  end do

  ! In the order of ranks, after a seek of the shared pointer.
  at = n * ranks
  call MPI_File_seek_shared(file, at, MPI_SEEK_SET, error)
  call MPI_File_write_ordered(file, rank, 1, MPI_INTEGER, MPI_STATUS_IGNORE, error)
  call MPI_Barrier(MPI_COMM_WORLD, error)
  at = n * ranks + other
  call MPI_File_read_at_all(file, at, i, 1, MPI_INTEGER, status, error)
  if (i /= other) wrong = wrong + 1
  call MPI_File_get_size(file, length, error)
  if (length /= 4 * (n + 1) * ranks) wrong = wrong + 1
  call MPI_File_close(file, error)
  if (file /= MPI_FILE_NULL) wrong = wrong + 1
  call MPI_Allreduce(wrong, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0 .and. all == 0) print '(a)', 'DONE'
  if (rank == 0 .and. all /= 0) print '(a,i0)', 'WRONG ', all
  call MPI_Finalize(error)
end program
