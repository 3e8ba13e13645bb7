package clients

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/inproc"
	"github.com/lnetd/lnetd/transport/remote/protocol"
	"github.com/lnetd/lnetd/transport/shm"
)

// victimPath is the environment variable with the path of the socket, for a client process that this test
// binary starts.
const victimPath = "CLIENTS_TEST_VICTIM"

func TestMain(m *testing.M) {
	if path := os.Getenv(victimPath); path != "" {
		victim(path)
	}
	os.Exit(m.Run())
}

// alone is a testing.TB outside of a test.
type alone struct{ testing.TB }

func (alone) Helper()                   {}
func (alone) Cleanup(func())            {}
func (alone) Fatal(a ...any)            { panic(fmt.Sprintln(a...)) }
func (alone) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

// victim is a client with three TMs. It runs operations on all queues of each until it is killed. It
// writes to its output when it has started.
func victim(path string) {
	p := (&world{t: alone{}, path: path}).join()
	var rings []*ring
	for id := range uint32(3) {
		rings = append(rings, p.start(34, 7+id, 64))
	}
	area := p.share(1 << 20)
	var submissions [3]map[uint32]*shm.Submission
	offset := uint64(0)
	for i, r := range rings {
		submissions[i] = make(map[uint32]*shm.Submission)
		var all []shm.Submission
		for opcode, s := range good(protocol.BufRegisterReply{}, 0, rings[(i+1)%3].at) {
			b := p.register(protocol.Range{Area: area.id, Length: 4096, Offset: offset})
			offset += 4096
			s = of(s, b, 1)
			switch opcode {
			case shm.OpPassiveRecv, shm.OpPassiveSend:
				s.MatchBits = uint64(transport.MakeMatchBits(r.at.TMID, 9))
			case shm.OpMsgRecv:
				s.MaxMessages = 8
			}
			submissions[i][b.Index] = &s
			all = append(all, s)
		}
		r.submit(all...)
	}
	fmt.Println("go")
	for {
		for i, r := range rings {
			var c shm.Completion
			var again []shm.Submission
			for {
				ok, err := r.Completions.Next(&c)
				if err != nil {
					panic(err)
				}
				if !ok {
					break
				}
				if s := submissions[i][c.Buffer]; c.Final {
					s.Operation++
					again = append(again, *s)
				}
			}
			r.Completions.Release()
			if len(again) > 0 {
				r.submit(again...)
			}
		}
		runtime.Gosched()
	}
}

// holdings counts the descriptors, mapped memfds and goroutines of this process.
type holdings struct{ descriptors, mappings, goroutines int }

func held(t *testing.T) holdings {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return holdings{len(fds), strings.Count(string(maps), "/memfd:"), runtime.NumGoroutine()}
}

// noMore waits until the holdings of this process are at most those of before.
func noMore(t *testing.T, before holdings) {
	t.Helper()
	var now holdings
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if now = held(t); now.descriptors <= before.descriptors && now.mappings <= before.mappings && now.goroutines <= before.goroutines {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it has %+v, and had %+v", now, before)
		}
	}
}

// A client is killed under load. It leaves nothing behind but one log line. Its addresses can be used
// again at once, and other clients notice nothing.
//
// transport-tests P (120)
// transport 8.5, 9.9 (11), 9.10
func TestKilled(t *testing.T) {
	t.Run("Memory", func(t *testing.T) { killed(t, newWorld(t, nil)) })
	t.Run("Node", func(t *testing.T) {
		killed(t, newWorld(t, func(c *Config) { c.Core = inproc.New(startNode(t)) }))
	})
}

func killed(t *testing.T, w *world) {
	other := w.one(20, 16)
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	var before holdings
	for round := range rounds {
		lines := len(w.log.lines())
		kill(t, w.path)
		eventually(t, "one client is left", func() bool { return len(w.server.Clients()) == 1 })
		// The log is limited: only the first few have a line each.
		if got := w.log.lines()[lines:]; round < 2 && (len(got) != 1 || !strings.Contains(got[0], "tms=3 buffers=18 areas=1")) {
			t.Errorf("round %d: %q", round, got)
		}
		other.tm.submit(
			of(shm.Submission{Opcode: shm.OpMsgRecv, MinReceive: 1, MaxMessages: 1}, other.buffer, uint32(round)),
			of(shm.Submission{Opcode: shm.OpCancel}, other.buffer, uint32(round)))
		if c := other.tm.next(); c.Errno != syscall.ECANCELED || !c.Final {
			t.Errorf("%+v", c)
		}
		if round == 0 {
			before = held(t)
		}
	}
	noMore(t, before)
}

// kill starts a client, and kills it after it has run for a while.
func kill(t *testing.T, path string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimPath+"="+path)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadFull(out, make([]byte, 3))
	time.Sleep(time.Duration(rand.IntN(10_000)) * time.Microsecond) // at a random moment
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil || complaint.Len() > 0 {
		t.Fatalf("the client: %v, %s", err, complaint.Bytes())
	}
}

// A client that does not read replies is disconnected when it must read too much. It does not block
// Close.
//
// transport 9.8
func TestClientThatDoesNotRead(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.HelloTime = time.Hour })
	p := w.join()
	nop, err := protocol.AppendRequest(nil, 1, &protocol.Nop{Data: make([]byte, 16000)})
	if err != nil {
		t.Fatal(err)
	}
	c := w.client(p)
	wrote := make(chan error)
	go func() {
		var err error
		for err == nil {
			err = p.write(nop)
		}
		wrote <- err
	}()
	full := func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		return n == 0
	}
	// Its replies fill the socket. Then the hour is over.
	eventually(t, "it is gone", func() bool {
		over := false
		_ = c.conn.(*socket).raw.Control(func(fd uintptr) { over = full(fd) })
		if over {
			_ = c.conn.SetWriteDeadline(time.Unix(1, 0))
		}
		return len(w.server.Clients()) == 0
	})
	if err := <-wrote; err == nil {
		t.Error("all was read")
	}
	if lines := w.log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "does not read") {
		t.Errorf("%q", lines)
	}
}

// A client that sends nothing is disconnected, with the reason.
//
// transport 9.1
func TestNoHello(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.HelloTime = time.Millisecond })
	w.dial().cut(syscall.ETIMEDOUT, "no HELLO")
}

// An inherited listener must have the right type. Listen replaces a socket that a dead process left
// behind, but not one that is in use.
func TestListen(t *testing.T) {
	w := newWorld(t, nil)
	if _, err := Listen(w.path, -1); !isErrno(err, syscall.EADDRINUSE) {
		t.Errorf("listens twice: %v", err)
	}
	info, err := os.Stat(w.path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	stale, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	path := w.path + "2"
	if err := unix.Bind(stale, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(stale)
	l, err := Listen(path, os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	stream := listenStream(t, w.path+"3")
	if err := w.server.Serve(stream); !isErrno(err, syscall.EPROTOTYPE) {
		t.Errorf("serves a stream: %v", err)
	}
	if err := os.WriteFile(w.path+"4", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(w.path+"4", -1); !isErrno(err, syscall.EEXIST) {
		t.Errorf("listens at a file: %v", err)
	}
}
