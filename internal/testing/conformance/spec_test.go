package conformance

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Sections are headings with a number, and paragraphs with the next number.
func TestSections(t *testing.T) {
	const text = `# A text

2.1 stands in no chapter.

## 1. First

1.1 One.
2.15 contains something else.
1.3 is not the next one.
1.2 Two.

### 1.3 A heading

1.3.1 Deep.

## Appendix: no number

# Part B. Letters

## B.1 Under a letter
`
	want := []string{"1", "1.1", "1.2", "1.3", "1.3.1", "B", "B.1"}
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(sectionsOf(text)))); d != "" {
		t.Errorf("sections (-want +got):\n%s", d)
	}
}

func TestReadSpec(t *testing.T) {
	spec, err := ReadSpec(tree(map[string]string{
		"docs/spec/a.md":      "## 1. One\n",
		"docs/spec/README.md": "## 2. Two\n",
		"docs/b.md":           "## 3. Three\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Spec{"a": {"1": true}}, spec); d != "" {
		t.Errorf("texts (-want +got):\n%s", d)
	}
	if _, err := ReadSpec(tree(nil)); err == nil {
		t.Error("a module without a specification: no error")
	}
}
