package uplnd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/socklnd"
	"github.com/lnetd/lnetd/lnet"
)

// other names the environment variable that makes this test program the other end of a benchmark's row. Its value
// is the kind of the row. Files from descriptor 3 on, and arguments, depend on the kind. The program ends when its
// standard input does.
const other = "UPLND_TEST_OTHER"

// runOther is the other end of a row.
func runOther(kind string, args []string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	switch kind {
	case "eventfd":
		for {
			if err := errors.Join(await(3), ring(4)); err != nil {
				return err
			}
		}
	case "tcp":
		request, err1 := strconv.Atoi(args[1])
		answer, err2 := strconv.Atoi(args[2])
		conn, err3 := net.Dial("tcp", args[0])
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		return answerPlainly(conn, request, answer)
	case "socklnd":
		nid, err := lnet.ParseNID(args[0])
		if err != nil {
			return err
		}
		n := &benchNode{Upper: newUpper(), memory: make([]byte, lnet.MTU), answers: true}
		if err := n.openNative(nid); err != nil {
			return err
		}
		fmt.Println("open")
		select {}
	}
	return fmt.Errorf("kind %q", kind)
}

// startOther starts the other end of a row, and returns its standard output.
func startOther(b *testing.B, kind string, files []*os.File, args ...string) io.Reader {
	b.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), other+"="+kind)
	cmd.ExtraFiles, cmd.Stderr = files, os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return out
}

// openNative opens the node's interface over socklnd in this process.
func (n *benchNode) openNative(nid lnet.NID) error {
	d, err := socklnd.New(socklnd.UnprivilegedConfig(port))
	if err != nil {
		return err
	}
	n.iface, err = d.Open(context.Background(), lnd.Config{Net: proxied, NID: nid, Upper: n})
	return err
}

// startEcho starts a process with a node over socklnd that answers messages, and returns its NID.
func startEcho(b *testing.B, nid lnet.NID) lnet.NID {
	b.Helper()
	if _, err := fmt.Fscanln(startOther(b, "socklnd", nil, nid.String()), new(string)); err != nil {
		b.Fatal(err)
	}
	return nid
}

// await reads an eventfd, and waits for that in the kernel. ring writes it.
func await(fd int) error {
	var token [8]byte
	_, err := unix.Read(fd, token[:])
	return err
}

func ring(fd int) error {
	_, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	return err
}

// plainEventfd returns a turn of round trips with another process, through an eventfd for each direction.
func plainEventfd(b *testing.B) func() {
	b.Helper()
	var fds [2]int
	var files []*os.File
	for k := range fds {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = unix.Close(fd) })
		duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		file := os.NewFile(uintptr(duplicate), "eventfd")
		fds[k], files = fd, append(files, file)
		defer func() { _ = file.Close() }()
	}
	startOther(b, "eventfd", files)
	return func() {
		for range benchMessages {
			if err := errors.Join(ring(fds[0]), await(fds[1])); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// plainTCP returns a turn of times requests to another process over plain TCP, and of its answers. Both sizes are
// in bytes.
func plainTCP(b *testing.B, request, answer, times int) func() {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	startOther(b, "tcp", nil, l.Addr().String(), strconv.Itoa(request), strconv.Itoa(answer))
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	buf := make([]byte, lnet.MTU)
	return func() {
		for range times {
			for left := request; left > 0; left -= min(left, len(buf)) {
				if _, err := conn.Write(buf[:min(left, len(buf))]); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := io.ReadFull(conn, buf[:answer]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// answerPlainly reads requests and writes answers until the connection ends.
func answerPlainly(conn io.ReadWriter, request, answer int) error {
	buf := make([]byte, lnet.MTU)
	for {
		for left := request; left > 0; left -= min(left, len(buf)) {
			if _, err := io.ReadFull(conn, buf[:min(left, len(buf))]); err != nil {
				return err
			}
		}
		if _, err := conn.Write(buf[:answer]); err != nil {
			return err
		}
	}
}
