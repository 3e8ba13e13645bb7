package rdmacore_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs/rdmacore"
)

// TestShimIsThin counts the lines that deal with C, without empty lines and comments. Code that cannot be
// tested without a device must stay small.
func TestShimIsThin(t *testing.T) {
	const most = 800
	files, err := filepath.Glob("*.[cgh]*")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("needs the source beside it")
	}
	lines := 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) == ".go" && (!bytes.Contains(b, []byte("\nimport \"C\"\n")) || strings.HasSuffix(name, "_test.go")) {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	t.Logf("%d lines", lines)
	if lines > most {
		t.Errorf("the shim has %d lines, at most %d are wanted", lines, most)
	}
}

// TestOpenSaysWhatIsMissing: without RDMA on the machine, in every build, the error describes what to do.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	p, err := rdmacore.Open()
	if err == nil {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		t.Skip("needs a machine without RDMA")
	}
	for cause, word := range map[error]string{
		verbs.ErrNotBuilt:  "-tags o2ib",
		verbs.ErrNoLibrary: "libibverbs1",
		verbs.ErrNoRDMA:    "rdma_ucm",
	} {
		if errors.Is(err, cause) {
			if !strings.Contains(err.Error(), word) || p != nil {
				t.Errorf("%v: without the word %q", err, word)
			}
			return
		}
	}
	t.Errorf("%v on %s", err, runtime.GOOS)
}
