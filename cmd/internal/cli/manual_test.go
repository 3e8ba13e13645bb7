package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/cmd/internal/cli/clitest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// A page prints any text unchanged.
func TestManual(t *testing.T) {
	const help = `NAME
    p - do things

SYNOPSIS
    p [-x] 'quoted' "twice"

DESCRIPTION
    A paragraph that begins with
    .TH, and has \fBno\fP ^macro~ and a ` + "`tick'" + `.

    -x, --extra N   an option that
                    goes on
        --other     another

    key:
        - nested

        - more

EMPTY

SEE ALSO
    q(8)
`
	m := cli.NewManual("p", 8)
	m.Help(help, m.Section, "SYNOPSIS")
	path := filepath.Join(t.TempDir(), "p.8")
	if err := os.WriteFile(path, m.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.CheckManual(t, path)
	testenv.NeedCommand(t, "groff", "groff-base")
	out, err := exec.Command("groff", "-man", "-Tascii", "-P-cbou", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range strings.Split(string(out), "\n") {
		if line != "" && !strings.Contains(line, "P(8)") {
			lines = append(lines, line)
		}
	}
	want := []string{
		"NAME", "       p - do things",
		"SYNOPSIS", `           p [-x] 'quoted' "twice"`,
		"DESCRIPTION", "       A paragraph that begins with .TH, and has \\fBno\\fP ^macro~ and a", "       `tick'.",
		"       -x, --extra N", "              an option that goes on", "       --other", "              another",
		"           key:", "               - nested", "               - more",
		"SEE ALSO", "       q(8)",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}
