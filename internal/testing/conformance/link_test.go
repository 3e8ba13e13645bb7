package conformance

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every link within the repository has a target.
func TestLinks(t *testing.T) {
	good, bad, err := Links(os.DirFS(module))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range bad {
		t.Error(err)
	}
	t.Logf("%d links", good)
}

func TestLinkForms(t *testing.T) {
	good, bad, err := Links(tree(map[string]string{
		"README.md": "[a](docs/a.md) [b](docs) [c](https://example.com/x)\n",
		"docs/a.md": "# A title\n\n## 1. Its `code`, [WIRE]\n\n## Twice\n\n## Twice\n\n" +
			"[up](../README.md) [here](#a-title) [code](#1-its-code-wire) [two](a.md#twice-1)\n" +
			"[no file](b.md) `[code](b.md)`\n[no heading](#twice-2) [dir](../docs#x)\n",
		"node/x.md": "[elsewhere](nothing.md)\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if good != 6 {
		t.Errorf("%d good links, want 6", good)
	}
	var got []string
	for _, err := range bad {
		got = append(got, err.Error())
	}
	want := []string{
		"docs/a.md:10: link to b.md: no file docs/b.md",
		"docs/a.md:11: link to #twice-2: docs/a.md has no such heading",
		"docs/a.md:11: link to ../docs#x: read docs: invalid argument",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("bad links (-want +got):\n%s", d)
	}
}
