package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// rpm runs the host's rpm over the machine: it installs files there, and runs its scripts there.
// The machine is a Debian, so the dependencies of packages are unknown.
func (m *machine) rpm(t *testing.T, args ...string) string {
	t.Helper()
	testenv.NeedCommand(t, "rpm", "rpm")
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c",
		`mount -t proc proc "$0/proc" && exec rpm --root "$0" "$@"`, m.Root}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("rpm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// query queries a package file with rpm.
func query(t *testing.T, args ...string) string {
	t.Helper()
	testenv.NeedCommand(t, "rpm", "rpm")
	out, err := exec.Command("rpm", append([]string{"-qp"}, args...)...).Output()
	if err != nil {
		t.Fatalf("rpm -qp %v: %v", args, err)
	}
	return string(out)
}

// Given a machine, when the rpm is installed, upgraded after the administrator has changed the
// configuration, and removed, then its scripts do their work each time, and the changed
// configuration is kept.
func TestRPM(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	// The default of distributions with rpm. On Debian, units that no preset names are enabled.
	m.Write(t, "/usr/lib/systemd/system-preset/99-default-disable.preset", "disable *\n")
	if out := m.rpm(t, "--nodeps", "-i", older(t, rpmName(oldVersion))); out != "" && !strings.Contains(out, "Creating user 'lnetd'") {
		t.Errorf("rpm -i:\n%s", out)
	}
	m.run(t, "getent", "passwd", "lnetd")
	m.wantFiles(t, "!/etc/systemd/system/multi-user.target.wants/lnetd.service", "!/etc/systemd/system/sockets.target.wants/lnetd-control.socket", "/run/lnetd")
	if out := m.rpm(t, "-V", "--nodeps", "lnetd"); out != "" {
		t.Errorf("rpm -V:\n%s", out)
	}
	const changed = "net:\n    - net type: tcp7\n"
	m.Write(t, configuration, changed)
	m.run(t, "systemctl", "enable", "lnetd.service", "lnetd@blue.service")

	m.rpm(t, "--nodeps", "-U", rpm(t))
	if got, want := m.run(t, "lnetd", "--version"), "lnetd v"+newVersion+"\n"; got != want {
		t.Errorf("lnetd --version: %q, want %q", got, want)
	}
	if got := m.read(t, configuration); got != changed {
		t.Errorf("the configuration is now\n%s", got)
	}
	if got := m.run(t, "systemctl", "is-enabled", "lnetd.service"); got != "enabled\n" {
		t.Errorf("after the upgrade the service is %s", got)
	}

	m.rpm(t, "-e", "lnetd")
	if got := m.read(t, configuration+".rpmsave"); got != changed {
		t.Errorf("what is kept of the configuration is\n%s", got)
	}
	m.wantFiles(t, "!/usr/bin/lnetd", "!"+configuration, "!/usr/lib/systemd/system/lnetd.service", "!/run/lnetd", "!/usr/share/lnetd",
		"!/usr/share/doc/lnetd", "!/etc/systemd/system/multi-user.target.wants/lnetd.service",
		"!/etc/systemd/system/multi-user.target.wants/lnetd@blue.service")
}

// Given both packages of this version, they contain the same files, except for places and files
// that only one of them has by custom. The files of the rpm belong to root, and the configuration
// is marked as such.
func TestSameFiles(t *testing.T) {
	t.Parallel()
	needMachine(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	inDeb, inRPM := map[string]bool{}, map[string]bool{}
	custom := []string{
		"/usr/share/doc/lnetd/copyright", "/usr/share/doc/lnetd/changelog.Debian.gz", "/usr/share/lintian/overrides/lnetd",
		"/usr/share/zsh/vendor-completions/_lnetdctl", "/usr/share/zsh/site-functions/_lnetdctl",
		"/usr/share/licenses/lnetd/LICENSE", "/usr/share/licenses/lnetd/NOTICE",
	}
	for name := range unpackDeb(t, deb(t)) {
		if name = strings.TrimPrefix(name, "."); !strings.HasSuffix(name, "/") {
			inDeb[name] = true
		}
	}
	for line := range strings.Lines(query(t, "--queryformat", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEFLAGS:fflags} %{FILENAMES}\n]", rpm(t))) {
		f := strings.Fields(line)
		name := f[len(f)-1]
		if f[1] != "root" || f[2] != "root" || strings.Contains(f[0][4:], "w") {
			t.Errorf("rpm: %s", line)
		}
		if want := name == configuration; want != (f[3] == "cn") {
			t.Errorf("rpm: configuration is %v: %s", want, line)
		}
		if f[0][0] != 'd' {
			inRPM[name] = true
		}
	}
	for _, name := range custom {
		if inDeb[name] == inRPM[name] {
			t.Errorf("%s: of the deb %v, of the rpm %v", name, inDeb[name], inRPM[name])
		}
		delete(inDeb, name)
		delete(inRPM, name)
	}
	if diff := cmp.Diff(inDeb, inRPM); diff != "" {
		t.Errorf("deb (-), rpm (+):\n%s", diff)
	}
	if got := query(t, "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{LICENSE} %{BUILDHOST}", rpm(t)); got != "lnetd "+newVersion+" 1 Apache-2.0 reproducible" {
		t.Errorf("rpm: %s", got)
	}
}

// Given all built files, the checksums beside them are right.
func TestChecksums(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = built(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(built(t), "SHA256SUMS"))
	if err != nil || strings.Count(string(text), "\n") != len(contents(t, built(t)))-1 {
		t.Errorf("%v\n%s", err, text)
	}
}
