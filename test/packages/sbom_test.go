package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

var programs = []string{"lnetd", "lnetdctl", "lnetperf"}

// bom is the part of a CycloneDX document that these tests read.
type bom struct {
	BOMFormat   string `json:"bomFormat"`
	SpecVersion string `json:"specVersion"`
	Metadata    struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	} `json:"metadata"`
	Components []component `json:"components"`
}

type component struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

// Given the package of each machine, its programs are static, for that machine, and built without
// paths. The SBOM of each program, in the package and beside it, names the linked modules and
// versions. The package contains the license of each of them.
func TestBillOfMaterials(t *testing.T) {
	t.Parallel()
	needMachine(t)
	testenv.NeedCommand(t, "dpkg-deb", "dpkg")
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		files := unpackDeb(t, filepath.Join(built(t), "lnetd_"+newVersion+"-1_"+arch+".deb"))
		licenses := gunzip(t, files["./usr/share/doc/lnetd/third-party-licenses.gz"])
		for _, program := range programs {
			binary := files["./usr/bin/"+program]
			checkBinary(t, arch+" "+program, binary, machine)
			info, err := buildinfo.Read(bytes.NewReader(binary))
			if err != nil {
				t.Fatal(err)
			}
			if program == "lnetd" && !bytes.Contains(binary, []byte(revision)) {
				t.Errorf("%s: the commit, which is a label of lnetd_build_info, is not in lnetd", arch)
			}
			text := files["./usr/share/lnetd/sbom/"+program+".cdx.json"]
			beside, err := os.ReadFile(filepath.Join(built(t), "sbom", arch, program+".cdx.json"))
			if err != nil || !bytes.Equal(text, beside) {
				t.Errorf("%s %s: the SBOM beside the package is another one, %v", arch, program, err)
			}
			var b bom
			if err := json.Unmarshal(text, &b); err != nil {
				t.Fatalf("%s %s: %v", arch, program, err)
			}
			if b.BOMFormat != "CycloneDX" || b.Metadata.Component.Version != "v"+newVersion || b.Metadata.Timestamp != "2026-09-21T14:13:20Z" {
				t.Errorf("%s %s: a %s of %+v", arch, program, b.BOMFormat, b.Metadata)
			}
			want := []string{"std " + info.GoVersion}
			for _, m := range info.Deps {
				want = append(want, m.Path+" "+m.Version)
				if !strings.Contains(licenses, "==== "+m.Path+"@"+m.Version+": ") {
					t.Errorf("there is no license of %s@%s", m.Path, m.Version)
				}
			}
			var got []string
			for _, c := range b.Components {
				got = append(got, c.Name+" "+c.Version)
				if !strings.HasPrefix(c.PURL, "pkg:golang/") {
					t.Errorf("%s %s: %s is %q", arch, program, c.Name, c.PURL)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %s: linked (-) and named (+):\n%s", arch, program, diff)
			}
		}
	}
}

// checkBinary checks that a program is static, and does not contain the path where it was built.
func checkBinary(t *testing.T, what string, binary []byte, machine elf.Machine) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is not static", what)
		}
	}
	if f.Machine != machine {
		t.Errorf("%s is for %v", what, f.Machine)
	}
	here, err := filepath.Abs(sources)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(binary, []byte(here)) {
		t.Errorf("%s says that it was built in %s", what, here)
	}
}

// unpackDeb returns the files of a package.
func unpackDeb(t *testing.T, deb string) map[string][]byte {
	t.Helper()
	out, err := exec.Command("dpkg-deb", "--fsys-tarfile", deb).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(out)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func gunzip(t *testing.T, b []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
