package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Why a document was refused, and what helps, stands on a pipe as at a terminal, and once.
//
// lnetctl 2 (1)
func TestCauseOfARefusedDocument(t *testing.T) {
	n := newCannedNode()
	n.ChangeFunc = func(api.ConfigurationChange) (api.ConfigurationChanged, error) {
		return api.ConfigurationChanged{}, &api.Fault{
			Code: api.CodeInterface, Errno: -int(syscall.ENODEV), Text: "NI tcp(eth9) cannot be brought up",
			Cause: "No interface matching 'eth9'", Remedy: "see: ip addr",
		}
	}
	file := filepath.Join(t.TempDir(), "lnet.yaml")
	if err := os.WriteFile(file, []byte("net: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := serve(t, n)
	const all = "NI tcp(eth9) cannot be brought up: No interface matching 'eth9'; see: ip addr"
	for command, want := range map[string]string{
		"import": newDocumentOf("add", "import", "-19", all), "apply": "lnetdctl: " + all + "\n", "plan": "lnetdctl: " + all + "\n",
	} {
		for _, terminal := range []bool{false, true} {
			got := runProgram(program{name: "lnetdctl", hints: terminal}, command, file, "--control-socket", socket)
			if diff := cmp.Diff(ran{"", want, 234}, got, cmp.AllowUnexported(ran{})); diff != "" {
				t.Errorf("%s, terminal %v: %s", command, terminal, diff)
			}
		}
	}
}
