package hosting

import (
	"bufio"
	"context"
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// forkSize is the size of a forker's area.
const forkSize = 1 << 16

// fork creates a child that shares all descriptors and mappings of its parent. The child waits for
// a byte from go, writes a mark to memory, sends a record, writes a line to told when it has an
// answer, waits for another byte, and exits. It has one thread, which must not use the Go runtime.
//
//go:norace
//go:nosplit
func fork(goFD, toldFD, conn uintptr, mark *byte, record, answer *byte, size, room uintptr) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		return pid, errno
	}
	one := [2]byte{'n', '\n'}
	if n, _, _ := syscall.RawSyscall(unix.SYS_READ, goFD, uintptr(unsafe.Pointer(&one)), 1); n == 1 {
		*mark = 'x'
		one[0] = 'n'
		if n, _, _ := syscall.RawSyscall(unix.SYS_WRITE, conn, uintptr(unsafe.Pointer(record)), size); n == size {
			if n, _, e := syscall.RawSyscall(unix.SYS_READ, conn, uintptr(unsafe.Pointer(answer)), room); e == 0 && n == size {
				one[0] = 'y'
			}
		}
		_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, toldFD, uintptr(unsafe.Pointer(&one)), 2)
		_, _, _ = syscall.RawSyscall(unix.SYS_READ, goFD, uintptr(unsafe.Pointer(&one)), 1)
	}
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// beForker has a TM and an area, and forks. The child has its standard input and output, and runs
// fork.
func beForker(_ context.Context, o order, _ *bufio.Scanner) error {
	p, err := rawJoin(o.Socket, o.Role)
	if err != nil {
		return err
	}
	_, m, _, err := p.share(forkSize)
	if err != nil {
		return err
	}
	if _, err := p.start(o.At, 16); err != nil {
		return err
	}
	record, err := protocol.AppendRequest(nil, 99, &protocol.Nop{Data: []byte("child")})
	if err != nil {
		return err
	}
	answer := make([]byte, 4096)
	c, err := p.conn.File() // in blocking mode, as the child needs it
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(int(c.Fd()), false); err != nil {
		return err
	}
	pid, errno := fork(0, 1, c.Fd(), &m.Bytes()[0], &record[0], &answer[0], uintptr(len(record)), uintptr(len(answer)))
	if errno != 0 {
		return errno
	}
	fmt.Println("up", pid)
	select {}
}

// A forked child keeps its parent's connection and all resources of the parent open. When the
// parent is killed, nothing is released. The child can still send requests and use the memory. When
// the child exits, everything is released.
//
// transport 8.5, 9.10
func TestFork(t *testing.T) {
	d := launch(t, settings{host: 1})
	at := d.nid + ":12345:34:7"
	before := d.figures()
	g := begin(t, order{Role: "forker", Socket: d.socket, At: at})
	var child int
	if _, err := fmt.Sscan(g.Expect("up"), &child); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	taken := func() error {
		p, err := rawJoin(d.socket, "other")
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		r, err := p.start(at, 16)
		if err == nil {
			r.close()
		}
		return err
	}
	if err := taken(); err == nil {
		t.Error("the address is free though the child has the connection")
	}
	if n := d.pids()[g.PID()]; n != 1 {
		t.Errorf("the parent has %d connections", n)
	}
	if _, err := g.Stdin.Write([]byte{'g'}); err != nil {
		t.Fatal(err)
	}
	g.Expect("y")
	if _, err := g.Stdin.Write([]byte{'g'}); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the child has ended, and all is free", func() bool { return d.pids()[g.PID()] == 0 })
	within(t, patience, "the address is free", func() bool { return taken() == nil })
	d.wantUnchanged(before)
	d.wantHealthy()
}
