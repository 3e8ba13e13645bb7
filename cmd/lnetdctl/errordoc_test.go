package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// The reason why a document was refused, and the remedy, are printed once, on a pipe as at a
// terminal.
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

// The number of a block of a document is printed before the errno, whether the block is invalid,
// cannot be carried out, or is a ping or a discovery that fails.
//
// lnetctl 2 (2), 11 (13)
func TestSeqNosInErrorDocuments(t *testing.T) {
	seven := int64(7)
	n := newCannedNode()
	var refusal *api.Fault
	n.ChangeFunc = func(api.ConfigurationChange) (api.ConfigurationChanged, error) {
		return api.ConfigurationChanged{}, refusal
	}
	n.ErrandsFunc = func(api.Document) ([]api.Errand, error) {
		return []api.Errand{
			{Ping: &api.PingRequest{NIDs: []string{"10.0.0.1@tcp"}}, SeqNo: &seven},
			{Discover: &api.DiscoverRequest{NIDs: []string{"10.0.0.1@"}}, SeqNo: &seven},
		}, nil
	}
	file := filepath.Join(t.TempDir(), "lnet.yaml")
	if err := os.WriteFile(file, []byte("net: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := serve(t, n)
	const numbered = "-     import:\n      seq_no: 7\n      errno: -22\n      descr: ! \""
	for _, tt := range []struct {
		refusal *api.Fault
		args    []string
		want    string
	}{
		{&api.Fault{Errno: -22, Text: "f:2: net[0]: one", SeqNo: &seven}, []string{"import", file}, "add:\n" + numbered + "f:2: net[0]: one\"\n"},
		{&api.Fault{Errno: -22, Problems: []api.Problem{{Text: "one", SeqNo: &seven}, {Text: "two"}}}, []string{"import", "--del", file},
			"del:\n" + numbered + "one\"\n-     import:\n      errno: -22\n      descr: ! \"two\"\n"},
		{nil, []string{"import", "--exec", file}, "- ping:\n  seq_no: 7\n  errno: -"},
		{nil, []string{"import", "--exec", file}, "-     discover:\n      seq_no: 7\n      errno: -22\n"},
	} {
		refusal = tt.refusal
		got := runProgram(program{name: "lnetdctl"}, append(tt.args, "--control-socket", socket)...)
		if !strings.Contains(got.stdout+got.stderr, tt.want) || got.status == exitOK {
			t.Errorf("%v: %+v, want\n%s", tt.args, got, tt.want)
		}
	}
}
