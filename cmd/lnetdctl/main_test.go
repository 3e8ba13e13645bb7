package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lnetdctl": main, "lnetctl": main, "lst": main, "lnet_legacy2yaml": main})
}

// The scripts test lnetdctl with a running lnetd.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../lnetd").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	commands := daemontest.Commands()
	commands["until"] = until
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: commands,
		Setup: func(env *testscript.Env) error {
			// A program with the race detector takes an additional second to exit, and a script
			// runs dozens of them.
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return daemontest.Setup(env)
		},
	})
}
