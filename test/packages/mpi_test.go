package packages

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// mpiDeb returns a package of a release.
func mpiDeb(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(released(t), name+"_"+newVersion+"-1_"+runtime.GOARCH+".deb")
}

// needMPI skips the test if the MPI libraries are not installed for which shims are built.
func needMPI(t *testing.T) {
	t.Helper()
	testenv.NeedCommand(t, "mpicc.openmpi", "libopenmpi-dev")
	testenv.NeedCommand(t, "mpicc.mpich", "libmpich-dev")
}

// Given the packages of lnetd-mpi and liblnet_mpi, lintian has no finding, they depend on each other, and they have the
// same files as the rpms. Programs and libraries need the C library alone, since the shims load the MPI library.
func TestMPIPackages(t *testing.T) {
	t.Parallel()
	released(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	testenv.NeedCommand(t, "lintian", "lintian")
	rpmArch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	version := " (= " + newVersion + "-1)"
	for _, c := range []struct {
		deb, depends, rpm string
		files             []string // with LIB for the directory of libraries, and NAME for the package
		programs          []string
	}{
		{
			deb: "lnetd-mpi", depends: "libc6 (>= 2.34)", rpm: "lnetd-mpi", programs: []string{"/usr/bin/lnet-mpi-proxy"},
			files: []string{
				"/usr/lib/lnetd/lnetd-mpich.so", "/usr/lib/lnetd/lnetd-openmpi.so", "/usr/share/man/man1/lnet-mpi-proxy.1.gz",
				"/usr/share/doc/NAME/mpi.md.gz", "/usr/share/doc/NAME/third-party-licenses.gz", "/usr/share/lnetd/sbom/lnet-mpi-proxy.cdx.json",
			},
		},
		{
			deb: "liblnet-mpi0", depends: "libc6 (>= 2.34), liblnetd0" + version + ", lnetd-mpi" + version, rpm: "liblnet_mpi", programs: []string{"LIB/liblnet_mpi.so.0"},
			files: []string{"/usr/share/doc/NAME/third-party-licenses.gz", "/usr/share/lnetd/sbom/liblnet_mpi.so.0.cdx.json"},
		},
		{
			deb: "liblnet-mpi-dev", depends: "liblnet-mpi0" + version + ", liblnetd-dev" + version, rpm: "liblnet_mpi-devel",
			files: []string{
				"LIB/liblnet_mpi.so", "LIB/pkgconfig/lnet_mpi.pc", "/usr/include/lnet_mpi.h",
				"/usr/share/doc/NAME/examples/mpiring.c", "/usr/share/doc/NAME/examples/mpiring.f90",
			},
		},
	} {
		t.Run(c.deb, func(t *testing.T) {
			deb := mpiDeb(t, c.deb)
			out, err := exec.Command("lintian", "--no-cfg", "--allow-root", "--tag-display-limit", "0", "--info", "--fail-on", "error,warning", deb).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("lintian: %v\n%s", err, out)
			}
			if got := field(t, deb, "Depends"); got != c.depends {
				t.Errorf("it depends on %s, want %s", got, c.depends)
			}
			files := unpackDeb(t, deb)
			var inDeb, inRPM []string
			for name := range files {
				if strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/copyright") || strings.Contains(name, "/lintian/") || strings.HasSuffix(name, ".Debian.gz") {
					continue
				}
				plain := strings.NewReplacer("./usr/lib/"+triplet+"/", "LIB/", "/doc/"+c.deb+"/", "/doc/NAME/").Replace(name)
				inDeb = append(inDeb, strings.TrimPrefix(plain, "."))
			}
			rpmFile := filepath.Join(released(t), c.rpm+"-"+newVersion+"-1."+rpmArch+".rpm")
			for line := range strings.Lines(query(t, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]", rpmFile)) {
				mode, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				if mode[0] != 'd' && !strings.Contains(name, "/licenses/") {
					inRPM = append(inRPM, strings.NewReplacer("/usr/lib64/", "LIB/", "/doc/"+c.rpm+"/", "/doc/NAME/").Replace(name))
				}
			}
			want := append(slices.Clone(c.files), c.programs...)
			for _, list := range [][]string{inDeb, inRPM, want} {
				slices.Sort(list)
			}
			if diff := cmp.Diff(want, inDeb) + cmp.Diff(want, inRPM); diff != "" {
				t.Errorf("want (-), deb or rpm (+):\n%s", diff)
			}
			for _, program := range c.programs {
				checkLibraries(t, program, files[strings.Replace("."+program, ".LIB/", "./usr/lib/"+triplet+"/", 1)])
			}
		})
	}
}

