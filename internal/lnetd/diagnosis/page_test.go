package diagnosis_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

var update = flag.Bool("update", false, "write docs/findings.md anew")

// areas are the sections of the page, by the first digit of the codes.
var areas = map[string]string{
	"1": "lnetd", "2": "Interfaces and NIs", "3": "Peers", "4": "Routes and routing", "5": "Programs and proxies",
}

// The page has a section for each entry of the table.
func TestPage(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "findings.md")
	want := page()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date (%v): make findings-page", path, err)
	}
}

func page() []byte {
	var b bytes.Buffer
	b.WriteString(`# What lnetdctl doctor finds

<!-- Made from the table in internal/lnetd/diagnosis by "make findings-page". -->

` + "`lnetdctl doctor`" + ` examines lnetd and its host, and ` + "`lnetdctl doctor NID`" + ` also the path to a peer. Each finding has
a code, the evidence and a remedy. Codes do not change between releases. The exit status is 2 if there are errors, 1 if
there are warnings, and otherwise 0. With ` + "`--json`" + ` the output is an object with the list ` + "`findings`" + `:

| key | value |
|---|---|
| ` + "`code`" + ` | one of the codes below |
| ` + "`severity`" + ` | ` + "`error`: something does not work; `warning`: it works less well, or only partly; `notice`: it may be intended" + ` |
| ` + "`title`" + ` | what is wrong, the same for all findings with the code |
| ` + "`subject`" + ` | the object: a NID, an interface, a file |
| ` + "`evidence`" + ` | what was observed |
| ` + "`remedy`" + ` | what to do |
| ` + "`page`" + ` | the address of the section of this page |

If more than eight findings have the same code, the last one says how many there are. Facts about the host are only
examined if lnetd and lnetdctl run in the same network namespace, and lnetdctl may see the process of lnetd (as root,
or as the same user).

`)
	area := ""
	for _, k := range diagnosis.Kinds {
		if a := areas[string(k.Code[4])]; a != area {
			area = a
			fmt.Fprintf(&b, "## %s\n\n", area)
		}
		fmt.Fprintf(&b, "### %s\n\n**%s** (%s). %s\n\nRemedy: %s.\n\n", k.Code, upperFirst(k.Title), k.Severity, k.Meaning, k.Remedy)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n')
}

func upperFirst(s string) string {
	if strings.HasPrefix(s, "lnetd ") || strings.HasPrefix(s, "LNet ") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Codes are unique and in order, and texts have a uniform form.
func TestKinds(t *testing.T) {
	last := diagnosis.Code("")
	for _, k := range diagnosis.Kinds {
		if k.Code <= last || len(k.Code) != len("LNET000") {
			t.Errorf("%s after %s", k.Code, last)
		}
		last = k.Code
		switch {
		case strings.HasSuffix(k.Title, ".") || strings.HasSuffix(k.Remedy, ".") || !strings.HasSuffix(k.Meaning, "."):
			t.Errorf("%s: only the meaning ends with a period", k.Code)
		case k.Severity != diagnosis.Notice && k.Severity != diagnosis.Warning && k.Severity != diagnosis.Error:
			t.Errorf("%s: severity %q", k.Code, k.Severity)
		}
	}
}
