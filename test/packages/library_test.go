package packages

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
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

// triplet is the name of this machine in Debian's directories of libraries.
var triplet = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]

func libraryDeb(t *testing.T, name, arch string) string {
	t.Helper()
	return filepath.Join(built(t), name+"_"+newVersion+"-1_"+arch+".deb")
}

func field(t *testing.T, deb, name string) string {
	t.Helper()
	out, err := exec.Command("dpkg-deb", "--field", deb, name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Given the packages of liblnetd, lintian has no finding, they depend on each other, and they have the same files as the
// rpms, in the places of each distribution.
func TestLibraryPackages(t *testing.T) {
	t.Parallel()
	built(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	testenv.NeedCommand(t, "lintian", "lintian")
	rpmArch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	for _, c := range []struct {
		deb, debArch, depends string
		rpm, rpmArch          string
		provides              []string
		files                 []string // some of them, with LIB for the directory of libraries
	}{
		{
			deb: "liblnetd0", debArch: runtime.GOARCH, depends: "libc6 (>= 2.34)", rpm: "liblnetd", rpmArch: rpmArch,
			provides: []string{"liblnetd.so.0()(64bit)", "liblnetd.so.0(LNETD_0)(64bit)"},
			files:    []string{"LIB/liblnetd.so.0", "LIB/liblnetd.so.0.0.0", "/usr/share/lnetd/sbom/liblnetd.cdx.json"},
		},
		{
			deb: "liblnetd-dev", debArch: runtime.GOARCH, depends: "liblnetd0 (= " + newVersion + "-1), libc6-dev",
			rpm: "liblnetd-devel", rpmArch: rpmArch, provides: []string{"pkgconfig(lnetd)"},
			files: []string{
				"LIB/liblnetd.so", "LIB/liblnetd.a", "LIB/pkgconfig/lnetd.pc", "/usr/include/lnetd.h", "/usr/share/man/man3/lnetd.3.gz",
				"/usr/share/man/man3/lnetd_open.3.gz", "/usr/share/doc/NAME/examples/lnetd.c", "/usr/share/doc/NAME/examples/echo.c",
			},
		},
		{
			deb: "python3-lnetd", debArch: "all", depends: "python3 (>= 3.9), liblnetd0 (>= " + newVersion + "-1)",
			rpm: "python3-lnetd", rpmArch: "noarch", files: []string{"/usr/share/doc/NAME/examples/echo.py", "PYTHON/lnetd/__init__.py", "PYTHON/lnetd/py.typed"},
		},
	} {
		t.Run(c.deb, func(t *testing.T) {
			deb := libraryDeb(t, c.deb, c.debArch)
			out, err := exec.Command("lintian", "--no-cfg", "--allow-root", "--tag-display-limit", "0", "--info", "--fail-on", "error,warning", deb).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("lintian: %v\n%s", err, out)
			}
			if got := field(t, deb, "Depends"); got != c.depends {
				t.Errorf("it depends on %s, want %s", got, c.depends)
			}
			// Paths in words that are the same for both.
			plain := func(kind, name, path string) string {
				lib, python := "/usr/lib/"+triplet, "/usr/lib/python3/dist-packages"
				if kind == "rpm" {
					lib, python = "/usr/lib64", "/usr/share/lnetd/python"
				}
				return strings.NewReplacer(lib+"/", "LIB/", python+"/", "PYTHON/", "/usr/share/doc/"+name+"/", "/usr/share/doc/NAME/").Replace(path)
			}
			var inDeb, inRPM []string
			for name := range unpackDeb(t, deb) {
				if strings.HasSuffix(name, "/") || strings.HasSuffix(name, "/copyright") || strings.Contains(name, "/lintian/") || strings.HasSuffix(name, ".Debian.gz") {
					continue
				}
				inDeb = append(inDeb, plain("deb", c.deb, strings.TrimPrefix(name, ".")))
			}
			rpmFile := filepath.Join(built(t), c.rpm+"-"+newVersion+"-1."+c.rpmArch+".rpm")
			for line := range strings.Lines(query(t, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]", rpmFile)) {
				mode, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				if mode[0] == 'd' {
					if !strings.Contains(name, "lnetd") && name != "/usr/lib64/pkgconfig" { // which many packages own
						t.Errorf("the rpm owns the directory %s", name)
					}
				} else if !strings.Contains(name, "/licenses/") {
					inRPM = append(inRPM, plain("rpm", c.rpm, name))
				}
			}
			slices.Sort(inDeb)
			slices.Sort(inRPM)
			if diff := cmp.Diff(inDeb, inRPM); diff != "" {
				t.Errorf("deb (-), rpm (+):\n%s", diff)
			}
			for _, f := range c.files {
				if !slices.Contains(inDeb, f) {
					t.Errorf("it has no %s, but %q", f, inDeb)
				}
			}
			provided := query(t, "--provides", rpmFile)
			for _, p := range c.provides {
				if !strings.Contains(provided, p) {
					t.Errorf("the rpm does not provide %s, but\n%s", p, provided)
				}
			}
		})
	}
}

// Given the package of the library, it has the right name, needs no other library, and does not contain the path where
// it was built. Its lists of symbols have what it exports. Its SBOM has the version.
func TestLibrarySymbols(t *testing.T) {
	t.Parallel()
	built(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	deb := libraryDeb(t, "liblnetd0", runtime.GOARCH)
	files := unpackDeb(t, deb)
	binary := files["./usr/lib/"+triplet+"/liblnetd.so.0.0.0"]
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	if names, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(names, []string{"liblnetd.so.0"}) {
		t.Errorf("its name is %q, %v", names, err)
	}
	checkLibraries(t, "liblnetd", binary)
	here, err := filepath.Abs(sources)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(binary, []byte(here)) {
		t.Errorf("it says that it was built in %s", here)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	exported := []string{"LNETD_0"}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && s.Name != "LNETD_0" {
			exported = append(exported, s.Name)
		}
	}
	var listed []string
	control := controlOf(t, deb)
	for line := range strings.Lines(control["./symbols"]) {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), "@"); rest == "LNETD_0 "+newVersion {
			listed = append(listed, name)
		}
	}
	slices.Sort(exported)
	slices.Sort(listed)
	if diff := cmp.Diff(exported, listed); diff != "" {
		t.Errorf("exported (-), listed (+):\n%s", diff)
	}
	if got, want := control["./shlibs"], "liblnetd 0 liblnetd0 (>= "+newVersion+")\n"; got != want {
		t.Errorf("shlibs: %q, want %q", got, want)
	}
	if got := control["./triggers"]; !strings.Contains(got, "activate-noawait ldconfig") {
		t.Errorf("triggers: %q", got)
	}
	var b bom
	if err := json.Unmarshal(files["./usr/share/lnetd/sbom/liblnetd.cdx.json"], &b); err != nil || b.Metadata.Component.Name != "liblnetd" ||
		b.Metadata.Component.Version != "v"+newVersion || b.Metadata.Timestamp != "2026-09-21T14:13:20Z" {
		t.Errorf("the SBOM: %+v, %v", b, err)
	}
}

// controlOf returns the files that dpkg reads of a package.
func controlOf(t *testing.T, deb string) map[string]string {
	t.Helper()
	out, err := exec.Command("dpkg-deb", "--ctrl-tarfile", deb).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}

// Given the unpacked packages, when the example of lnetd(3) is compiled as pkg-config says, with the library of either
// kind, then it runs. A program in Python says that there is no lnetd.
func TestLibraryUnpacked(t *testing.T) {
	t.Parallel()
	built(t)
	for command, debian := range map[string]string{"pkg-config": "pkg-config", "python3": "python3", "dpkg-deb": "dpkg"} {
		testenv.NeedCommand(t, command, debian)
	}
	root := t.TempDir()
	for name, arch := range map[string]string{"liblnetd0": runtime.GOARCH, "liblnetd-dev": runtime.GOARCH, "python3-lnetd": "all"} {
		if out, err := exec.Command("dpkg-deb", "--extract", libraryDeb(t, name, arch), root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, c := range []struct{ name, script, want string }{
		{"shared", `gcc -Wall -Werror -o "$ROOT/shared" "$EXAMPLE" $(pkg-config --cflags --libs lnetd) && "$ROOT/shared"`, "usage: hello "},
		{"static", `gcc -Wall -Werror -o "$ROOT/static" "$EXAMPLE" -static $(pkg-config --static --cflags --libs lnetd) && "$ROOT/static"`, "usage: hello "},
		{"version", `pkg-config --modversion lnetd; false`, newVersion + "\n"},
		{"Python", `python3 -B -c 'import lnetd; lnetd.Connection("/nonexistent/lnetd.sock")'`, "connect to lnetd at /nonexistent/lnetd.sock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib := root + "/usr/lib/" + triplet
			cmd := exec.Command("sh", "-c", c.script)
			cmd.Env = append(os.Environ(), "ROOT="+root, "EXAMPLE="+root+"/usr/share/doc/liblnetd-dev/examples/lnetd.c",
				"PKG_CONFIG_PATH="+lib+"/pkgconfig", "PKG_CONFIG_SYSROOT_DIR="+root, "LD_LIBRARY_PATH="+lib,
				"PYTHONPATH="+root+"/usr/lib/python3/dist-packages")
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, out)
			}
		})
	}
}

