package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lnetd": main, "guest": guestMain})
}

// The scripts test lnetd as a process.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "../lnetdctl").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: daemontest.Commands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return daemontest.Setup(env)
		},
	})
}