// Given the package of liblnet_mpi, it has the right name, exports and lists the functions of its header and nothing else,
// and does not contain the path where it was built.
func TestMPISymbols(t *testing.T) {
	t.Parallel()
	released(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	deb := mpiDeb(t, "liblnet-mpi0")
	binary := unpackDeb(t, deb)["./usr/lib/"+triplet+"/liblnet_mpi.so.0"]
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if names, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(names, []string{"liblnet_mpi.so.0"}) {
		t.Errorf("its name is %q, %v", names, err)
	}
	if bytes.Contains(binary, []byte(scratch)) {
		t.Errorf("it says that it was built in %s", scratch)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var exported, listed []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			exported = append(exported, s.Name)
		}
	}
	control := controlOf(t, deb)
	for line := range strings.Lines(control["./symbols"]) {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), "@"); rest == "LNET_MPI_0 "+newVersion {
			listed = append(listed, name)
		}
	}
	slices.Sort(exported)
	slices.Sort(listed)
	want := []string{
		"LNET_MPI_0", "lnet_mpi_address", "lnet_mpi_finalize", "lnet_mpi_init", "lnet_mpi_rank", "lnet_mpi_route", "lnet_mpi_size",
		"lnet_mpi_socket", "lnet_mpi_text",
	}
	if diff := cmp.Diff(want, exported) + cmp.Diff(want, listed); diff != "" {
		t.Errorf("want (-), exported or listed (+):\n%s", diff)
	}
	if got, want := control["./shlibs"], "liblnet_mpi 0 liblnet-mpi0 (>= "+newVersion+")\n"; got != want {
		t.Errorf("shlibs: %q, want %q", got, want)
	}
}

// Given a booted machine with lnetd and MPI libraries, when the packages are installed with apt, then an application
// that was compiled with them runs over both libraries. Over Open MPI it starts the proxy of lnetd. A purge leaves
// nothing behind.
func TestMPI(t *testing.T) {
	t.Parallel()
	released(t)
	testenv.NeedCommand(t, "pkg-config", "pkg-config")
	m := newMachine(t)
	debs := needDebs(t, m, "mpi", "lnetd_*.deb", "lnetd-mpi_*.deb", "liblnetd0_*.deb", "liblnet-mpi0_*.deb")
	root := t.TempDir()
	for _, name := range []string{"liblnetd0", "liblnetd-dev", "liblnet-mpi0", "liblnet-mpi-dev"} {
		if out, err := exec.Command("dpkg-deb", "--extract", mpiDeb(t, name), root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	lib := root + "/usr/lib/" + triplet
	for _, kind := range []string{"openmpi", "mpich"} {
		c := exec.Command("sh", "-c", `exec mpicc.$0 -o "$1" "$2" $(pkg-config --cflags --libs lnet_mpi)`, kind, m.Path("/root/mpiring-"+kind),
			root+"/usr/share/doc/liblnet-mpi-dev/examples/mpiring.c")
		c.Env = append(os.Environ(), "PKG_CONFIG_PATH="+lib+"/pkgconfig", "PKG_CONFIG_SYSROOT_DIR="+root)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	m.Boot(t)
	const (
		apt  = "apt-get -qq -o APT::Sandbox::User=root install --no-install-recommends "
		ring = "the message has passed the ranks 0 1 2 3\n"
	)
	m.Must(t, apt+debs+"/*.deb")
	m.Write(t, "/etc/lnetd/lnetd.yaml", `net:
  - {net type: tcp, nid: 127.0.0.1@tcp}
  - {net type: mpi, nid: 127.0.0.1@mpi, proxy: mpi}
lnetd:
  proxies: {net_types: [{name: mpi, number: 127}]}
`)
	m.Must(t, "systemctl start lnetd.service")
	if got := m.Must(t, "mpirun.mpich -n 4 /root/mpiring-mpich"); !strings.Contains(got, ring) {
		t.Errorf("over MPICH: %s", got)
	}
	// The machine has no network, and jobs of Open MPI have no memory in common.
	const openMPI = "LNET_MPI_SPAWN=localhost mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl_tcp_if_include lo " +
		"-n 4 /root/mpiring-openmpi 2>&1"
	if got := m.Must(t, openMPI); !strings.Contains(got, ring) {
		t.Errorf("over Open MPI: %s", got)
	}
	m.Must(t, "systemctl stop lnetd.service")
	if got, err := m.Try(t, strings.Replace(openMPI, "localhost ", "'localhost lnet-mpi-proxy --attach-timeout 1s' ", 1)); err == nil || !strings.Contains(got, "lnet-mpi-proxy: ") {
		t.Errorf("without lnetd: %s%v", got, err)
	}
	m.Must(t, "dpkg --purge liblnet-mpi0 liblnetd0 lnetd-mpi lnetd")
	if got := m.Must(t, "find /usr /etc /run -path /run/systemd -prune -o -name '*lnet*' -print"); got != "" {
		t.Errorf("after the purge there is\n%s", got)
	}
}

// Given another machine than this one, or no packages of liblnetd, build reports at once that it cannot make those for
// MPI.
func TestMPIArches(t *testing.T) {
	t.Parallel()
	needMachine(t)
	for _, c := range []struct{ mpi, lib string }{{"other", "other"}, {runtime.GOARCH, ""}} {
		err := build(sources, filepath.Join(t.TempDir(), "out"), "v"+newVersion, "MPI_ARCHES="+c.mpi, "LIB_ARCHES="+c.lib)
		if err == nil || !strings.Contains(err.Error(), "MPI_ARCHES='"+c.mpi+"' is not "+runtime.GOARCH+", or not in LIB_ARCHES") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
