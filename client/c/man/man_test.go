package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

const header = "../src/lnetd.h"

// Each function of the header has a page with its prototype, or a link to such a page. All pages render without
// warnings.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	if err := run([]string{header, dir}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	declarations := strings.Split(string(text), "\nLNETD_API ")[1:]
	for _, d := range declarations {
		prototype, _, _ := strings.Cut(d, ";")
		name := named.FindStringSubmatch(prototype)[1]
		file := name + ".3"
		source, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
			continue
		}
		if link, ok := strings.CutPrefix(string(source), ".so man3/"); ok {
			file = strings.TrimSpace(link)
			if source, err = os.ReadFile(filepath.Join(dir, file)); err != nil {
				t.Error(err)
			}
		}
		for line := range strings.SplitSeq(prototype+";", "\n") {
			if !strings.Contains(string(source), "\n.B "+strings.ReplaceAll(line, "\t", "        ")+"\n") {
				t.Errorf("%s does not have the line %q", file, line)
			}
		}
	}
	if n, err := filepath.Glob(filepath.Join(dir, "*.3")); err != nil || len(n) != len(declarations)+1 {
		t.Errorf("%d pages of %d functions, %v", len(n), len(declarations), err)
	}
	for _, p := range pages {
		checkPage(t, filepath.Join(dir, p.functions[0]+".3"))
	}
	checkPage(t, filepath.Join(dir, overview+".3"))
}

// checkPage checks that a page is ASCII, and that groff has no warnings for it.
func checkPage(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if k := strings.IndexFunc(string(text), func(c rune) bool { return c > '~' }); k >= 0 {
		t.Errorf("%s: byte %d is not ASCII", path, k)
	}
	testenv.NeedCommand(t, "groff", "groff-base")
	if out, err := exec.Command("sh", "-c", `groff -man -Tutf8 -ww -rLL=120n "$0" 2>&1 >/dev/null`, path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s: %v\n%s", path, err, out)
	}
}

// The examples of the pages compile without a warning.
func TestExamples(t *testing.T) {
	examples, err := filepath.Glob("examples/*.c")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%q, %v", examples, err)
	}
	for _, compiler := range []string{"gcc", "clang"} {
		t.Run(compiler, func(t *testing.T) {
			testenv.NeedCommand(t, compiler, compiler)
			for _, e := range examples {
				if out, err := exec.Command(compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I../src", "-fsyntax-only", e).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", e, err, out)
				}
			}
		})
	}
}

// A header with a function that no page has, or without one that a page has, is an error.
func TestOtherHeaders(t *testing.T) {
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, replacement, want string }{
		{"LNETD_API int lnetd_ping", "LNETD_API int lnetd_pong(lnetd *d);\nLNETD_API int lnetd_ping", "add the others to a page"},
		{"lnetd_ping(lnetd *d);", "lnetd_pong(lnetd *d);", "are functions of the header"},
		{"extern \"C\"", "", "extern"},
	} {
		_, err := write(strings.Replace(string(text), c.old, c.replacement, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
