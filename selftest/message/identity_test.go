package message

import "testing"

// Given names with terminal control sequences, when they are made printable, then only plain text is
// left, as much as can be read.
func TestPrintableNames(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "",
		"read 4k, größer":        "read 4k, größer",
		"\x1b]0;x\x07":           "?]0;x?",
		"a\nb\tc\x7f":            "a?b?c?",
		"\xff\xc3":               "??",
		"\u202eevil\u0085\u00a0": "?evil??",
		"before\x00after":        "before",
	} {
		if got := NameOf(name).Printable(); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
