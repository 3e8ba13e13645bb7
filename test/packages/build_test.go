package packages

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// Versions and settings of the packages of the tests.
const (
	newVersion = "1.1.0"
	oldVersion = "1.0.0~rc.1"
	epoch      = "1790000000"
	revision   = "0123456789abcdef0123456789abcdef01234567"
)

// scratch is this process's directory.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "lnetd-packages-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		scratch = dir
		return m.Run()
	}())
}

// build runs deploy/packages/build with the sources in a directory.
func build(from, to, version string, settings ...string) error {
	return runScript("build", from, to, version, settings...)
}

// runScript runs a script of deploy/packages with the sources in a directory.
func runScript(name, from, to, version string, settings ...string) error {
	cmd := exec.Command("bash", "-c", "umask $UMASK && exec deploy/packages/$1 \"$0\"", to, name)
	cmd.Dir = from
	cmd.Env = append(os.Environ(), append([]string{
		"UMASK=022", "VERSION=" + version, "SOURCE_DATE_EPOCH=" + epoch, "REVISION=" + revision, "TOOLS=" + tools(),
	}, settings...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("deploy/packages/%s in %s: %w\n%s", name, from, err, out)
	}
	return nil
}

// tools returns the directory of the tools that build uses. CI has built them: LNETD_TEST_TOOLS.
func tools() string {
	if dir := os.Getenv("LNETD_TEST_TOOLS"); dir != "" {
		return dir
	}
	return filepath.Join(scratch, "tools")
}

// buildTools builds the tools that build uses, once for all builds, unless CI has built them.
var buildTools = sync.OnceValue(func() error {
	if os.Getenv("LNETD_TEST_TOOLS") != "" {
		return nil
	}
	cmd := exec.Command("go", "-C", sources, "install",
		"github.com/goreleaser/nfpm/v2/cmd/nfpm", "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod", "./image", "./sbom")
	cmd.Args[2] = filepath.Join(sources, "tools")
	cmd.Env = append(os.Environ(), "GOBIN="+tools())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
})

// sources is the root of the repository.
const sources = "../.."

// The new version for all machines, and an old one for this machine.
var (
	buildNew = sync.OnceValue(func() error {
		return errors.Join(buildTools(), build(sources, filepath.Join(scratch, "new"), "v1.1.0", "LIB_ARCHES="+runtime.GOARCH))
	})
	buildOld = sync.OnceValue(func() error {
		return errors.Join(buildTools(), build(sources, filepath.Join(scratch, "old"), "v1.0.0-rc.1", "ARCHES="+runtime.GOARCH))
	})
)

// built returns the directory with the packages of these sources.
func built(t *testing.T) string {
	t.Helper()
	needMachine(t)
	testenv.NeedCommand(t, "gcc", "gcc")
	if err := buildNew(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(scratch, "new")
}

// deb and rpm are packages for this machine.
func deb(t *testing.T) string { t.Helper(); return filepath.Join(built(t), debName(newVersion)) }
func rpm(t *testing.T) string { t.Helper(); return filepath.Join(built(t), rpmName(newVersion)) }

// older returns a package of the earlier version.
func older(t *testing.T, name string) string {
	t.Helper()
	needMachine(t)
	if err := buildOld(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(scratch, "old", name)
}

func debName(version string) string { return "lnetd_" + version + "-1_" + runtime.GOARCH + ".deb" }

func rpmName(version string) string {
	return "lnetd-" + version + "-1." + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + ".rpm"
}

// Given two copies of the sources in different places, when packages, SBOMs and image are built
// with another umask, time zone, home, language, settings of Go and an empty build cache, then all
// results are identical, byte for byte.
func TestReproducible(t *testing.T) {
	t.Parallel()
	first := built(t)
	copied := filepath.Join(t.TempDir(), "elsewhere", "with a blank")
	copySources(t, copied)
	again := filepath.Join(t.TempDir(), "again")
	settings := filepath.Join(t.TempDir(), "env") // as go env -w writes it
	if err := os.WriteFile(settings, []byte("GOFLAGS=-tags=kept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := build(copied, again, "v1.1.0",
		"UMASK=077", "TZ=Asia/Kathmandu", "LC_ALL=C.UTF-8", "HOME="+t.TempDir(), "USER=somebody",
		"GOCACHE="+filepath.Join(t.TempDir(), "cache"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOFLAGS=-tags=said", "GOENV="+settings,
		"GOOS=plan9", "GOARCH=386", "LIB_ARCHES="+runtime.GOARCH,
	); err != nil {
		t.Fatal(err)
	}
	want, got := contents(t, first), contents(t, again)
	for name, content := range want {
		if other, ok := got[name]; ok && !bytes.Equal(content, other) {
			t.Errorf("%s differs", name)
		}
		want[name], got[name] = nil, got[name][:0:0]
	}
	for name := range got {
		got[name] = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("files differ:", diff)
	}
	// deb, rpm, archive of two machines; three SBOMs each; three debs, three rpms and an SBOM of liblnetd; checksums;
	// two files of the image; and blobs: an index, and layer, configuration and manifest of two machines.
	if n := 6 + 6 + 7 + 1 + 2 + 7; len(want) != n {
		t.Errorf("%d files were built, want %d", len(want), n)
	}
}

// Given sources without version control, when no version is given, or an invalid one, then build
// reports that and builds nothing.
func TestVersion(t *testing.T) {
	t.Parallel()
	needMachine(t)
	if err := buildTools(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	copySources(t, copied)
	for version, want := range map[string]string{
		"":        "is under no version control: set VERSION=v1.2.3 and SOURCE_DATE_EPOCH",
		"latest":  "'latest' is no version such as v1.2.3",
		"v1.2":    "'v1.2' is no version such as v1.2.3",
		"v1.2.3/": "'v1.2.3/' is no version such as v1.2.3",
		"v1.2.3_": "'v1.2.3_' is no version such as v1.2.3",
	} {
		out := filepath.Join(t.TempDir(), "out")
		if err := build(copied, out, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: built with %v, want %q", version, err, want)
		}
		if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: something was made: %v", version, err)
		}
	}
}

// Given a directory with other packages, when packages are to be built there, then build reports
// that, and removes nothing.
func TestDirectoryOfOthers(t *testing.T) {
	t.Parallel()
	needMachine(t)
	if err := buildTools(); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for _, name := range []string{"other.deb", "lnetd_0.9.0-1_amd64.deb"} {
		if err := os.WriteFile(filepath.Join(out, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := build(sources, out, "v1.1.0"); err == nil || !strings.Contains(err.Error(), "something else in it, such as other.deb: name a directory") {
		t.Errorf("built with %v", err)
	}
	if left := contents(t, out); len(left) != 2 {
		t.Errorf("what is left: %v", left)
	}
}

// Given a clone, when it has no tag, a tag of an earlier commit, a tag of this commit, or changes,
// then packages have the version that Go gives it, in a form that sorts correctly. In a shallow
// clone, which has no tags, build says what to do.
func TestVersionOfClone(t *testing.T) {
	t.Parallel()
	needMachine(t)
	if err := buildTools(); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	copySources(t, clone)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", clone, "-c", "user.name=n", "-c", "user.email=e@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-23T07:11:04Z", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func() string {
		t.Helper()
		git("commit", "-q", "--allow-empty", "-m", "m")
		return git("rev-parse", "--short=12", "HEAD")
	}
	want := func(when, version string) {
		t.Helper()
		cmd := exec.Command("deploy/packages/build", "--version")
		cmd.Dir = clone
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != version+"\n" {
			t.Errorf("%s: %s%v, want %s", when, out, err, version)
		}
	}
	git("init", "-q")
	git("add", "-A")
	id := commit()
	want("no tag", "v0.0.0-20261123071104-"+id+" 0.0.0~20261123071104."+id)
	git("tag", "v1.2.3-rc.1")
	want("a tag", "v1.2.3-rc.1 1.2.3~rc.1")
	id = commit()
	want("behind a candidate", "v1.2.3-rc.1.0.20261123071104-"+id+" 1.2.3~rc.1.0.20261123071104."+id)
	git("tag", "v1.2.3")
	want("another tag", "v1.2.3 1.2.3")
	id = commit()
	want("behind a release", "v1.2.4-0.20261123071104-"+id+" 1.2.4~0.20261123071104."+id)
	if err := os.WriteFile(filepath.Join(clone, "README.md"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	shallow := filepath.Join(t.TempDir(), "shallow")
	git("clone", "-q", "--depth=1", "file://"+clone, shallow)
	cmd := exec.Command("deploy/packages/build", "--version")
	cmd.Dir = shallow
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "git fetch --unshallow --tags") ||
		!strings.HasSuffix(string(out), "v0.0.0-20261123071104-"+id+" 0.0.0~20261123071104."+id+"\n") {
		t.Errorf("a shallow clone: %s%v", out, err)
	}
	want("with a change", "v1.2.4-0.20261123071104-"+id+"+dirty 1.2.4~0.20261123071104."+id+"+dirty")
}

// copySources copies files that are under version control, or would be, with new times.
func copySources(t *testing.T, to string) {
	t.Helper()
	if err := copyTree(to); err != nil {
		t.Fatal(err)
	}
}

func copyTree(to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	script := `cd "$1" && tar -c --anchored --exclude=./bin --exclude=./.git . | tar -x -m -C "$0"`
	if out, err := exec.Command("bash", "-o", "pipefail", "-c", script, to, sources).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the sources to %s: %w\n%s", to, err, out)
	}
	return nil
}

// contents returns the contents of the files below a directory.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		all[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// needMachine ends the test unless there is a root file system in which to install packages, and
// the right to do so.
func needMachine(t *testing.T) {
	t.Helper()
	testenv.Machine(t)
	testenv.NeedRoot(t)
}

// Given an invalid URL of the documentation, build reports that at once; with a valid one, it
// continues.
func TestDocs(t *testing.T) {
	t.Parallel()
	needMachine(t)
	for docs, good := range map[string]bool{
		"":                               true,
		"https://wiki.example.com/lnetd": true,
		"http://10.0.0.1:8080/a/b/":      true,
		"docs":                           false,
		"/usr/share/doc/lnetd":           false,
		"https://":                       false,
		"https://a b":                    false,
		"https://a|b":                    false,
	} {
		err := build(sources, "--version", "v"+newVersion, "DOCS="+docs)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "is no URL such as") {
			t.Errorf("DOCS=%q: %v", docs, err)
		}
	}
}
