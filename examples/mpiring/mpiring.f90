! mpiring passes a number around all ranks of an MPI application, with LNet over MPI. Each rank adds its own number.
!
!     mpifort mpiring.f90 -o mpiring -llnet_mpi -llnetd
!     mpirun -n 4 mpiring
!
! The ranks use MPI_COMM_WORLD for themselves, and LNet a duplicate of it. Proxies, if there are any, are a separate job.
module lnet
  use, intrinsic :: iso_c_binding
  implicit none

  ! A constant and the structures of lnetd.h.
  integer(c_int32_t), parameter :: lnetd_final = 1

  type, bind(c) :: lnetd_addr
    integer(c_int8_t) :: nid(20)
    integer(c_int32_t) :: pid, portal, tmid
  end type

  type, bind(c) :: iovec
    type(c_ptr) :: base
    integer(c_size_t) :: length
  end type

  type, bind(c) :: lnetd_event
    type(c_ptr) :: buffer, data
    integer(c_int32_t) :: type, flags, status, offset, length, zero
    integer(c_int64_t) :: time
    type(lnetd_addr) :: peer
    integer(c_int64_t) :: reserved(6)
  end type

  interface
    ! Functions of lnet_mpi.h.
    integer(c_int) function lnet_mpi_init(comm) bind(c)
      import
      integer(c_int32_t), value :: comm
    end function
    integer(c_int) function lnet_mpi_finalize() bind(c)
      import
    end function
    type(c_ptr) function lnet_mpi_socket() bind(c)
      import
    end function
    integer(c_int) function lnet_mpi_address(process, addr) bind(c)
      import
      integer(c_int), value :: process
      type(lnetd_addr), intent(inout) :: addr
    end function
    type(c_ptr) function lnet_mpi_text() bind(c)
      import
    end function

    ! Functions of lnetd.h.
    integer(c_int) function lnetd_open(d, path, program, flags) bind(c)
      import
      type(c_ptr), intent(out) :: d
      type(c_ptr), value :: path, program
      integer(c_int), value :: flags
    end function
    subroutine lnetd_close(d) bind(c)
      import
      type(c_ptr), value :: d
    end subroutine
    integer(c_int) function lnetd_alloc(d, size, memory) bind(c)
      import
      type(c_ptr), value :: d
      integer(c_size_t), value :: size
      type(c_ptr), intent(out) :: memory
    end function
    integer(c_int) function lnetd_register(d, ranges, n, data, buffer) bind(c)
      import
      type(c_ptr), value :: d, data
      type(iovec), intent(in) :: ranges(*)
      integer(c_int), value :: n
      type(c_ptr), intent(out) :: buffer
    end function
    integer(c_int) function lnetd_tm_start(d, addr, completions, tm) bind(c)
      import
      type(c_ptr), value :: d
      type(lnetd_addr), intent(in) :: addr
      integer(c_int32_t), value :: completions
      type(c_ptr), intent(out) :: tm
    end function
    integer(c_int) function lnetd_recv(tm, buffer, longest, messages) bind(c)
      import
      type(c_ptr), value :: tm, buffer
      integer(c_int32_t), value :: longest, messages
    end function
    integer(c_int) function lnetd_send(tm, buffer, length, to) bind(c)
      import
      type(c_ptr), value :: tm, buffer
      integer(c_int32_t), value :: length
      type(lnetd_addr), intent(in) :: to
    end function
    integer(c_int) function lnetd_sync(tm, milliseconds) bind(c)
      import
      type(c_ptr), value :: tm
      integer(c_int), value :: milliseconds
    end function
    integer(c_int) function lnetd_events(tm, events, most) bind(c)
      import
      type(c_ptr), value :: tm
      type(lnetd_event), intent(inout) :: events(*)
      integer(c_int), value :: most
    end function
    integer(c_int) function lnetd_wait(tm, milliseconds) bind(c)
      import
      type(c_ptr), value :: tm
      integer(c_int), value :: milliseconds
    end function
    type(c_ptr) function lnetd_text() bind(c)
      import
    end function
    type(c_ptr) function lnetd_strerror(status) bind(c)
      import
      integer(c_int), value :: status
    end function

    ! Of the C library.
    integer(c_size_t) function strlen(s) bind(c)
      import
      type(c_ptr), value :: s
    end function
  end interface
