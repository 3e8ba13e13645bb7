package pages

import "testing"

// Only what stands between the marks of a part is replaced, and a part without both marks is an error.
func TestWithParts(t *testing.T) {
	const page = "a\n<!-- x: written by make y -->\nold\n<!-- end of x -->\nb\n"
	const want = "a\n<!-- x: written by make y -->\nnew\n<!-- end of x -->\nb\n"
	if got, err := WithParts(page, "y", map[string]string{"x": "new\n"}); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, target := range []string{"z", ""} {
		if got, err := WithParts(page, target, map[string]string{"x": "new\n"}); err == nil {
			t.Errorf("make %s: %q", target, got)
		}
	}
	if got, err := WithParts(page[:40], "y", map[string]string{"x": "new\n"}); err == nil {
		t.Errorf("without an end: %q", got)
	}
}
