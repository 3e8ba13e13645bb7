package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote/protocol"
)

// A domain sends the specified HELLO and has the limits in its reply.
//
// transport 9.2, 9.11
func TestHello(t *testing.T) {
	f := newFake(t, Config{Program: "a program with a name of more than 31 letters", PollTime: 1})
	d := f.open()
	want := protocol.Hello{Lowest: 1, Highest: 1, Required: protocol.FeatOverflow, Wanted: protocol.FeatPolling | protocol.FeatPosted | protocol.FeatMatchBits | protocol.FeatFutex, Program: "a program with a name of more t"}
	f.mu.Lock()
	got := *f.hello
	f.mu.Unlock()
	if got != want {
		t.Errorf("hello %+v, not %+v", got, want)
	}
	if l := d.Limits(); l.BufferSize != 1<<20 || l.SegmentSize != 4096 || l.Segments != 256 || l.DescriptorSize != fakeDescriptor {
		t.Errorf("limits %+v", l)
	}
	nids, err := d.NIDs(t.Context())
	if err != nil || len(nids) != 2 || nids[0] != fakeNID {
		t.Errorf("NIDs %v, %v", nids, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.NIDs(t.Context()); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("NIDs of a domain that is closed: %v", err)
	}
	if s := f.core.Stats(); s.Requests != 2 {
		t.Errorf("%d requests, not 2", s.Requests)
	}
}

// Without a configured name, a program has the name of its file.
func TestProgramByDefault(t *testing.T) {
	if got := New(Config{}).config.Program; got != filepath.Base(os.Args[0]) {
		t.Errorf("program %q", got)
	}
}

// If no lnetd can be reached, NewDomain fails with the errno of connect, the path of the socket, and a
// remedy.
//
// transport 3.3 (5), 9.8
func TestNoLnetd(t *testing.T) {
	dir := t.TempDir()
	listen := func(name, network string) string {
		path := filepath.Join(dir, name)
		l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return path
	}
	dead := filepath.Join(dir, "dead")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: dead, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		want  error
		words string
	}{
		{filepath.Join(dir, "nothing"), syscall.ENOENT, "start lnetd"},
		{dead, syscall.ECONNREFUSED, "no process listens"},
		{file, syscall.ECONNREFUSED, "not a socket"},
		{dir, syscall.ECONNREFUSED, "not a socket"},
		{filepath.Join(file, "s"), syscall.ENOTDIR, "not a directory"},
		{filepath.Join(dir, strings.Repeat("x", 108)), syscall.EINVAL, "at most 107"},
		{listen("control.sock", "unix"), syscall.EPROTOTYPE, "lnetdctl"},
	} {
		_, err := New(Config{Path: c.path}).Open(t.Context())
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	denied := explainDial("/p", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)})
	if !errors.Is(denied, syscall.EACCES) || !strings.Contains(denied.Error(), "group") {
		t.Error(denied)
	}
	silent := listen("silent", "unixpacket")
	end, result := begin(t, func(ctx context.Context) error {
		_, err := New(Config{Path: silent}).Open(ctx)
		return err
	})
	end()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("an lnetd that does not answer: %v", err)
	}
	for _, n := range []int{-1, protocol.MaxCompletions + 1} {
		if _, err := New(Config{Path: silent, Completions: n}).Open(t.Context()); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("rings of %d entries: %v", n, err)
		}
	}
}

