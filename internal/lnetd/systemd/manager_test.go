package systemd

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// heard records the notifications to a manager.
type heard struct {
	messages []string
	err      error
}

func (h *heard) send(message string, _ []*os.File) error {
	h.messages = append(h.messages, message)
	return h.err
}

// take returns the notifications since the last call, without parts that vary.
func (h *heard) take() []string {
	list := h.messages
	h.messages = nil
	for k, s := range list {
		if before, _, ok := strings.Cut(s, "MONOTONIC_USEC="); ok {
			_, after, _ := strings.Cut(s[len(before):], "\n")
			list[k] = before + "MONOTONIC_USEC=...\n" + after
		}
	}
	return list
}

func expect(t *testing.T, h *heard, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, h.take()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// A service starts, reloads and ends in this order. A state is not sent twice.
func TestLife(t *testing.T) {
	h := &heard{}
	m := New(Config{Send: h.send})
	m.Status("starting")
	m.Status("starting")
	m.Starting(2*time.Minute, "starting")
	expect(t, h, "STATUS=starting", "EXTEND_TIMEOUT_USEC=120000000")
	m.Ready("2 up")
	m.Ready("2 up")
	m.Starting(time.Minute, "starting")
	expect(t, h, "READY=1\nSTATUS=2 up")
	m.Reloading("reads")
	m.Status("1 up")
	m.Reloaded("1 up")
	expect(t, h, "RELOADING=1\nMONOTONIC_USEC=...\nSTATUS=reads", "STATUS=1 up", "READY=1")
	m.Alive()
	expect(t, h, "WATCHDOG=1")
	m.Stopping(90*time.Second, "stopping")
	m.Stopping(time.Second, "again")
	expect(t, h, "STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000\nSTATUS=stopping")
}

// The notification of the end of a reload is the same as that of the end of a start. A reload that
// begins before the service is up, or while it ends, sends none. Of two simultaneous reloads the
// last end counts.
func TestReloadAtOtherTimes(t *testing.T) {
	h := &heard{}
	m := New(Config{Send: h.send})
	m.Reloading("early")
	m.Reloaded("bad")
	expect(t, h, "STATUS=early", "STATUS=bad")
	m.Reloading("")
	m.Ready("up")
	m.Reloaded("up")
	expect(t, h, "READY=1\nSTATUS=up", "READY=1")
	m.Reloading("one")
	m.Reloading("two")
	m.Reloaded("one through")
	m.Reloaded("up")
	expect(t, h, "RELOADING=1\nMONOTONIC_USEC=...\nSTATUS=one", "STATUS=two", "STATUS=one through", "READY=1\nSTATUS=up")
	m.Reloading("reads")
	h.take()
	m.Stopping(time.Second, "down")
	m.Reloaded("up")
	m.Status("up")
	expect(t, h, "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000\nSTATUS=down")
}

// A status is one line of text of limited length.
func TestStatusIsOneLine(t *testing.T) {
	h := &heard{}
	m := New(Config{Send: h.send})
	m.Status("a\nREADY=1\n  b\xff")
	m.Status(strings.Repeat("ä", statusMax))
	expect(t, h, "STATUS=a READY=1 b?", "STATUS="+strings.Repeat("ä", statusMax/2)+"...")
}

// Without a manager, or with one that does not listen, the service continues. The latter is logged.
func TestNobody(t *testing.T) {
	m := New(Config{Watchdog: time.Second, Keeps: true})
	m.Ready("up")
	m.Alive()
	m.Drop("x")
	if m.Present() || m.Watchdog() != 0 || m.Keep("x", os.Stdin) || len(m.Kept("x")) > 0 {
		t.Error("there is somebody")
	}
	log, h := &daemontest.Log{}, &heard{err: errors.New("connection refused")}
	deaf := New(Config{
		Send: h.send, Keeps: true, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	deaf.Ready("up")
	for range 10 {
		deaf.Alive()
	}
	if n := strings.Count(log.String(), "cannot notify systemd"); n != 1 {
		t.Errorf("%d lines: %s", n, log)
	}
	if deaf.Keep("x", os.Stdin) || !strings.Contains(log.String(), "connection refused") {
		t.Error(log)
	}
	h.take()
	h.err = nil
	deaf.Status("up")
	expect(t, h, "STATUS=up")
}

// Since version 254 systemd reports whether it has a store. Earlier versions have one if systemd
// has started the process.
func TestStoreIsThere(t *testing.T) {
	for want, list := range map[bool][]map[string]string{
		true:  {{"FDSTORE": "16"}, {"SYSTEMD_EXEC_PID": "7"}},
		false: {{}, {"FDSTORE": "0", "SYSTEMD_EXEC_PID": "7"}, {"FDSTORE": "x"}, {"SYSTEMD_EXEC_PID": "8"}},
	} {
		for _, env := range list {
			if got := storeIsThere(func(name string) string { return env[name] }, 7); got != want {
				t.Errorf("%v: %v", env, got)
			}
		}
	}
}

// Files are returned by name. Files that are not requested are closed, and removed from the store
// if they were kept.
func TestFiles(t *testing.T) {
	h := &heard{}
	open := func(name string) *os.File {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return os.NewFile(uintptr(fd), name)
	}
	files := []*os.File{open("control"), open("kept-control"), open("kept-metrics"), open("LISTEN_FD_6")}
	m := New(Config{Send: h.send, Files: files, Keeps: true})
	if got := m.Passed("control"); len(got) != 1 || got[0] != files[0] || m.Passed("control") != nil {
		t.Errorf("control: %v", got)
	}
	if got := m.Kept("control"); len(got) != 1 || got[0] != files[1] {
		t.Errorf("kept: %v", got)
	}
	if diff := cmp.Diff([]string{"LISTEN_FD_6"}, m.CloseRest()); diff != "" {
		t.Error(diff)
	}
	expect(t, h, "FDSTOREREMOVE=1\nFDNAME=kept-metrics", "BARRIER=1")
	for k, f := range files {
		if err := f.Close(); (err == nil) != (k < 2) {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}

// Notifications are sent to a socket in the form that systemd expects, with files.
func TestSendToASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("FDSTORE", "4")
	t.Setenv("WATCHDOG_USEC", "3000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	m := FromEnvironment(nil)
	if !m.Present() || m.Watchdog() != 3*time.Second {
		t.Errorf("present %v, watchdog %v", m.Present(), m.Watchdog())
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if !m.Keep("pipe", w) {
		t.Fatal("it is not kept")
	}
	_ = w.Close()
	message, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, nr, _, _, err := conn.ReadMsgUnix(message, rights)
	if err != nil || string(message[:n]) != "FDSTORE=1\nFDNAME=kept-pipe" {
		t.Fatalf("%q, %v", message[:n], err)
	}
	list, err := unix.ParseSocketControlMessage(rights[:nr])
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("%v, %v", fds, err)
	}
	kept := os.NewFile(uintptr(fds[0]), "kept")
	if _, err := kept.WriteString("x"); err != nil {
		t.Error(err)
	}
	_ = kept.Close()
	b := make([]byte, 1)
	if _, err := r.Read(b); err != nil || b[0] != 'x' {
		t.Errorf("through the kept pipe: %q, %v", b, err)
	}
}

// Drop waits until the manager has done it. The manager shows that by closing the descriptor that
// it got with BARRIER=1.
func TestDropWaits(t *testing.T) {
	var barrier *os.File
	asked := make(chan struct{})
	m := New(Config{Send: func(message string, files []*os.File) error {
		if message == "BARRIER=1" {
			err := withFDs(files, nil, func(fds []int) error {
				fd, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 3)
				barrier = os.NewFile(uintptr(fd), "barrier")
				return err
			})
			close(asked)
			return err
		}
		return nil
	}})
	dropped := make(chan struct{})
	go func() { m.Drop("x"); close(dropped) }()
	<-asked
	select {
	case <-dropped:
		t.Error("it does not wait")
	default:
	}
	_ = barrier.Close()
	<-dropped
}

// The socket must be of the kind that the unit is expected to have. Otherwise the error names that
// kind.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	file := func(l interface{ File() (*os.File, error) }, err error) *os.File {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	files := map[string]*os.File{
		"unix":       file(net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/a"})),
		"unixpacket": file(net.ListenUnix("unixpacket", &net.UnixAddr{Name: dir + "/b", Net: "unixpacket"})),
		"tcp":        file(net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})),
		"udp":        file(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})),
	}
	for k, fits := range map[Kind]string{UnixStream: "unix", UnixPacket: "unixpacket", TCP: "tcp"} {
		for name, f := range files {
			err := k.Check(f)
			if (err == nil) != (name == fits) {
				t.Errorf("%s as %s: %v", name, k.Line(), err)
			}
			if err != nil && (!errors.Is(err, unix.EPROTOTYPE) || !strings.Contains(err.Error(), k.Line())) {
				t.Errorf("%s as %s: %v", name, k.Line(), err)
			}
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	connected, other := os.NewFile(uintptr(pair[0]), ""), os.NewFile(uintptr(pair[1]), "")
	defer func() { _, _ = connected.Close(), other.Close() }()
	if err := UnixStream.Check(connected); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a connection: %v", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if err := TCP.Check(null); !errors.Is(err, unix.ENOTSOCK) {
		t.Errorf("a file: %v", err)
	}
}
