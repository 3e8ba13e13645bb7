package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lnetperf": main})
}

// The scripts test lnetperf in one process and in several.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../lnetd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: daemontest.Commands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return daemontest.Setup(env)
		},
	})
}
