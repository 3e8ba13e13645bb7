package conformance

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every cited section exists.
func TestCitations(t *testing.T) {
	module := os.DirFS(module)
	spec, err := ReadSpec(module)
	if err != nil {
		t.Fatal(err)
	}
	found, err := Citations(module, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found {
		switch {
		case c.Text == "":
			t.Errorf("%s: of which text of %s? (README.md there says how to cite)", c, specDir)
		case !spec[c.Text][c.Section]:
			t.Errorf("%s: %s/%s.md has no such section", c, specDir, c.Text)
		}
	}
	t.Logf("%d citations", len(found))
}

// Forms of citations in prose.
func TestCitationForms(t *testing.T) {
	forms := citationsOf(Spec{"lnet-core": nil, "transport": nil, "transport-tests": nil})
	for _, c := range []struct{ prose, want string }{
		{"as in lnet-core 7.3.", "lnet-core 7.3"},
		{"(lnet-core 5.3, 6.1; transport 4)", "lnet-core 5.3|lnet-core 6.1|transport 4"},
		{"lnet-core 2 to 4, and 5", "lnet-core 2|lnet-core 4|lnet-core 5"},
		{"lnet-core 4.2 steps 6 to 10", "lnet-core 4.2|lnet-core 10"},
		{"lnet-core 5.2 step 3b, 6.1", "lnet-core 5.2|lnet-core 6.1"},
		{"lnet-core 2.2 attach (1)-(3), 5.2 (3a)", "lnet-core 2.2|lnet-core 5.2"},
		{"lnet-core.md 9 and lnet-core section 3", "lnet-core 9|lnet-core 3"},
		{"transport-tests 3", "transport-tests 3"},
		{"see lnet-core\n 7.3,\n 8", "lnet-core 7.3|lnet-core 8"},
		{"docs/lnet-core 7, xlnet-core 7, lnet-cores 7, lnet-core7", ""},
		{"lnet-core: 12 of them", ""},
		{"section 7.3 and §8", " 7.3| 8"},
		{"sections of 7", ""},
	} {
		var got []string
		for _, x := range forms.in("f", c.prose, "") {
			got = append(got, x.Text+" "+x.Section)
		}
		if d := cmp.Diff(c.want, strings.Join(got, "|")); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.prose, d)
		}
	}
}

// Citations are found in the right files, with their positions.
func TestCitationPlaces(t *testing.T) {
	found, err := Citations(tree(map[string]string{
		"a/a.go": `package a // lnet-core 1

const s = "lnet-core 2" /* lnet-core
3 */ // 4 is none
`,
		"a/testdata/script/x":                         "# lnet-core 5\nlnet-core 6\n",
		"a/testdata/other":                            "# lnet-core 7\n",
		"docs/a.md":                                   "`lnet-core 8`\n```\nlnet-core 9\n```\n`lnet-core.md` 10, section 11\n",
		"docs/spec/lnet-core.md":                      "section 12\n",
		"docs/spec/README.md":                         "section 13\n",
		"internal/testing/conformance/rules/text.txt": "= lnet-core 14\tTitle\n",
		".git/a.go":                                   "// lnet-core 15\n",
	}), Spec{"lnet-core": {}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range found {
		got = append(got, c.String())
	}
	want := []string{
		"a/a.go:1: lnet-core 1",
		"a/a.go:4: lnet-core 3",
		"a/testdata/script/x:1: lnet-core 5",
		"docs/a.md:5: lnet-core 10",
		"docs/a.md:5: 11",
		"docs/spec/README.md:1: 13",
		"docs/spec/lnet-core.md:1: lnet-core 12",
		"internal/testing/conformance/rules/text.txt:1: lnet-core 14",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("citations (-want +got):\n%s", d)
	}
}
