! wave_native: a wave on a string, in Fortran with the native API (use scr).
!
!   wave_native STEPS CHECKPOINT_EVERY
!
! Every rank owns a part of the string and writes it to its own unformatted file at each checkpoint. Started
! again, the program goes on from the newest one. At the end the energy of the whole string is printed.
!
!   without h5scr:  SCR_ENABLE=0 mpirun -n 4 wave_native 2000 500     (no checkpoints then)
!   with h5scr:     mpirun -n 4 wave_native 2000 500
program wave_native
  use mpi
  use scr
  implicit none
  integer, parameter :: points = 1000
  double precision :: now(0:points + 1), before(0:points + 1), after(0:points + 1)
  integer :: rank, ranks, step, steps, every, error
  logical :: is_protected
  character(len=32) :: argument

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  if (command_argument_count() < 2) then
    if (rank == 0) print '(a)', 'usage: wave_native STEPS CHECKPOINT_EVERY'
    call MPI_Abort(MPI_COMM_WORLD, 2, error)
  end if
  call get_command_argument(1, argument)
  read (argument, *) steps
  call get_command_argument(2, argument)
  read (argument, *) every

  call pluck()
  step = 0
  call scr_init(error)
  is_protected = error == SCR_SUCCESS
  if (is_protected) call restart()
  do while (step < steps)
    call advance()
    step = step + 1
    if (is_protected .and. mod(step, every) == 0) call checkpoint()
  end do
  call print_energy()
  if (is_protected) call scr_finalize(error)
  call MPI_Finalize(error)

contains

  subroutine pluck()
    integer :: i
    double precision :: x
    do i = 0, points + 1
      x = dble(rank*points + i)/dble(ranks*points + 1)
      now(i) = min(x, 1 - x)
    end do
    before = now
  end subroutine

  subroutine advance()
    integer :: left, right, i
    left = merge(MPI_PROC_NULL, rank - 1, rank == 0)
    right = merge(MPI_PROC_NULL, rank + 1, rank == ranks - 1)
    call MPI_Sendrecv(now(1), 1, MPI_DOUBLE_PRECISION, left, 0, now(points + 1), 1, MPI_DOUBLE_PRECISION, &
                      right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call MPI_Sendrecv(now(points), 1, MPI_DOUBLE_PRECISION, right, 1, now(0), 1, MPI_DOUBLE_PRECISION, &
                      left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    after = now
    do i = 1, points
      after(i) = 2*now(i) - before(i) + 0.25d0*(now(i - 1) - 2*now(i) + now(i + 1))
    end do
    before = now
    now = after
  end subroutine

  character(len=64) function file_of(name)
    character(len=*), intent(in) :: name
    write (file_of, '(a,"/part.",i0)') trim(name), rank
  end function

  subroutine checkpoint()
    character(len=64) :: name
    character(len=SCR_MAX_FILENAME) :: path
    integer :: unit, status, valid
    write (name, '("wave.",i0)') step
    call scr_start_output(name, SCR_FLAG_CHECKPOINT, error)
    if (error /= SCR_SUCCESS) return
    valid = 0
    call scr_route_file(file_of(name), path, error)
    if (error == SCR_SUCCESS) then
      open (newunit=unit, file=trim(path), form='unformatted', status='replace', iostat=status)
      if (status == 0) write (unit, iostat=status) step, before, now
      if (status == 0) close (unit, iostat=status)
      if (status == 0) valid = 1
    end if
    call scr_complete_output(valid, error)
  end subroutine

  subroutine restart()
    character(len=SCR_MAX_FILENAME) :: name, path
    integer :: unit, status, have, valid
    do
      call scr_have_restart(have, name, error)
      if (error /= SCR_SUCCESS .or. have == 0) exit
      call scr_start_restart(name, error)
      valid = 0
      call scr_route_file(file_of(name), path, error)
      if (error == SCR_SUCCESS) then
        open (newunit=unit, file=trim(path), form='unformatted', status='old', iostat=status)
        if (status == 0) read (unit, iostat=status) step, before, now
        if (status == 0) valid = 1
        close (unit, iostat=status)
      end if
      call scr_complete_restart(valid, error)
      if (error == SCR_SUCCESS) then
        if (rank == 0) print '("restarted from step ",i0)', step
        return
      end if
      call pluck() ! some rank could not read its part: the next older one
      step = 0
    end do
  end subroutine

  subroutine print_energy()
    double precision :: mine, all
    mine = sum((now(1:points) - before(1:points))**2 + 0.25d0*(now(1:points) - now(0:points - 1))**2)
    call MPI_Reduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
    if (rank == 0) print '("step ",i0,": energy ",es22.15)', step, all
  end subroutine

end program
