/*
 * liblnet_mpi: LNet over MPI for applications in C, C++ and Fortran.
 *
 * Each rank of the application becomes a node on the LNet. It has transfer machines (TMs), which the program uses with
 * the functions of lnetd.h, as if an lnetd ran on its host: lnetd_open() gets the path that lnet_mpi_socket() returns.
 * docs/mpi.md is the guide.
 *
 * Results. A function that returns int returns 0 or a positive number, or -errno. lnet_mpi_text() returns the reason of
 * the last failure in the calling thread.
 *
 * Threads. The program must have initialized MPI with MPI_THREAD_MULTIPLE, since LNet has a thread that calls MPI at any
 * time. Any thread may call any function after lnet_mpi_init(). Only lnet_mpi_init(), lnet_mpi_finalize() and
 * lnet_mpi_route() block, and no function waits for another one.
 *
 * Fork. A child must not call any function. The library contains the runtime of Go, which has threads and installs
 * handlers for signals.
 *
 * Files. lnet_mpi_init() creates a socket in the directory that the environment variable TMPDIR names, or in /tmp, and
 * removes its file before it returns. This process reaches the socket through /proc; connections of other processes are
 * closed. So nothing stays behind if the process later ends without lnet_mpi_finalize(), for example by MPI_Abort or a
 * signal.
 */
#ifndef LNET_MPI_H
#define LNET_MPI_H

#include <lnetd.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * lnet_mpi_init starts LNet in this process. comm is MPI_Comm_c2f(c) of a communicator, in Fortran the handle of the
 * communicator itself. LNet only duplicates c, and asks MPI_COMM_WORLD for its size and the largest tag. The function is
 * collective over c, and over proxies: if these are ranks of the same job, c must be MPI_COMM_WORLD. The environment
 * variable LNET_MPI_PORT names the port of proxies that are a separate job, LNET_MPI_SPAWN the hosts of proxies that rank 0
 * starts (docs/mpi.md). It blocks until all processes have called
 * it, at most for a minute. After an error the program should call MPI_Abort. It may be called once in a process.
 *
 * Errors: -EINVAL: MPI is not initialized with MPI_THREAD_MULTIPLE, or is finalized, or the mpirun is that of another
 * library, or LNET_MPI_PORT and LNET_MPI_SPAWN are both set, or LNET_MPI_SPAWN is invalid; -EOPNOTSUPP: the MPI library
 * cannot connect jobs or start processes, which these variables need; -ENOENT: lnetd-openmpi.so or lnetd-mpich.so is neither beside the program nor in /usr/lib/lnetd; -ETIMEDOUT:
 * other processes have not followed; -EBUSY: it was called before; -EIO: MPI or the system has failed, for example to
 * create the directory of the socket. If comm is no communicator, MPI calls the error handler of MPI_COMM_WORLD, which
 * ends the program unless the program has set another one.
 */
int lnet_mpi_init(int32_t comm);

/*
 * lnet_mpi_finalize ends LNet. The program has closed its connections (lnetd_close) before, and calls MPI_Finalize
 * later. It is collective like lnet_mpi_init, and blocks until all ranks of the application have called it, at most for
 * a minute. Until then this rank answers pings. Other functions already fail with -EINVAL. Errors: -EINVAL: LNet does
 * not run; -ETIMEDOUT, -EIO: the program should call MPI_Abort.
 */
int lnet_mpi_finalize(void);

/* lnet_mpi_socket returns the path for lnetd_open(), or "" if LNet does not run. It is valid until lnet_mpi_finalize(). */
const char *lnet_mpi_socket(void);

/*
 * lnet_mpi_size returns the number of processes: ranks of the application and proxies, in the order of their ranks, and
 * proxies of a separate job last. lnet_mpi_rank returns the number of this process among them, from 0. Errors: -EINVAL:
 * LNet does not run.
 */
int lnet_mpi_size(void);
int lnet_mpi_rank(void);

/*
 * lnet_mpi_address sets nid and pid of addr to those of a process; portal and tmid are the program's to choose. It
 * returns 1 if the process is a proxy: the address is that of its lnetd. Errors: -EINVAL: no such process, or LNet does
 * not run.
 */
int lnet_mpi_address(int process, struct lnetd_addr *addr);

/*
 * lnet_mpi_route adds routes to a net, such as "tcp", through all proxies. Errors: -EINVAL: not the name of a net, or LNet
 * does not run; -ENOENT: there is no proxy; -EIO: the node has rejected the route.
 */
int lnet_mpi_route(const char *net);

/* lnet_mpi_text returns the reason of the last failure in the calling thread. It is valid until the next one. */
const char *lnet_mpi_text(void);

#ifdef __cplusplus
}
#endif

#endif
