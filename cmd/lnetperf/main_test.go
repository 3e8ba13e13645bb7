package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lnetd/lnetd/internal/daemon/daemontest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lnetperf": main})
}

// The scripts tell what lnetperf does in one process and in several.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: daemontest.Commands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=10")
			return daemontest.Setup(env)
		},
	})
}
