! The native API of h5scr for Fortran: `use scr`, or `include 'scrf.h'`; link with -lscrf -lscr.
!
! Every call has the arguments of its C twin (scr.h) and an error code at the end. Names are taken without
! their trailing blanks; what comes back is filled with blanks. A dataset or path that does not fit into the
! variable given for it is an error.
!
! The subroutines are external ones, so that programs with `include 'scrf.h'` link too; the module gives
! their interfaces.

module scr_c_binding
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: longest = 1024

  interface
    integer(c_int) function c_init() bind(C, name="SCR_Init")
      import :: c_int
    end function
    integer(c_int) function c_finalize() bind(C, name="SCR_Finalize")
      import :: c_int
    end function
    integer(c_int) function c_should_exit(flag) bind(C, name="SCR_Should_exit")
      import :: c_int
      integer(c_int), intent(out) :: flag
    end function
    integer(c_int) function c_route_file(name, file) bind(C, name="SCR_Route_file")
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(out) :: file(*)
    end function
    integer(c_int) function c_have_restart(flag, name) bind(C, name="SCR_Have_restart")
      import :: c_int, c_char
      integer(c_int), intent(out) :: flag
      character(kind=c_char), intent(inout) :: name(*)
    end function
    integer(c_int) function c_start_restart(name) bind(C, name="SCR_Start_restart")
      import :: c_int, c_char
      character(kind=c_char), intent(inout) :: name(*)
    end function
    integer(c_int) function c_complete_restart(valid) bind(C, name="SCR_Complete_restart")
      import :: c_int
      integer(c_int), value :: valid
    end function
    integer(c_int) function c_need_checkpoint(flag) bind(C, name="SCR_Need_checkpoint")
      import :: c_int
      integer(c_int), intent(out) :: flag
    end function
    integer(c_int) function c_start_checkpoint() bind(C, name="SCR_Start_checkpoint")
      import :: c_int
    end function
    integer(c_int) function c_complete_checkpoint(valid) bind(C, name="SCR_Complete_checkpoint")
      import :: c_int
      integer(c_int), value :: valid
    end function
    integer(c_int) function c_start_output(name, flags) bind(C, name="SCR_Start_output")
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: flags
    end function
    integer(c_int) function c_complete_output(valid) bind(C, name="SCR_Complete_output")
      import :: c_int
      integer(c_int), value :: valid
    end function
    integer(c_int) function c_current(name) bind(C, name="SCR_Current")
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_drop(name) bind(C, name="SCR_Drop")
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_delete(name) bind(C, name="SCR_Delete")
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_flush_progress(name, done, total) bind(C, name="SCR_Flush_progress")
      import :: c_int, c_char, c_long_long
      character(kind=c_char), intent(in) :: name(*)
      integer(c_long_long), intent(inout) :: done, total
    end function
    integer(c_int) function c_flush_wait(name) bind(C, name="SCR_Flush_wait")
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    type(c_ptr) function c_config(text) bind(C, name="SCR_Config")
      import :: c_ptr, c_char
      character(kind=c_char), intent(in) :: text(*)
    end function
    type(c_ptr) function c_get_version() bind(C, name="SCR_Get_version")
      import :: c_ptr
    end function
  end interface

