package hosting

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// clientLibrary is liblnetd, and programs of testdata that are compiled with it.
type clientLibrary struct {
	mu       sync.Mutex // guards the rest
	dir      string
	programs map[string]error // by path
}

var library clientLibrary

// compile compiles the library, and a program of testdata, unless it has done so before, and returns the path
// of the program.
func (l *clientLibrary) compile(t testing.TB, source string) string {
	t.Helper()
	testenv.NeedCommand(t, "gcc", "gcc")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == "" {
		dir, err := os.MkdirTemp("", "liblnetd")
		if err != nil {
			t.Fatal(err)
		}
		l.dir, l.programs = dir, make(map[string]error)
	}
	path := filepath.Join(l.dir, strings.TrimSuffix(source, ".c"))
	compiler := exec.Command("gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"+l.dir, "-I../../client/c/testdata",
		"-o", path, "testdata/"+source, filepath.Join(l.dir, "liblnetd.a"))
	for _, c := range []*exec.Cmd{exec.Command("../../client/c/build", l.dir), compiler} {
		product := c.Args[len(c.Args)-1]
		if c == compiler {
			product = path
		}
		err, known := l.programs[product]
		if !known {
			if out, e := c.CombinedOutput(); e != nil {
				err = fmt.Errorf("%w\n%s", e, out)
			}
			l.programs[product] = err
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// forget removes what was compiled.
func (l *clientLibrary) forget() {
	if l.dir != "" {
		_ = os.RemoveAll(l.dir) // created by MkdirTemp
	}
}
