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
there are warnings, and otherwise 0. With ` + "`--json`" + ` the output is an object with the lists ` + "`findings`" + ` and
` + "`skipped`" + `. A finding has these members:

| key | value |
|---|---|
| ` + "`code`" + ` | one of the codes below |
| ` + "`severity`" + ` | ` + "`error`: something does not work; `warning`: it works less well, or only partly; `notice`: it may be intended" + ` |
| ` + "`title`" + ` | what is wrong, the same for all findings with the code |
| ` + "`subject`" + ` | the object: a NID, an interface, a file |
| ` + "`evidence`" + ` | what was observed |
| ` + "`remedy`" + ` | what to do |
| ` + "`page`" + ` | the address of the section of this page |

If more than eight findings have the same code, the last one says how many there are.

The lines that begin with ` + "`not examined`" + `, and the list ` + "`skipped`" + ` with the members ` + "`check` and `reason`" + `, say what doctor
could not examine, and why. Facts about the host are only examined if lnetd and lnetdctl run in the same network
namespace, and lnetdctl may see the process of lnetd (as root, or as the same user). The question which hosts have an
address needs the capability CAP_NET_RAW.

`)
	area := ""
	for _, k := range diagnosis.Kinds {
		if a := areas[string(k.Code[4])]; a != area {
			area = a
			fmt.Fprintf(&b, "## %s\n\n", area)
		}
		fmt.Fprintf(&b, "### %s\n\n**%s** (%s). %s\n\nRemedy: %s.\n\n", k.Code, upperFirst(k.Title), k.Severity, k.Meaning, k.Remedy)
	}
	b.WriteString(unseen)
	return b.Bytes()
}

// unseen is the section about what doctor cannot find out.
const unseen = `## What doctor cannot see

- **Other tunables of a peer.** Neither ping info nor discovery nor the HELLO of TCP has credits, timeouts or buffers of
  the sender. Compare them on both nodes: ` + "`lnetdctl export`" + `. Over o2ib, the queue depth and the number of fragments are
  negotiated for each connection, and lnetd follows the peer. What shows of too few credits is LNET318, and LNET213
  compares the timeouts of this node with each other.
- **The way of requests.** The answer to a ping has the gateway that delivered it (LNET407). If several routers are
  behind each other, doctor does not see the ones in the middle.
- **Programs of a peer.** A ping is answered by lnetd or the kernel, not by the program that uses a portal. Peers do not
  report their clients, portals or drops.
- **Restarts.** lnetd follows a peer that restarts, and compares incarnations only for equality, so that a peer whose
  clock was set back is no problem. Two nodes with one NID look like a peer that restarts again and again: LNET212,
  LNET314 and LNET316 find them if they are on a network of this host.
- **Two hosts with an address beyond an IP router**, and with an IPv6 address. The kernel of each host examines IPv6
  addresses itself (` + "`ip -6 address show dadfailed`" + `).
- **The network below NIs other than TCP.** For o2ib see ibstat and the logs of both nodes; proxies report the state of
  theirs.
- **Faults that come and go.** doctor shows the present. ` + "`lnetdctl doctor --watch`" + ` repeats the examination, and
  the journal and metrics have the past.
`

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
