package testenv

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Mapped maps a temporary file of size bytes into memory. cut truncates the file to a new size; after
// that, access to a page that is entirely beyond the new size is a fault (SIGBUS).
func Mapped(t testing.TB, size int) (b []byte, cut func(size int)) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	cut = func(size int) {
		t.Helper()
		if err := f.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
	}
	cut(size)
	if b, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b, cut
}