// Given a booted machine with lnetd and the library, programs that were compiled with the packages exchange a
// message through the lnetd that runs, and the dynamic linker knows the library until the package is removed.
func TestLibraryInstalled(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	built(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	root := t.TempDir()
	for _, name := range []string{"liblnetd0", "liblnetd-dev"} {
		if out, err := exec.Command("dpkg-deb", "--extract", libraryDeb(t, name, runtime.GOARCH), root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for program, example := range map[string]string{"hello": "lnetd.c", "echo": "echo.c"} {
		if out, err := exec.Command("gcc", "-o", m.Path("/root/"+program), root+"/usr/share/doc/liblnetd-dev/examples/"+example,
			"-I"+root+"/usr/include", "-L"+root+"/usr/lib/"+triplet, "-llnetd").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	m.install(t, deb(t))
	m.install(t, libraryDeb(t, "liblnetd0", runtime.GOARCH))
	m.Boot(t)
	m.Must(t, "ldconfig -p | grep -q liblnetd.so.0 && systemctl start lnetd.service")
	// The message arrives as soon as echo has started.
	m.Must(t, `address="$(lnetdctl net show | sed -n 's/^.* nid: \(.*@tcp\)$/\1/p'):12345:34:7"
		/root/echo "$address" &
		until /root/hello "$address"; do kill -0 $! || exit 1; sleep 0.1; done
		kill $!`)
	m.Must(t, "dpkg --purge liblnetd0")
	if got, err := m.Try(t, "ldconfig -p | grep liblnetd; /root/hello"); err == nil || !strings.Contains(got, "cannot open shared object file") || strings.Contains(got, "=>") {
		t.Errorf("after the removal: %s%v", got, err)
	}
}
