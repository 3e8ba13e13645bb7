//go:build !race

// The programs that these tests run are built without the race detector, so .ci/run runs the tests once, without it.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
)

// Given the examples of lnetdctl(8) and lst(8), each line does its work when it is executed. The
// lines run unchanged, except for addresses of the test and a shorter time. TestEveryCommandHasHelp
// and TestEveryCommandPrintsJSON cover the examples of single commands.
func TestExamples(t *testing.T) {
	bin, scratch := t.TempDir(), t.TempDir()
	if err := daemontest.Build(bin); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("lnetdctl", filepath.Join(bin, "lst")); err != nil {
		t.Fatal(err)
	}
	port, err := daemontest.FreePort("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(scratch, "lnetd.yaml")
	if err := os.WriteFile(config, []byte("lnetd: {selftest: {enabled: true}, transport: {enabled: false}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := func(k int) string { return filepath.Join(scratch, fmt.Sprintf("%d.sock", k)) }
	for k := 2; k <= 5; k++ {
		daemontest.Run(t, daemontest.Launch{
			Name: fmt.Sprintf("127.0.0.%d", k), Programs: bin, Socket: socket(k),
			Command: []string{
				filepath.Join(bin, "lnetd"), "--config", config, "--control-socket", socket(k),
				"--net", fmt.Sprintf("127.0.0.%d@tcp", k), "--port", strconv.Itoa(port),
			},
		})
	}
	replace := strings.NewReplacer("10.0.0.[1-4]", "127.0.0.[2-3]", "10.0.0.[10-11]", "127.0.0.[4-5]", "10.0.0.1@", "127.0.0.3@", "--count 10", "--count 2")
	root := (&program{name: "lnetdctl"}).root()
	lst, _, err := root.Find([]string{lstName})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*cobra.Command{root, lst} {
		t.Run(c.Name(), func(t *testing.T) {
			script := exec.CommandContext(t.Context(), "sh", "-e", "-c", replace.Replace(c.Example))
			script.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LNETD_CONTROL_SOCKET="+socket(2))
			if out, err := script.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
