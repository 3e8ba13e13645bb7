package packages

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/nspawn"
)

// machine is a copy of a Debian root file system, in which programs can also run without a boot.
type machine struct{ *nspawn.Machine }

// newMachine creates a copy that is removed at the end of the test.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{nspawn.Copy(t)}
	// Packages that were downloaded when the root file system was created.
	if err := os.RemoveAll(m.Path("/var/cache/apt/archives")); err != nil {
		t.Fatal(err)
	}
	return m
}

// Given that every test must run, when neither a machine nor any of the required commands is
// installed, then all of them are skipped: their stage creates the machine and installs the
// commands.
func TestSkippedWithoutMachine(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.v", "-test.skip=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "PATH=/nowhere", "LNETD_TEST_ALL=1", "LNETD_TEST_MACHINE=")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// command returns a command that runs in the machine, with /proc mounted, and without variables of
// the host.
func (m *machine) command(name string, args ...string) *exec.Cmd {
	const enter = `mount -t proc proc "$0/proc" && exec chroot "$0" "$@"`
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", enter, m.Root, name}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"}
	return cmd
}

// run runs a command that must succeed, and returns its output.
func (m *machine) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := m.command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// install installs a package of the host, or upgrades to it.
func (m *machine) install(t *testing.T, deb string) string {
	t.Helper()
	name := "/root/" + filepath.Base(deb)
	content, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	m.Write(t, name, string(content))
	defer func() {
		if err := os.Remove(m.Path(name)); err != nil {
			t.Error(err)
		}
	}()
	return m.run(t, "dpkg", "--install", name)
}

func (m *machine) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(m.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// has reports whether a file exists, or a link that may be dangling.
func (m *machine) has(t *testing.T, name string) bool {
	t.Helper()
	_, err := os.Lstat(m.Path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// wantFiles checks which files exist. Those that begin with "!" must not.
func (m *machine) wantFiles(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		name, not := strings.CutPrefix(name, "!")
		if there := m.has(t, name); there == not {
			t.Errorf("%s is there: %v", name, there)
		}
	}
}

// traces returns all files of the machine that a package could leave behind, without the records of
// package managers and backups of the list of users.
func (m *machine) traces(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(m.Root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, m.Root)
		switch {
		case d.IsDir():
			switch name {
			case "/var/lib/dpkg", "/var/lib/apt", "/var/log", "/var/cache", "/var/lib/rpm":
				return filepath.SkipDir
			}
			all[name] = "directory"
		case strings.HasPrefix(name, "/etc/") && strings.HasSuffix(name, "-"), name == "/etc/.pwd.lock":
		case d.Type().IsRegular() && strings.HasPrefix(name, "/etc/"):
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[name] = string(b)
		default:
			all[name] = d.Type().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
