package boundary

import "time"

// MPI is this process's access to an MPI library. Only Wake may be called from any goroutine. One goroutine must make
// all other calls, including those of communicators. It must be locked to its thread (runtime.LockOSThread), which must
// be the thread that opened the library.
type MPI interface {
	// Library returns the name and the version of the library, for logs.
	Library() string
	// World returns a duplicate of MPI_COMM_WORLD, or of the communicator that the program has passed. No other code
	// sends on it, its errors are returned, and the original is not changed (MPI-6). The first call creates the
	// duplicate. It is collective: it blocks until all processes have called it. Later calls return the same.
	World() (Comm, error)
	// OpenPort returns the name of a new port of this process, to which another job can connect (mpilnd MPI-17). The
	// name has no newline. The port exists until the process ends.
	OpenPort() (string, error)
	// Accept waits for a job that connects to a port of rank 0 of this job. Connect connects to the port of another
	// job. Both are collective over the communicator that World returns, and return an inter-communicator. Only the
	// port that rank 0 passes is used. They block, in C, until the other job follows, and forever if it does not,
	// because it has failed or the port does not exist any more. Connect returns an error if the name is not one of a
	// port; over Open MPI it does so in rank 0 only. An error of any of the three wraps ErrNoConnections if the library
	// cannot connect jobs.
	Accept(port string) (Comm, error)
	Connect(port string) (Comm, error)
	// Spawn starts another job, one process of a program on each of the hosts, and connects to it. It is
	// collective like Connect, and only the program that rank 0 passes is used. It blocks, in C, until the processes
	// have opened their library, and forever if they do not. It returns an error that wraps ErrNoConnections if the
	// library cannot do it. Open MPI ends the job if the program cannot be started.
	Spawn(p Program) (Comm, error)
	// Parent returns the connection with the job that has started this one by Spawn. It is collective. It returns an
	// error that wraps ErrNoParent if there is no such job. It may be called once.
	Parent() (Comm, error)
	// MaxTag returns the largest tag, at least 32767.
	MaxTag() int
	// Poll reports complete requests: it sets the first n elements of done, which must not be empty. If no request is
	// complete, it waits until one is, until Wake is called, or for the time wait, which may be 0. While it waits it
	// uses little processor time, and may find a completion some 2 ms late. Requests complete in any order, also
	// receives of messages from one process with one tag. An error means that the library cannot be used any more.
	Poll(done []Done, wait time.Duration) (n int, err error)
	// Wake ends a Poll that waits. If none waits, the next one does not wait. It does not block.
	Wake()
	// Close frees the job's own communicator and, if opening has initialized the library, finalizes it, which is collective.
	// No request may be left: receives must have been cancelled, sends must be complete, and Poll must have reported
	// both. Otherwise Close does nothing and returns an error. Inter-communicators must have been disconnected. It may block forever if another process has failed, and
	// libraries have faults there: MPICH 4.0.2 over TCP sometimes does not return. So a process that must end does not
	// wait for it without limit.
	Close() error
}

// Program is what MPI.Spawn starts.
type Program struct {
	// Path is the program's path, or a name that is found in PATH. Args are its arguments, without the name. They have
	// no zero bytes.
	Path string
	Args []string
	// Hosts are the hosts of the processes: names that mpirun knows. It is not empty. Libraries limit the length of a
	// name, Open MPI to 255 bytes.
	Hosts []string
}

// Comm is a communicator: the processes of a job, or for an inter-communicator those of another job.
type Comm interface {
	// Rank returns the rank of this process, from 0. Size returns the number of processes that it can send to: for an
	// inter-communicator those of the other group, otherwise all, including itself.
	Rank() int
	Size() int
	// Send starts to send the bytes of b to a rank, with a tag from 1 to MPI.MaxTag. b has at most 2^31-1 bytes. Poll
	// reports the completion with the ID, which no other incomplete request may have. Until then b must not
	// change. Messages from one process to another with the same tag are matched with receives in the order of the
	// calls. The receiver need not have called Receive yet, but the send may then be incomplete until it does.
	// An error means that nothing was started.
	Send(to, tag int, b []byte, id uint64) error
	// Receive starts to receive a message from a rank, or from every rank if from is Any, with a tag, into b. Poll
	// reports the completion with the ID, which no other incomplete request may have. Until then b belongs to MPI.
	// A message is matched with the first suitable receive, in the order of the calls. If it is longer than b, the
	// receive completes with ErrTruncated, and memory behind b may be overwritten: Open MPI 4.1.4 does so with long
	// messages. So b must be as long as the longest message that the peer may send. An error means that nothing was
	// started.
	Receive(from, tag int, b []byte, id uint64) error
	// Cancel cancels the receive with an ID, unless a message has been matched with it. Poll reports its completion in
	// both cases. It returns an error if no receive with the ID is incomplete.
	Cancel(id uint64) error
	// Barrier returns when all processes of the communicator have called it. Broadcast copies the bytes of b of rank
	// root to b of the others, which have the same length. Gather copies b of each rank, in the order of ranks, to
	// all, whose length is that of b times the size, in rank root; in other ranks all is nil. These calls block, in C.
	// The communicator must not be an inter-communicator.
	Barrier() error
	Broadcast(b []byte, root int) error
	Gather(b, all []byte, root int) error
	// Disconnect frees an inter-communicator. It is collective over both jobs, and blocks, in C, until all processes
	// have called it. No request of the communicator may be left.
	Disconnect() error
	// Abort ends all processes of the communicator's job with an exit status from 1 to 125, which the launcher may
	// replace by another. It does not return.
	Abort(status int)
}

// Any is the rank that stands for every rank in Comm.Receive.
const Any = -1

// Done is the completion of a request.
type Done struct {
	ID uint64
	// From, Tag and Length are those of the message, if a receive succeeded.
	From, Tag, Length int
	// Cancelled means that a receive was cancelled and has received no message.
	Cancelled bool
	// Err is the reason if the request failed.
	Err error
}
