package conformance

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// A tag belongs to the test around it, or to the tests that use the declaration around it.
func TestScan(t *testing.T) {
	shown, err := Scan(tree(map[string]string{
		"go.mod": "module m",
		"a/a_test.go": `package a_test

import "testing"

// TestDoc has its tag here.
//
// lnet-core 5.2 (3)
func TestDoc(t *testing.T) {}

func TestBody(t *testing.T) {
	for range []int{
		1, // discovery 9.1
	} {
		var rows int // not the package's
		_ = rows
	}
	m := machine{}
	m.step()
}

func TestRows(t *testing.T) { use() }

func use() { _ = rows }

/*
discovery 9.1
*/
func ExampleRuns() {
	// Output: x
}
`,
		"a/rows_test.go": `package a_test

// rows is used by a function that a test calls.
// lnet-core 2.2 options
var rows = []int{}

type machine struct{}

// lnet-core 2.2 attach (2)
func (m *machine) step() {}
`,
		"b/b_test.go": `package b

func FuzzB(f *testing.F) { // lnet-core 2.2 attach (1), 5.2 (1)
}
`,
		"c/c_test.go": `package c

import "testing"

const dir = "testdata/scripts/"

func TestScripts(t *testing.T) { play("testdata/script", "testdata/none", dir) }
`,
		"c/testdata/script/x.txtar":   "# A story.\n# lnet-core 5.2 (2)\nexec ls\n",
		"c/testdata/scripts/deep/y":   "# discovery 9.1\n",
		"c/testdata/script-of-nobody": "# lnet-core 77\n",
		"c/testdata/other/z":          "# lnet-core 77\n",
		"b/testdata/script/x":         "# lnet-core 77\n",
		"suite/suite.go": `package suite

import "testing"

var cases = []func(){first}

func Run(t *testing.T) { _ = cases }

// r.m0.net.RDMA
func first() { second() }
`,
		"suite/second.go": `package suite

func second() { // transport-tests C (17)
}

// Load is one that only one test calls.
// R.m0.self-test
func Load(t T) {}
`,
		"d/d_test.go": `package d

import (
	"testing"

	other "m/suite"
)

func TestSuite(t *testing.T) { play(t) }

func play(t *testing.T) { other.Run(t) }

func TestLoad(t *testing.T) { t.Run("load", func(t *testing.T) { other.Load(t) }) }

func TestNone(t *testing.T) {}
`,
		// None of these is looked at.
		"a/a.go":               "package a // lnet-core 77",
		"a/testdata/x_test.go": "package x // lnet-core 77",
		"bin/a/x_test.go":      "package x // lnet-core 77",
		".git/x_test.go":       "package x // lnet-core 77",
		"tools/go.mod":         "module tools",
		"tools/x_test.go":      "package x // lnet-core 77",
	}), few(t))
	if err != nil {
		t.Fatal(err)
	}
	body, fuzz := Test{"a/a_test.go", "TestBody"}, Test{"b/b_test.go", "FuzzB"}
	want := map[string][]Test{
		"lnet-core 2.2 attach (1)": {fuzz},
		"lnet-core 2.2 attach (2)": {body},
		"lnet-core 2.2 options":    {{"a/a_test.go", "TestRows"}},
		"lnet-core 5.2 (1)":        {fuzz},
		"lnet-core 5.2 (3a)":       {{"a/a_test.go", "TestDoc"}},
		"lnet-core 5.2 (3b)":       {{"a/a_test.go", "TestDoc"}},
		"lnet-core 5.2 (2)":        {{File: "c/testdata/script/x.txtar"}},
		"discovery 9.1":            {{"a/a_test.go", "ExampleRuns"}, body, {File: "c/testdata/scripts/deep/y"}},
		"r.M0.net.rdma":            {{"d/d_test.go", "TestSuite"}},
		"transport-tests C (17)":   {{"d/d_test.go", "TestSuite"}},
		"R.m0.self-test":           {{"d/d_test.go", "TestLoad"}},
	}
	if d := cmp.Diff(want, shown); d != "" {
		t.Errorf("shown (-want +got):\n%s", d)
	}
}

// Scan reports every error of every file, with its position.
func TestScanErrors(t *testing.T) {
	_, err := Scan(tree(map[string]string{
		"a/a_test.go": `package a

// discovery 9.9
func TestUnknown(t *testing.T) {}

// discovery 9.1 and more
func TestForm(t *testing.T) {}

// discovery 9.1
func helper() {}

// discovery 9.1

func TestApart(t *testing.T) {}

func Testing() {
	// discovery 9.1
}

func Example() {
	// discovery 9.1
}

func BenchmarkX(b *testing.B) {
	// discovery 9.1
}

func TestMain(m *testing.M) {
	// discovery 9.1
}

var _ = "testdata/script"

func TestSuite() { suite.other() }
`,
		"a/testdata/script/x": "\n# discovery 9.2\n",
		"suite/suite.go": `package suite

import "testing"

// discovery 9.1
func other(t *testing.T) {}

// discovery 9.1
func Nobody(t *testing.T) { other(t) }
`,
	}), few(t))
	if err == nil {
		t.Fatal("no error")
	}
	const unused = `: tag "discovery 9.1": no test has or uses what this tag stands in`
	want := []string{
		"a/a_test.go:12:1" + unused,
		"a/a_test.go:17:2" + unused,
		"a/a_test.go:21:2" + unused,
		"a/a_test.go:25:2" + unused,
		"a/a_test.go:29:2" + unused,
		`a/a_test.go:3:1: tag "discovery 9.9": discovery 9.9: no such rule`,
		`a/a_test.go:6:1: tag "discovery 9.1 and more": "9.1 and more" is not of the form SECTION [LIST] [(N)[-(M)]]`,
		"a/a_test.go:9:1" + unused,
		`a/testdata/script/x:2: tag "discovery 9.2": discovery 9.2: no such rule`,
		"suite/suite.go:5:1" + unused,
		"suite/suite.go:8:1" + unused,
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("errors (-want +got):\n%s", d)
	}
	if _, err := Scan(tree(map[string]string{"a/a_test.go": "package"}), few(t)); err == nil {
		t.Error("a file that does not parse: no error")
	}
}
