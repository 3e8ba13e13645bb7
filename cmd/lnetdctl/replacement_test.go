package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A replacement replaces the file, or the target of a link, and keeps its mode. A dropped
// replacement leaves nothing behind.
func TestReplacement(t *testing.T) {
	dir := t.TempDir()
	file, link, fresh := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "fresh")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o640), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) *replacement {
		t.Helper()
		r, err := replacing(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return r
	}
	check := func(what string, want map[string]string) {
		t.Helper()
		for name, text := range want {
			if b, _ := os.ReadFile(name); string(b) != text {
				t.Errorf("%s: %s has %q, want %q", what, name, b, text)
			}
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) > 3 {
			t.Errorf("%s: the directory has %v, %v", what, all, err)
		}
	}
	write(file, "half").drop()
	check("dropped", map[string]string{file: "old"})
	for _, r := range []*replacement{write(link, "new"), write(fresh, "first")} {
		if err := r.keep(); err != nil {
			t.Fatal(err)
		}
	}
	check("kept", map[string]string{file: "new", fresh: "first"})
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

// If no other file can be created in the directory, the file itself is written. If the directory is
// removed before the replacement, nothing is left behind, and the error names the file.
func TestReplacementWhereThereIsNone(t *testing.T) {
	dir := t.TempDir()
	r, err := replacing(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.keep(); err == nil {
		t.Error("a directory was replaced")
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("left %v, %v", all, err)
	}
	got := runProgram(program{}, "export", "--control-socket", serve(t, cannedPeer(t, "peerA")), filepath.Join(dir, "file"))
	if got.status != exitFailure || !strings.Contains(got.stderr, "builder") {
		t.Errorf("%+v", got)
	}
}
