// Package clitest tests manual pages.
package clitest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// Manual fails the test if the manual page with a file name such as "lnetd.8", which the test of a command in its own
// directory finds in docs/man, is not want, or is not a good page (see CheckManual). With update, it writes the page
// before.
func Manual(t *testing.T, name string, want []byte, update bool) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "man", name)
	if update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date (%v): make man", path, err)
	}
	CheckManual(t, path)
}

// CheckManual fails the test if the manual page at path contains characters other than ASCII, if groff prints
// warnings for it, or if one of the usual sections is missing.
func CheckManual(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for k, c := range string(text) {
		if c > '~' {
			t.Fatalf("%s: %q at byte %d is not ASCII", path, c, k)
		}
	}
	testenv.NeedCommand(t, "groff", "groff-base")
	cmd := exec.Command("groff", "-man", "-Tutf8", "-ww", "-rLL=100n", path)
	cmd.Env = append(os.Environ(), "GROFF_NO_SGR=1")
	var warnings, page strings.Builder
	cmd.Stderr, cmd.Stdout = &warnings, &page
	if err := cmd.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("%s: %v\n%s", path, err, warnings.String())
	}
	for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"} {
		if !strings.Contains(plain(page.String()), "\n"+section+"\n") {
			t.Errorf("%s has no section %s", path, section)
		}
	}
}

// plain returns s without bold formatting, which consists of a character, a backspace, and the same character
// again.
func plain(s string) string {
	var b []rune
	for _, c := range s {
		if c == '\b' && len(b) > 0 {
			b = b[:len(b)-1]
			continue
		}
		b = append(b, c)
	}
	return string(b)
}