contains

  function to_c(text) result(c_text)
    character(len=*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: c_text
    c_text = trim(text) // c_null_char
  end function

  ! Copies a C string into `text`; ierror becomes 1 if it does not fit.
  subroutine from_c(c_text, text, ierror)
    character(kind=c_char), intent(in) :: c_text(*)
    character(len=*), intent(out) :: text
    integer, intent(inout) :: ierror
    integer :: i
    text = ''
    do i = 1, longest
      if (c_text(i) == c_null_char) return
      if (i > len(text)) then
        ierror = 1
        return
      end if
      text(i:i) = c_text(i)
    end do
  end subroutine

  subroutine from_pointer(pointer, text, ierror)
    type(c_ptr), intent(in) :: pointer
    character(len=*), intent(out) :: text
    integer, intent(inout) :: ierror
    character(kind=c_char), pointer :: characters(:)
    text = ''
    if (.not. c_associated(pointer)) return
    call c_f_pointer(pointer, characters, [longest])
    call from_c(characters, text, ierror)
  end subroutine
end module

subroutine scr_init(ierror)
  use scr_c_binding
  integer, intent(out) :: ierror
  ierror = c_init()
end subroutine

subroutine scr_finalize(ierror)
  use scr_c_binding
  integer, intent(out) :: ierror
  ierror = c_finalize()
end subroutine

subroutine scr_should_exit(flag, ierror)
  use scr_c_binding
  integer, intent(out) :: flag, ierror
  integer(c_int) :: answer
  ierror = c_should_exit(answer)
  flag = answer
end subroutine

subroutine scr_route_file(name, file, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: name
  character(len=*), intent(out) :: file
  integer, intent(out) :: ierror
  character(kind=c_char) :: path(longest)
  ierror = c_route_file(to_c(name), path)
  if (ierror == 0) then
    call from_c(path, file, ierror)
  else
    file = name
  end if
end subroutine

subroutine scr_have_restart(flag, name, ierror)
  use scr_c_binding
  integer, intent(out) :: flag, ierror
  character(len=*), intent(out) :: name
  character(kind=c_char) :: text(longest)
  integer(c_int) :: answer
  text = c_null_char
  ierror = c_have_restart(answer, text)
  flag = answer
  call from_c(text, name, ierror)
end subroutine

subroutine scr_start_restart(name, ierror)
  use scr_c_binding
  character(len=*), intent(out) :: name
  integer, intent(out) :: ierror
  character(kind=c_char) :: text(longest)
  text = c_null_char
  ierror = c_start_restart(text)
  call from_c(text, name, ierror)
end subroutine

subroutine scr_complete_restart(valid, ierror)
  use scr_c_binding
  integer, intent(in) :: valid
  integer, intent(out) :: ierror
  ierror = c_complete_restart(int(valid, c_int))
end subroutine

subroutine scr_need_checkpoint(flag, ierror)
  use scr_c_binding
  integer, intent(out) :: flag, ierror
  integer(c_int) :: answer
  ierror = c_need_checkpoint(answer)
  flag = answer
end subroutine

subroutine scr_start_checkpoint(ierror)
  use scr_c_binding
  integer, intent(out) :: ierror
  ierror = c_start_checkpoint()
end subroutine

subroutine scr_complete_checkpoint(valid, ierror)
  use scr_c_binding
  integer, intent(in) :: valid
  integer, intent(out) :: ierror
  ierror = c_complete_checkpoint(int(valid, c_int))
end subroutine

subroutine scr_start_output(name, flags, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: name
  integer, intent(in) :: flags
  integer, intent(out) :: ierror
  ierror = c_start_output(to_c(name), int(flags, c_int))
end subroutine

subroutine scr_complete_output(valid, ierror)
  use scr_c_binding
  integer, intent(in) :: valid
  integer, intent(out) :: ierror
  ierror = c_complete_output(int(valid, c_int))
end subroutine

subroutine scr_current(name, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: name
  integer, intent(out) :: ierror
  ierror = c_current(to_c(name))
end subroutine

subroutine scr_drop(name, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: name
  integer, intent(out) :: ierror
  ierror = c_drop(to_c(name))
end subroutine

subroutine scr_delete(name, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: name
  integer, intent(out) :: ierror
  ierror = c_delete(to_c(name))
end subroutine

! Bytes of this rank that have reached the prefix directory, and all of them.
subroutine scr_flush_progress(name, done, total, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: name
  integer(c_long_long), intent(out) :: done, total
  integer, intent(out) :: ierror
  done = 0
  total = 0
  ierror = c_flush_progress(to_c(name), done, total)
end subroutine

! Returns when the dataset is in the prefix directory; all datasets, if the name is blank.
subroutine scr_flush_wait(name, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: name
  integer, intent(out) :: ierror
  ierror = c_flush_wait(to_c(name))
end subroutine

! The value asked for, blank if there is none.
subroutine scr_config(config, value, ierror)
  use scr_c_binding
  character(len=*), intent(in) :: config
  character(len=*), intent(out) :: value
  integer, intent(out) :: ierror
  ierror = 0
  call from_pointer(c_config(to_c(config)), value, ierror)
end subroutine

subroutine scr_get_version(version, ierror)
  use scr_c_binding
  character(len=*), intent(out) :: version
  integer, intent(out) :: ierror
  ierror = 0
  call from_pointer(c_get_version(), version, ierror)
end subroutine

module scr
  implicit none
  integer, parameter :: SCR_SUCCESS = 0
  integer, parameter :: SCR_FAILURE = 1
  integer, parameter :: SCR_MAX_FILENAME = 1024
  integer, parameter :: SCR_FLAG_NONE = 0
  integer, parameter :: SCR_FLAG_CHECKPOINT = 1
  integer, parameter :: SCR_FLAG_OUTPUT = 2

  interface
    subroutine scr_init(ierror)
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_finalize(ierror)
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_should_exit(flag, ierror)
      integer, intent(out) :: flag, ierror
    end subroutine
    subroutine scr_route_file(name, file, ierror)
      character(len=*), intent(in) :: name
      character(len=*), intent(out) :: file
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_have_restart(flag, name, ierror)
      integer, intent(out) :: flag, ierror
      character(len=*), intent(out) :: name
    end subroutine
    subroutine scr_start_restart(name, ierror)
      character(len=*), intent(out) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_complete_restart(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_need_checkpoint(flag, ierror)
      integer, intent(out) :: flag, ierror
    end subroutine
    subroutine scr_start_checkpoint(ierror)
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_complete_checkpoint(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_start_output(name, flags, ierror)
      character(len=*), intent(in) :: name
      integer, intent(in) :: flags
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_complete_output(valid, ierror)
      integer, intent(in) :: valid
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_current(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_drop(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_delete(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_flush_progress(name, done, total, ierror)
      use, intrinsic :: iso_c_binding, only: c_long_long
      character(len=*), intent(in) :: name
      integer(c_long_long), intent(out) :: done, total
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_flush_wait(name, ierror)
      character(len=*), intent(in) :: name
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_config(config, value, ierror)
      character(len=*), intent(in) :: config
      character(len=*), intent(out) :: value
      integer, intent(out) :: ierror
    end subroutine
    subroutine scr_get_version(version, ierror)
      character(len=*), intent(out) :: version
      integer, intent(out) :: ierror
    end subroutine
  end interface
end module
