package shared

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A test that needs another process runs this binary again, with the name of a function in others in the
// environment, and descriptors from 3 on.
const otherName = "SHARED_TEST_OTHER"

var others = map[string]func(){
	"echo":       func() { echo(false) },
	"echo spin":  func() { echo(true) },
	"plain":      func() { plainEcho(false) },
	"plain spin": func() { plainEcho(true) },
}

func TestMain(m *testing.M) {
	if other := others[os.Getenv(otherName)]; other != nil {
		other()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// startOther starts another process with descriptors, which are closed in this one. The process ends with
// the test.
func startOther(tb testing.TB, name string, fds ...int) *exec.Cmd {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherName+"="+name)
	cmd.Stderr = os.Stderr
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		defer finish(tb, f)
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// format is that of the ring files of tests. The first four bytes of an entry are a number.
var format = Format{Submission: 128, Completion: 64}

// put puts an entry with the number n. It returns false if the ring is full.
func put(p *Producer, n uint32) (bool, error) {
	b, err := p.Slot()
	if b == nil {
		return false, err
	}
	clear(b)
	binary.LittleEndian.PutUint32(b, n)
	p.Advance()
	return true, nil
}

// next removes the next entry, and returns its number.
func next(c *Consumer) (n uint32, ok bool, err error) {
	var b [128]byte
	ok, err = c.Read(b[:c.size])
	return binary.LittleEndian.Uint32(b[:]), ok, err
}

// newPair returns both ends of a new ring file, in this process, with separate mappings.
func newPair(tb testing.TB, submissions, completions int) (*Host, *Client) {
	tb.Helper()
	h, files := newHost(tb, submissions, completions)
	c, err := format.Attach(files)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { finish(tb, c) })
	return h, c
}

func newHost(tb testing.TB, submissions, completions int) (*Host, Files) {
	tb.Helper()
	h, files, err := format.Create(Sizes{Submissions: submissions, Completions: completions})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { finish(tb, h) })
	return h, files
}

// finish closes all, and fails the test if one of them returns an error.
func finish(tb testing.TB, all ...io.Closer) {
	tb.Helper()
	for _, c := range all {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	}
}

// open returns the number of descriptors of this process.
func open(tb testing.TB) int {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(all)
}

// fataler is a testing.TB or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// must returns v, or fails the test if there is an error.
func must[T any](tb fataler) func(v T, err error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// memfd returns a memfd of size bytes with the given seals.
func memfd(tb testing.TB, flags int, size int64, seals int) int {
	tb.Helper()
	fd := must[int](tb)(unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags))
	if err := unix.Ftruncate(fd, size); err != nil {
		tb.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		tb.Fatal(err)
	}
	return fd
}

// shut closes a descriptor that the test has created.
func shut(fd int) { _ = unix.Close(fd) }

func checkField(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, errInvalidRing) || !strings.HasPrefix(err.Error(), "ring file: "+want+" ") {
		t.Errorf("%v, want one about %s", err, want)
	}
}
