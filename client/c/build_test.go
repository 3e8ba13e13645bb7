package c

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// variant is a way to compile the library and the test programs.
type variant struct {
	name, compiler string
	flags          []string
	under          []string // a command that runs programs, with its options; usually none
}

// variants are all of them. The sanitizers end a program that does something undefined.
var variants = []variant{
	{name: "gcc", compiler: "gcc", flags: []string{"-O2"}},
	{name: "clang", compiler: "clang", flags: []string{"-O2"}},
	{name: "asan", compiler: "gcc", flags: []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}},
	{name: "tsan", compiler: "gcc", flags: []string{"-O1", "-g", "-fsanitize=thread"}},
}

var built struct {
	sync.Mutex
	dir   string
	files map[string]error // paths of what was compiled
}

func TestMain(m *testing.M) {
	if path := os.Getenv(serverPath); path != "" {
		serveUntilKilled(path)
	}
	status := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // created by MkdirTemp
	}
	os.Exit(status)
}

// compile compiles the library, and a program of testdata, and returns the path of the program. A program
// whose name ends with .cc is C++.
func (v *variant) compile(t testing.TB, source string) string {
	t.Helper()
	testenv.NeedCommand(t, v.compiler, v.compiler)
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "liblnetd")
		if err != nil {
			t.Fatal(err)
		}
		built.dir, built.files = dir, make(map[string]error)
	}
	dir := filepath.Join(built.dir, v.name)
	library := v.once(dir, func() *exec.Cmd {
		c := exec.Command("./build", dir)
		c.Env = append(os.Environ(), "CC="+v.compiler, "CFLAGS="+strings.Join(v.flags, " "))
		return c
	})
	program := filepath.Join(dir, strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)))
	if library == nil {
		library = v.once(program, func() *exec.Cmd {
			language := []string{v.compiler, "-std=c11"}
			if filepath.Ext(source) == ".cc" {
				language = []string{strings.NewReplacer("gcc", "g++", "clang", "clang++").Replace(v.compiler), "-std=c++17"}
			}
			args := slices.Concat(language, []string{"-Wall", "-Wextra", "-Werror", "-pthread", "-I" + dir, "-Isrc"}, v.flags,
				[]string{"-o", program, source, filepath.Join(dir, "liblnetd.a")})
			return exec.Command(args[0], args[1:]...)
		})
	}
	if library != nil {
		t.Fatal(library)
	}
	return program
}

// once runs a command that makes a file, unless it was run before.
func (v *variant) once(file string, command func() *exec.Cmd) error {
	err, known := built.files[file]
	if !known {
		if out, e := command().CombinedOutput(); e != nil {
			err = fmt.Errorf("%s: %w\n%s", v.name, e, out)
		}
		built.files[file] = err
	}
	return err
}

// program is a running program.
type program struct {
	*exec.Cmd
	out, complaints bytes.Buffer
}

// begin starts a program of testdata. The test waits for its end with finish.
func (v *variant) begin(t testing.TB, source string, arguments ...string) *program {
	t.Helper()
	command := slices.Concat(v.under, []string{v.compile(t, source)}, arguments)
	p := &program{Cmd: exec.CommandContext(t.Context(), command[0], command[1:]...)} // go test has a time limit
	p.Cmd.Stderr = &p.complaints
	return p
}

// run runs a program of testdata, which must succeed and print ok.
func (v *variant) run(t testing.TB, source string, arguments ...string) {
	t.Helper()
	p := v.begin(t, source, arguments...)
	p.Cmd.Stdout = &p.out
	if err := p.Run(); err != nil || p.complaints.Len() > 0 || p.out.String() != "ok\n" {
		t.Errorf("%s: %v\n%s%s", source, err, &p.out, &p.complaints)
	}
}

// each runs a test for each variant. With Go's race detector, which is for lnetd's side, one variant is enough.
func each(t *testing.T, test func(t *testing.T, v *variant)) {
	for i := range variants {
		if testenv.Race && i > 0 {
			return
		}
		t.Run(variants[i].name, func(t *testing.T) { test(t, &variants[i]) })
	}
}

// isSlow reports whether programs are much slower than usual.
func (v *variant) isSlow() bool { return len(v.flags) > 1 }
