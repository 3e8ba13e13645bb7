package c

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
	"github.com/lnetd/lnetd/internal/testing/tmpeer"
	"github.com/lnetd/lnetd/transport/mem"
)

const examples = "../../examples/c/"

// serve starts an example that prints "ready". It runs until its input and lnetd end.
func (v *variant) serve(t *testing.T, source string, arguments ...string) (p *program, in io.WriteCloser, out *bufio.Scanner) {
	t.Helper()
	p = v.begin(t, source, arguments...)
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	out = bufio.NewScanner(r)
	expect(t, out, "ready")
	return p, in, out
}

// Given files.c for a directory, when get.cc asks for a file, then it prints its content. It also prints
// why it gets none.
func TestFileServer(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		get := v.compile(t, examples+"get.cc")
		_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
		dir := t.TempDir()
		content := strings.Repeat("content of a file\n", 10_000)
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		const address = "10.0.0.1@tcp:12345:34:7"
		server, _, _ := v.serve(t, examples+"files.c", dir, address, path)
		out, err := exec.CommandContext(t.Context(), get, "file", address, path).Output()
		if err != nil || string(out) != content {
			t.Errorf("%v, %d bytes", err, len(out))
		}
		for name, words := range map[string]string{"no file": "No such file", "../x": "Permission denied"} {
			out, err := exec.CommandContext(t.Context(), get, name, address, path).CombinedOutput()
			if err == nil || !strings.Contains(string(out), words) {
				t.Errorf("%s: %v, %q", name, err, out)
			}
		}
		kill(t, server.Cmd)
	})
}

// Given chat.c at two addresses, when a line is typed into one, then the other prints it, and both end
// when their input ends.
func TestChat(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		_, path := tmpeer.Serve(t, mem.New(mem.Config{}).Host(home))
		const a, b = "10.0.0.1@tcp:12345:34:7", "10.0.0.1@tcp:12345:34:8"
		first, firstIn, firstOut := v.serve(t, examples+"chat.c", a, b, path)
		second, secondIn, secondOut := v.serve(t, examples+"chat.c", b, a, path)
		for range 5 {
			if _, err := io.WriteString(firstIn, "hello\n"); err != nil {
				t.Fatal(err)
			}
			expect(t, secondOut, "hello")
			if _, err := io.WriteString(secondIn, "good day\n"); err != nil {
				t.Fatal(err)
			}
			expect(t, firstOut, "good day")
		}
		for p, in := range map[*program]io.WriteCloser{first: firstIn, second: secondIn} {
			if err := errors.Join(in.Close(), p.Wait()); err != nil || p.complaints.Len() > 0 {
				t.Errorf("%v\n%s", err, &p.complaints)
			}
		}
	})
}

// Given survive.c and echo.c, when lnetd is killed and started again, and later echo.c is, then survive.c
// gets all its answers.
func TestSurvive(t *testing.T) {
	each(t, func(t *testing.T, v *variant) {
		survive := v.compile(t, examples+"survive.c")
		path := filepath.Join(testenv.SocketDir(t), "s")
		const address = "10.0.0.1@tcp:12345:34:7"
		c := process(t, path)
		peer, _, _ := v.serve(t, examples+"echo.c", address, path)
		p := exec.CommandContext(t.Context(), survive, address, "4", path)
		out, err := p.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.Stderr = os.Stderr
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		expect(t, lines, "answer 1")
		kill(t, c)
		if err := peer.Wait(); err == nil {
			t.Error("echo.c ends with success")
		}
		c = process(t, path)
		peer, _, _ = v.serve(t, examples+"echo.c", address, path)
		expect(t, lines, "answer 2")
		expect(t, lines, "answer 3")
		expect(t, lines, "answer 4")
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
		kill(t, peer.Cmd)
		kill(t, c)
	})
}

// The program of the guide compiles.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile("../../docs/liblnetd.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```c\n")
	text, _, _ = strings.Cut(text, "```")
	source := filepath.Join(t.TempDir(), "guide.c")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	variants[0].compile(t, source)
}
