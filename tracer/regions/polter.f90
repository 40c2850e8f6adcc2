! SPDX-License-Identifier: BSD-3-Clause
! Regions of a Fortran program that appear in Poltergeist's traces. Compile this file with the program; nothing is linked.
!
!     use polter
!     call polter_region_begin('solver')
!     call polter_region_end('solver')
!
! What a region is stands in polter.h. Trailing blanks do not belong to the name.
module polter
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: polter_region_begin, polter_region_end

  ! struct polter_region of polter.h
  type, bind(c) :: region_t
    type(c_ptr) :: name
    type(c_ptr) :: file
    integer(c_int) :: line
    integer(c_int) :: id
  end type

  abstract interface
    subroutine event_t(region, begins) bind(c)
      import :: region_t, c_int
      type(region_t), intent(inout) :: region
      integer(c_int), value :: begins
    end subroutine
  end interface

  interface
    function dlsym(handle, name) bind(c, name='dlsym')
      import :: c_ptr, c_funptr, c_char
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: dlsym
    end function
  end interface

  logical, volatile :: asked = .false.
  procedure(event_t), pointer :: tracer => null()

contains

  subroutine polter_region_begin(name)
    character(len=*), intent(in) :: name
    if (.not. asked) call find_tracer()
    if (associated(tracer)) call tell(name, 1_c_int)
  end subroutine

  subroutine polter_region_end(name)
    character(len=*), intent(in) :: name
    if (.not. asked) call find_tracer()
    if (associated(tracer)) call tell(name, 0_c_int)
  end subroutine

  subroutine find_tracer()
    type(c_funptr) :: found
    found = dlsym(c_null_ptr, 'polter_region_event_1'//c_null_char)
    if (c_associated(found)) call c_f_procpointer(found, tracer)
    asked = .true.
  end subroutine

  subroutine tell(name, begins)
    character(len=*), intent(in) :: name
    integer(c_int), intent(in) :: begins
    character(kind=c_char), target :: text(len_trim(name) + 1)
    type(region_t) :: region
    integer :: i
    do i = 1, len_trim(name)
      text(i) = name(i:i)
    end do
    text(len_trim(name) + 1) = c_null_char
    region = region_t(c_loc(text), c_null_ptr, 0_c_int, 0_c_int)
    call tracer(region, begins)
  end subroutine
end module
