package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// What is neither a regular file, a FIFO nor a character device is refused, also with --force, and stays as it is.
func TestRefusedOutputs(t *testing.T) {
	dir := testenv.SocketDir(t)
	link, socket := filepath.Join(dir, "link"), filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := os.Symlink("none", link); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		dir: "a directory", link: "a symbolic link", socket: "a socket", filepath.Join(socket, "x"): "not a directory",
	} {
		for _, force := range []bool{false, true} {
			_, err := (&program{}).create(t.Context(), name, force)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--force") {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
}

// A FIFO and a character device are written as they are, also with --force. A FIFO without a reader ends with the command.
func TestSpecialOutputs(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&program{}).create(ctx, fifo, false); !errors.Is(err, context.Canceled) {
		t.Errorf("without a reader: %v", err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	for _, name := range []string{fifo, os.DevNull} {
		for _, force := range []bool{false, true} {
			out, err := (&program{}).create(t.Context(), name, force)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.WriteString(out, "text")
			if err := errors.Join(err, out.truncate(1), out.keep()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	b := make([]byte, 8)
	if _, err := io.ReadFull(reader, b); err != nil || string(b) != "texttext" {
		t.Errorf("%q, %v", b, err)
	}
}

// A file that is replaced stays until the new one is complete. A new file is removed if it is dropped.
func TestForcedOutput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, tt := range []struct {
		force, keep bool
		want        string
	}{{false, false, ""}, {true, true, "new 1"}, {true, false, "new 1"}, {true, true, "new 3"}} {
		out, err := (&program{}).create(t.Context(), file, tt.force)
		if err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(file)
		text := map[string]string{"": "new 1", "new 1": "new 3"}[string(before)]
		if _, err := io.WriteString(out, text+" and more"); err != nil {
			t.Fatal(err)
		}
		if err := out.truncate(int64(len(text))); err != nil {
			t.Fatal(err)
		}
		if tt.keep {
			if err := out.keep(); err != nil {
				t.Fatal(err)
			}
		} else {
			out.drop()
		}
		after, _ := os.ReadFile(file)
		if string(after) != tt.want {
			t.Errorf("%+v: %q", tt, after)
		}
	}
	info, err := os.Stat(file)
	list, err2 := os.ReadDir(dir)
	if err != nil || info.Mode() != 0o600 || err2 != nil || len(list) != 1 {
		t.Errorf("%v, %v, %v, %v", info, err, list, err2)
	}
}