end module

program mpiring
  use, intrinsic :: iso_fortran_env, only: error_unit
  use lnet
  use mpi
  implicit none
  integer, parameter :: bytes = 4, patience = 60000 ! milliseconds
  integer :: rank, ranks, level, error
  type(c_ptr) :: d, tm, in, out, memory
  integer(c_int32_t), pointer :: numbers(:) ! what is received, and what is sent
  type(lnetd_addr) :: self, next
  character(18, c_char), target :: no_event = 'no event has come' // c_null_char

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, level, error)
  call check(lnet_mpi_init(MPI_COMM_WORLD), 'init', lnet_mpi_text())
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  self = address(rank)
  next = address(mod(rank + 1, ranks))
  call check(lnetd_open(d, lnet_mpi_socket(), c_null_ptr, 0), 'open', lnetd_text())
  call check(lnetd_tm_start(d, self, 0, tm), 'start', lnetd_text())
  call check(lnetd_alloc(d, 2_c_size_t * bytes, memory), 'alloc', lnetd_text())
  call c_f_pointer(memory, numbers, [2])
  call check(lnetd_register(d, [iovec(c_loc(numbers(1)), bytes)], 1, c_null_ptr, in), 'register', lnetd_text())
  call check(lnetd_register(d, [iovec(c_loc(numbers(2)), bytes)], 1, c_null_ptr, out), 'register', lnetd_text())
  call check(lnetd_recv(tm, in, bytes, 1), 'receive', lnetd_text())
  call check(lnetd_sync(tm, patience), 'receive', lnetd_text())
  call MPI_Barrier(MPI_COMM_WORLD, error) ! a message that finds no buffer is lost
  if (rank == 0) then
    numbers(2) = 0
    call check(lnetd_send(tm, out, bytes, next), 'send', lnetd_text())
    call await(2) ! the send and the receive
    print '(a,i0)', 'the sum of all ranks is ', numbers(1)
  else
    call await(1) ! the receive
    numbers(2) = numbers(1) + rank
    call check(lnetd_send(tm, out, bytes, next), 'send', lnetd_text())
    call await(1) ! the send
  end if
  call lnetd_close(d)
  call check(lnet_mpi_finalize(), 'finalize', lnet_mpi_text())
  call MPI_Finalize(error)

contains

  ! check ends the program if result is an error. reason is a string of C.
  subroutine check(result, what, reason)
    integer(c_int), intent(in) :: result
    character(*), intent(in) :: what
    type(c_ptr), intent(in) :: reason
    character(c_char), pointer :: text(:)
    if (result >= 0) return
    call c_f_pointer(reason, text, [strlen(reason)])
    write (error_unit, '(*(a))') 'mpiring: ', what, ': ', text
    flush (error_unit)
    call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine

  ! address returns the address of the transfer machine of a process.
  type(lnetd_addr) function address(process)
    integer, intent(in) :: process
    address%portal = 34
    address%tmid = 7
    call check(lnet_mpi_address(process, address), 'address', lnet_mpi_text())
  end function

  ! await waits until operations have ended. Events of a send and of a receive may come in any order.
  subroutine await(operations)
    integer, intent(in) :: operations
    type(lnetd_event) :: e(1)
    integer(c_int) :: n
    integer :: ended
    ended = 0
    do while (ended < operations)
      n = lnetd_events(tm, e, 1)
      call check(n, 'events', lnetd_text())
      if (n == 0) then
        if (lnetd_wait(tm, patience) /= 1) call check(-1, 'wait', c_loc(no_event))
        cycle
      end if
      call check(e(1)%status, 'operation', lnetd_strerror(e(1)%status))
      if (iand(e(1)%flags, lnetd_final) /= 0) ended = ended + 1
    end do
  end subroutine
end program