// If lnetd refuses HELLO or its reply is invalid, NewDomain fails with the matching errno.
//
// transport 3.3 (5), 9.2
func TestHelloFails(t *testing.T) {
	refusal := func(errno syscall.Errno) func(h protocol.Header, r protocol.Request) []byte {
		return func(h protocol.Header, _ protocol.Request) []byte { return protocol.AppendFailure(nil, h, errno) }
	}
	altered := func(alter func(r *protocol.HelloReply)) func(h protocol.Header, r protocol.Request) []byte {
		return func(h protocol.Header, r protocol.Request) []byte {
			reply := helloReply(r.(*protocol.Hello))
			alter(reply)
			return must(t, reply, h)
		}
	}
	for _, c := range []struct {
		name   string
		answer func(h protocol.Header, r protocol.Request) []byte
		want   error
		words  string
	}{
		{"no rule", refusal(syscall.EACCES), syscall.EACCES, "no rule"},
		{"another version", refusal(syscall.EPROTO), syscall.EPROTO, "too old"},
		{"an older lnetd", refusal(syscall.EOPNOTSUPP), syscall.EOPNOTSUPP, "upgrade"},
		{"too many", refusal(syscall.EDQUOT), syscall.EDQUOT, "connections"},
		{"the wrong version", altered(func(r *protocol.HelloReply) { r.Version = 2 }), syscall.EPROTO, "too old"},
		{"features for nothing", altered(func(r *protocol.HelloReply) { r.Features = 1 << 50 }), syscall.EPROTO, "features"},
		{"no limits", altered(func(r *protocol.HelloReply) { r.Limits.Segments = 0 }), syscall.EPROTO, "segments"},
		{"nonsense", func(protocol.Header, protocol.Request) []byte { return make([]byte, 40) }, syscall.EPROTO, "magic"},
	} {
		f := newFake(t, Config{})
		f.answers(func(h protocol.Header, r protocol.Request) ([]byte, bool) { return c.answer(h, r), true })
		_, err := f.core.Open(t.Context())
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), f.path) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.name, err)
		}
		<-f.over
	}
	f := newFake(t, Config{})
	f.answers(func(protocol.Header, protocol.Request) ([]byte, bool) { f.die(); return nil, true })
	if _, err := f.core.Open(t.Context()); !errors.Is(err, syscall.EPIPE) || !strings.Contains(err.Error(), "at once") {
		t.Errorf("an lnetd that closes: %v", err)
	}
}

// The default socket is in the directory of lnetd's other sockets.
func TestFindSocket(t *testing.T) {
	if systemDir != api.SystemRunDir {
		t.Errorf("root's sockets are in %s, not in %s", api.SystemRunDir, systemDir)
	}
	system, xdg, tmp := t.TempDir(), t.TempDir(), t.TempDir()
	expect := func(uid int, xdg, want string) {
		t.Helper()
		if got := findSocket(system, uid, xdg, tmp); got != filepath.Join(want, SocketName) {
			t.Errorf("user %d: %s, not in %s", uid, got, want)
		}
	}
	expect(0, xdg, system)
	expect(1000, xdg, filepath.Join(xdg, "lnetd"))
	expect(1000, "", filepath.Join(tmp, "lnetd-1000"))
	expect(1000, "relative", filepath.Join(tmp, "lnetd-1000"))
	if err := os.WriteFile(filepath.Join(system, SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(1000, xdg, system)
	if err := os.Mkdir(filepath.Join(xdg, "lnetd"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(xdg, "lnetd", SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(1000, xdg, filepath.Join(xdg, "lnetd"))
	t.Setenv("XDG_RUNTIME_DIR", "")
	if got := filepath.Dir(FindSocket()); got != api.RunDir() && got != api.SystemRunDir {
		t.Errorf("the socket is in %s, the others in %s", got, api.RunDir())
	}
}

// Given a process that may open no more files, or too few, when a TM is started, then StartTM returns EMFILE.
// lnetd has stopped the TM, no file remains open, and the domain works.
//
// transport 9.2
func TestTooManyFiles(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	setLimit := func(n uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: limit.Max}); err != nil {
			t.Error(err)
		}
	}
	defer setLimit(limit.Cur)
	f := newFake(t, Config{})
	d := f.open()
	if _, err := d.NIDs(t.Context()); err != nil { // from here on the fake uses the same files
		t.Fatal(err)
	}
	before := openFiles(t)
	for spare := range 3 {
		fd := mustFD(t) // the lowest number that is free
		_ = unix.Close(fd)
		f.mu.Lock()
		f.sending = sync.OnceFunc(func() { setLimit(uint64(fd + spare)) })
		f.mu.Unlock()
		_, err := d.StartTM(t.Context(), transport.Address{NID: fakeNID, PID: lnet.PIDLustre, Portal: 34, TMID: 5}, 32)
		setLimit(limit.Cur)
		if !errors.Is(err, syscall.EMFILE) {
			t.Errorf("with %d spare files: %v", spare, err)
		}
		if n := f.count(protocol.OpTMStop); n != spare+1 {
			t.Errorf("%d TMs were stopped, not %d", n, spare+1)
		}
		if n := openFiles(t); n != before {
			t.Errorf("%d files are open, not %d", n, before)
		}
	}
	f.mu.Lock()
	f.sending = nil
	f.mu.Unlock()
	f.start(d)
}

// openFiles returns the number of open files of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
