! Checkpoint and restart from Fortran: the module `scr` (program) and the include file scrf.h (the subroutine
! at the end, as older programs do it).
!
!   fortran_api write | fortran_api restart
program fortran_api
  use mpi
  use scr
  use, intrinsic :: iso_c_binding, only: c_long_long
  implicit none
  character(len=SCR_MAX_FILENAME) :: name, path
  character(len=32) :: mode, file
  integer :: rank, ranks, error, flag, i, value, unit
  integer(c_long_long) :: done, total
  logical :: good

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, mode)
  write(file, '(a,i0,a)') 'rank_', rank, '.dat'

  call SCR_INIT(error)
  call must(error == SCR_SUCCESS, 'SCR_INIT')
  if (mode == 'write') then
    call SCR_HAVE_RESTART(flag, name, error)
    call must(error == SCR_SUCCESS .and. flag == 0, 'SCR_HAVE_RESTART of nothing')
    call SCR_NEED_CHECKPOINT(flag, error)
    call must(error == SCR_SUCCESS, 'SCR_NEED_CHECKPOINT')
    call SCR_START_OUTPUT('fortran step 1', SCR_FLAG_CHECKPOINT, error)
    call must(error == SCR_SUCCESS, 'SCR_START_OUTPUT')
    call SCR_ROUTE_FILE(file, path, error)
    call must(error == SCR_SUCCESS, 'SCR_ROUTE_FILE')
    open(newunit=unit, file=trim(path), form='unformatted', access='stream', status='replace')
    do i = 1, 1000
      write(unit) i * (rank + 3)
    end do
    close(unit)
    call SCR_COMPLETE_OUTPUT(1, error)
    call must(error == SCR_SUCCESS, 'SCR_COMPLETE_OUTPUT')
    call SCR_FLUSH_PROGRESS('fortran step 1', done, total, error)
    call must(error == SCR_SUCCESS .and. done == 0 .and. total == 4000, 'SCR_FLUSH_PROGRESS before')
    call SCR_FLUSH_WAIT('fortran step 1', error)
    call must(error == SCR_SUCCESS, 'SCR_FLUSH_WAIT')
    call SCR_FLUSH_PROGRESS('fortran step 1', done, total, error)
    call must(error == SCR_SUCCESS .and. done == 4000 .and. total == 4000, 'SCR_FLUSH_PROGRESS after')
    call SCR_FLUSH_WAIT(' ', error)
    call must(error == SCR_SUCCESS, 'SCR_FLUSH_WAIT for all')
    call checkpoint_of_old_program(rank)
  else
    call SCR_HAVE_RESTART(flag, name, error)
    call must(error == SCR_SUCCESS .and. flag == 1, 'SCR_HAVE_RESTART')
    call must(trim(name) == 'scr.dataset.2', 'the name of the checkpoint')
    call SCR_START_RESTART(name, error)
    call must(error == SCR_SUCCESS, 'SCR_START_RESTART')
    call SCR_ROUTE_FILE(file, path, error)
    call must(error == SCR_SUCCESS, 'SCR_ROUTE_FILE at restart')
    good = .true.
    open(newunit=unit, file=trim(path), form='unformatted', access='stream', status='old')
    do i = 1, 1000
      read(unit) value
      good = good .and. value == i * (rank + 5)
    end do
    close(unit)
    call must(good, 'the bytes of the checkpoint')
    call SCR_COMPLETE_RESTART(1, error)
    call must(error == SCR_SUCCESS, 'SCR_COMPLETE_RESTART')
  end if
  call SCR_SHOULD_EXIT(flag, error)
  call must(error == SCR_SUCCESS .and. flag == 0, 'SCR_SHOULD_EXIT')
  call SCR_COMPLETE_OUTPUT(1, error)
  call must(error /= SCR_SUCCESS, 'SCR_COMPLETE_OUTPUT without a start must fail')
  call SCR_FINALIZE(error)
  call must(error == SCR_SUCCESS, 'SCR_FINALIZE')
  call MPI_Finalize(error)
  if (rank == 0) print '(a)', 'PASSED'

contains
  subroutine must(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    integer :: ignored
    if (condition) return
    print '(a,i0,2a)', 'rank ', rank, ': FAIL: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, ignored)
  end subroutine
end program

subroutine checkpoint_of_old_program(rank)
  implicit none
  include 'scrf.h'
  integer, intent(in) :: rank
  character(len=SCR_MAX_FILENAME) :: path
  character(len=32) :: file
  integer :: error, valid, unit, i
  write(file, '(a,i0,a)') 'rank_', rank, '.dat'
  call SCR_START_CHECKPOINT(error)
  if (error /= SCR_SUCCESS) error stop 'SCR_START_CHECKPOINT'
  call SCR_ROUTE_FILE(file, path, error)
  if (error /= SCR_SUCCESS) error stop 'SCR_ROUTE_FILE'
  open(newunit=unit, file=trim(path), form='unformatted', access='stream', status='replace')
  do i = 1, 1000
    write(unit) i * (rank + 5)
  end do
  close(unit)
  valid = 1
  call SCR_COMPLETE_CHECKPOINT(valid, error)
  if (error /= SCR_SUCCESS) error stop 'SCR_COMPLETE_CHECKPOINT'
end subroutine
