! A Fortran program whose barriers are MPI's Fortran bindings, with files f1.<rank>.h5 and f2.<rank>.h5.
program fortran_client
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function write_value(name, value) bind(c)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: value
    end function
  end interface
  integer :: rank, step, error, total
  character(len=64) :: name

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  do step = 1, 2
    write (name, '(a,i0,a,i0,a)') 'f', step, '.', rank, '.h5'
    if (write_value(trim(name)//c_null_char, int(step, c_int)) /= 0) print *, 'WRONG'
    call MPI_Barrier(MPI_COMM_WORLD, error)
    call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  end do
  call MPI_Finalize(error)
  if (rank == 0) print '(a)', 'DONE'
end program
