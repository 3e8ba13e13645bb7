package tmpeer

import (
	"os"
	"strings"
	"testing"
)

// PageSession returns the session in hex of the protocol's page, the file at path.
func PageSession(t testing.TB, path string) string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, session, _ := strings.Cut(string(page), "## A session in hex")
	_, session, _ = strings.Cut(session, "```\n")
	session, _, _ = strings.Cut(session, "```")
	return session
}

// CompareSession fails the test if a line of the session differs from the pattern. Two dots in the
// pattern match any byte, and text after # is a remark.
func CompareSession(t testing.TB, pattern, session string) {
	t.Helper()
	want, got := strings.Split(pattern, "\n"), strings.Split(session, "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || !matches(want[i], got[i]) {
			t.Fatalf("line %d differs; the session is\n%s", i+1, session)
		}
	}
}

// matches compares lines. Two dots in the pattern match any byte, and text after # is a remark.
func matches(pattern, line string) bool {
	pattern, _, _ = strings.Cut(pattern, "#")
	pattern = strings.TrimRight(pattern, " ")
	if len(pattern) != len(line) {
		return false
	}
	for i := range pattern {
		if pattern[i] != '.' && pattern[i] != line[i] {
			return false
		}
	}
	return true
}
