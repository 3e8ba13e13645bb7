package packages

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// needDebs copies packages of Debian into the machine, from a directory below LNETD_TEST_DEBS, and packages of this
// release, and returns their directory there. It skips the test if LNETD_TEST_DEBS is not set.
func needDebs(t *testing.T, m *machine, dir string, ours ...string) string {
	t.Helper()
	debs := os.Getenv("LNETD_TEST_DEBS")
	if debs == "" {
		t.Skip("needs the packages of Debian that packages of lnetd depend on: LNETD_TEST_DEBS=DIRECTORY")
	}
	const there = "/var/tmp/debs"
	patterns := []string{filepath.Join(debs, dir, "*.deb")}
	for _, name := range ours {
		patterns = append(patterns, filepath.Join(released(t), name))
	}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("there are no packages %s, %v", pattern, err)
		}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			m.Write(t, filepath.Join(there, filepath.Base(name)), string(content))
		}
	}
	return there
}

// Given a booted machine on which the service runs, when lnetd-o2ib is installed with apt, then the
// service, and lnetd on the command line, run the program with the driver. That program names what the
// machine lacks for a net over RDMA, both when it checks the configuration and when it runs. When the package
// is removed, the service runs the static program, which names the package. A purge of both leaves nothing
// behind. With a device, test/rdma runs the installed lnetd.
func TestO2IB(t *testing.T) {
	t.Parallel()
	released(t)
	m := newMachine(t)
	debs := needDebs(t, m, "o2ib", "lnetd_*.deb", "lnetd-o2ib_*.deb")
	m.Boot(t)
	const (
		program = "readlink /proc/$(systemctl show --property=MainPID --value lnetd.service)/exe"
		check   = "lnetd --check --net 'o2ib(host0)' 2>&1"
		// The NI waits for a device, so lnetd becomes ready.
		waiting = `lnetd --net 'o2ib(host0)' --control-socket /tmp/other.sock >/root/log 2>&1 &
			until grep -q '"msg":"ready"' /root/log || ! kill -0 $!; do sleep 0.1; done
			kill $!; wait $! && cat /root/log`
		apt = "apt-get -qq -o APT::Sandbox::User=root install --no-install-recommends "
	)
	m.Must(t, apt+debs+"/lnetd_*.deb && systemctl start lnetd.service")
	if got := m.Must(t, program); got != "/usr/bin/lnetd\n" {
		t.Errorf("the service runs %s", got)
	}
	m.Must(t, apt+debs+"/*.deb")
	if got := m.Must(t, program); got != "/usr/libexec/lnetd/lnetd\n" {
		t.Errorf("with lnetd-o2ib the service runs %s", got)
	}
	want := "LimitMEMLOCK=infinity\nPrivateDevices=no\nActiveState=active\n"
	if got := m.Must(t, "systemctl show --property=LimitMEMLOCK,PrivateDevices,ActiveState lnetd.service"); got != want {
		t.Errorf("the service has %s, want %s", got, want)
	}
	if got := m.Must(t, "lnetd --version && lnetperf --help >/dev/null"); got != "lnetd v"+newVersion+"\n" {
		t.Errorf("lnetd --version: %s", got)
	}
	if got := m.Must(t, check); !strings.Contains(got, "load the modules rdma_ucm and ib_uverbs") {
		t.Errorf("without RDMA: %s", got)
	}
	if got := m.Must(t, waiting); !strings.Contains(got, "load the modules rdma_ucm and ib_uverbs") {
		t.Errorf("without RDMA, at run time: %s", got)
	}
	m.Must(t, "dpkg --remove lnetd-o2ib")
	if got := m.Must(t, program); got != "/usr/bin/lnetd\n" {
		t.Errorf("after the removal the service runs %s", got)
	}
	if got, err := m.Try(t, check); err == nil || !strings.Contains(got, "install the package lnetd-o2ib") {
		t.Errorf("without the package: %s%v", got, err)
	}
	m.Must(t, "dpkg --purge lnetd-o2ib lnetd")
	if got := m.Must(t, "find /usr /etc /run -path /run/systemd -prune -o -name '*lnetd*' -print"); got != "" {
		t.Errorf("after the purge there is\n%s", got)
	}
}

// Given the packages of lnetd-o2ib, lintian has no finding, and the deb and the rpm depend on lnetd of
// the same version and have the same files, except for those that only one of them has by custom.
func TestO2IBPackages(t *testing.T) {
	t.Parallel()
	dir := released(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	testenv.NeedCommand(t, "lintian", "lintian")
	name := filepath.Join(dir, "lnetd-o2ib_"+newVersion+"-1_"+runtime.GOARCH+".deb")
	out, err := exec.Command("lintian", "--no-cfg", "--allow-root", "--tag-display-limit", "0", "--info", "--fail-on", "error,warning", name).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("lintian: %v\n%s", err, out)
	}
	out, err = exec.Command("dpkg-deb", "--field", name, "Depends").Output()
	if want := "lnetd (= " + newVersion + "-1), libc6 (>= 2.34), libibverbs1, librdmacm1, ibverbs-providers\n"; err != nil || string(out) != want {
		t.Errorf("the deb depends on %s, %v; want %s", out, err, want)
	}
	rpmFile := filepath.Join(dir, strings.Replace(rpmName(newVersion), "lnetd-", "lnetd-o2ib-", 1))
	if got := query(t, "--requires", rpmFile); !strings.Contains(got, "lnetd = "+newVersion+"-1\n") || !strings.Contains(got, "libibverbs\n") || !strings.Contains(got, "librdmacm\n") {
		t.Errorf("the rpm requires\n%s", got)
	}
	inDeb, inRPM := map[string]bool{}, map[string]bool{}
	files := unpackDeb(t, name)
	for name := range files {
		if !strings.HasSuffix(name, "/") && !strings.Contains(name, "/share/doc/") && !strings.Contains(name, "/lintian/") {
			inDeb[strings.TrimPrefix(name, ".")] = true
		}
	}
	for line := range strings.Lines(query(t, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]", rpmFile)) {
		mode, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if mode[0] != 'd' && !strings.Contains(name, "/licenses/") {
			inRPM[name] = true
		}
	}
	if diff := cmp.Diff(inDeb, inRPM); diff != "" {
		t.Errorf("deb (-), rpm (+):\n%s", diff)
	}
	for _, program := range []string{"lnetd", "lnetperf"} {
		checkLibraries(t, program, files["./usr/libexec/lnetd/"+program])
	}
}

// checkLibraries checks that a program needs no library except the C library, of version 2.34 or older. It
// loads those of rdma-core itself.
func checkLibraries(t *testing.T, what string, binary []byte) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range libraries {
		if l != "libc.so.6" && !strings.HasPrefix(l, "ld-linux") {
			t.Errorf("%s needs %s", what, l)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		version, ok := strings.CutPrefix(s.Version, "GLIBC_2.")
		minor, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(minor); ok && (err != nil || n > 34) {
			t.Errorf("%s needs %s of %s", what, s.Name, s.Version)
		}
	}
}
