package client

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// TestTrustedOwners checks that of the sockets that the client finds by itself, only those of root
// and of the caller are trusted.
func TestTrustedOwners(t *testing.T) {
	for uid, want := range map[int]bool{0: true, os.Geteuid(): true, os.Geteuid() + 1: false, -1: false} {
		if rootsOrOwn(uid) != want {
			t.Errorf("uid %d: %v", uid, !want)
		}
	}
	if c := Find(); c.trusts == nil || c.trusts(os.Geteuid()+1) {
		t.Error("a socket that was found is trusted, whose ever it is")
	}
}

// TestDirectoryOwners checks that a directory belongs to the user it was given to by root, unless
// other users may write to it or to its parent.
func TestDirectoryOwners(t *testing.T) {
	testenv.NeedRoot(t)
	const nobody = 65534
	for _, c := range []struct {
		above, mode os.FileMode
		want        int
	}{{0o755, 0o755, nobody}, {0o755, 0o775, -1}, {0o755, 0o757, -1}, {0o777, 0o755, -1}} {
		above := t.TempDir()
		dir := filepath.Join(above, "lnetd")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, nobody, -1), os.Chmod(dir, c.mode), os.Chmod(above, c.above)); err != nil {
			t.Fatal(err)
		}
		if got := ownerOf(dir); got != c.want {
			t.Errorf("%o in %o: %d, want %d", c.mode, c.above, got, c.want)
		}
		if got := ownerOf(dir + "/none"); got != -1 {
			t.Errorf("what is not there: %d", got)
		}
	}
	if trusted(api.SystemRunDir+"/control.sock")(os.Geteuid()+1) && ownerOf(api.SystemRunDir) != os.Geteuid()+1 {
		t.Error("anybody is trusted in the system's directory")
	}
}

// answerOn answers as lnetd on a listener, and counts the requests.
func answerOn(t *testing.T, l net.Listener) (asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	serveOn(t, l, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"program":"lnetd","version":"v6.6.6"}`))
	})
	return asked
}

// TestUntrustedDaemonIsNotAsked checks that no request is sent to an untrusted daemon, and that the
// error names its owner.
func TestUntrustedDaemonIsNotAsked(t *testing.T) {
	path := filepath.Join(testenv.SocketDir(t), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	asked := answerOn(t, l)
	c := New(path)
	t.Cleanup(c.Close)
	var seen int
	c.trusts = func(uid int) bool { seen = uid; return false }
	_, err = c.Version(t.Context())
	f := wantFault(t, err, api.CodeDaemonUnreachable)
	if seen != os.Geteuid() || asked.Load() != 0 {
		t.Errorf("uid %d was judged, %d requests came", seen, asked.Load())
	}
	if f.Errno != -int(unix.EPERM) || !strings.Contains(f.Text, path) ||
		!strings.Contains(f.Cause, "uid "+strconv.Itoa(os.Geteuid())) || !strings.Contains(f.Remedy, "LNETD_CONTROL_SOCKET") {
		t.Errorf("%+v", f)
	}
}

// TestForeignDaemon checks that another user's daemon is refused if the client found the socket by
// itself, and accepted if the path was given.
func TestForeignDaemon(t *testing.T) {
	testenv.NeedRoot(t)
	const nobody = 65534
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "c.sock")
	asked := answerOn(t, listenAs(t, nobody, path))
	found, named := New(path), New(path)
	t.Cleanup(found.Close)
	t.Cleanup(named.Close)
	found.trusts = rootsOrOwn
	_, err := found.Version(t.Context())
	if f := wantFault(t, err, api.CodeDaemonUnreachable); !strings.Contains(f.Cause, "uid 65534") || asked.Load() != 0 {
		t.Errorf("%d requests came; %+v", asked.Load(), f)
	}
	if v, err := named.Version(t.Context()); err != nil || v.Version != "v6.6.6" {
		t.Errorf("%+v, %v", v, err)
	}
}

// listenAs listens as another user.
func listenAs(t *testing.T, uid uintptr, path string) net.Listener {
	t.Helper()
	var l net.Listener
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which has the other user's ID, ends with the goroutine
		const same = ^uintptr(0)
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uid, same)
		if errno != 0 {
			failed <- errno
			return
		}
		var err error
		l, err = net.Listen("unix", path)
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return l
}
