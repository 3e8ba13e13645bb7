package pages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/pages"
)

const module = "../.."

// scratch is the directory of the programs. TestMain creates it.
var scratch string

// programs builds lnetd, lnetdctl and lnetperf once.
var programs = sync.OnceValues(func() (dir string, err error) {
	if err := daemontest.Build(scratch); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", scratch, "github.com/lnetd/lnetd/cmd/lnetperf")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	return scratch, nil
})

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := namespace.Scratch("lnetd-pages-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		scratch = dir
		return m.Run()
	}())
}

// covered returns the pages whose commands all have markers.
func covered(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/howto/*.md"} {
		found, err := filepath.Glob(filepath.Join(module, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages (%v)", pattern, len(found), err)
		}
		for _, name := range found {
			switch filepath.Base(name) {
			case "control.md", "transport-protocol.md", "uplnd-protocol.md": // their blocks are data of protocols
			default:
				names = append(names, strings.TrimPrefix(name, module+"/"))
			}
		}
	}
	return names
}

// site is what pages of alerts expect: node a, whose peer is b, and a gateway r.
const site = `
<!-- hosts: a eth0=10.0.0.1 eth1=10.0.1.1, b eth0=10.0.0.2 eth1=10.0.1.2, r eth0=10.0.0.9 -->
<!-- given b: lnetd --net 'tcp(eth0),tcp1(eth1)' & -->
<!-- given r: lnetd --net 'tcp(eth0)' & -->
<!-- file a: /etc/lnetd/lnetd.yaml -->

    net:
        - {net type: tcp, interfaces: {0: eth0}}
        - {net type: tcp1, interfaces: {0: eth1}}
    route:
        - {net: tcp9, gateway: 10.0.0.9@tcp}
    lnetd:
        selftest: {enabled: true}

<!-- given a:
lnetd --config /etc/lnetd/lnetd.yaml &
lnetdctl ping 10.0.0.2@tcp 10.0.0.9@tcp
-->
`

// Given the pages of alerts, and a healthy node with a peer and a gateway, when the commands that they name are run,
// then they succeed.
func TestCommandsOfAlerts(t *testing.T) {
	before, err := pages.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(module + "/docs/alerts/*.md")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d pages (%v)", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			pages.Test(t, append(slices.Clip(before), parse(t, name)...), pages.Options{Programs: programs})
		})
	}
}

// parse reads and parses a page.
func parse(t *testing.T, name string) []pages.Step {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := pages.Parse(string(text))
	if err != nil {
		t.Fatalf("%s:\n%v", name, err)
	}
	return steps
}

// Given the pages of the documentation, when their commands are run, then they succeed and print what the pages
// show.
func TestCommandsOfPages(t *testing.T) {
	for _, name := range covered(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			pages.Test(t, parse(t, filepath.Join(module, name)), pages.Options{Programs: programs})
		})
	}
}

// Given pages that name tests as proof, then these tests exist, in the packages that the pages name.
func TestCitedTestsExist(t *testing.T) {
	cited := regexp.MustCompile("`(Test\\w+)`(?: and `(Test\\w+)`)? in `([\\w/]+)`")
	for _, name := range []string{"docs/guarantees.md", "docs/security.md"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			t.Fatal(err)
		}
		all := cited.FindAllStringSubmatch(string(text), -1)
		if len(all) < 5 {
			t.Errorf("%s names %d tests", name, len(all))
		}
		for _, m := range all {
			for _, test := range m[1:3] {
				if test != "" && !declares(t, m[3], test) {
					t.Errorf("%s: %s has no %s", name, m[3], test)
				}
			}
		}
	}
}

// declares reports whether a package of this module has a test.
func declares(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(module, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)") {
			return true
		}
	}
	return false
}
