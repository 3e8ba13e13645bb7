package packages

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// makeRelease makes a signed release of this version for this machine, from a copy of the sources whose
// CHANGELOG.md has a section for it. The keys are in scratch.
var makeRelease = sync.OnceValue(func() error {
	if err := buildTools(); err != nil {
		return err
	}
	key := filepath.Join(scratch, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", key).CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	copied := filepath.Join(scratch, "sources")
	if err := copyTree(copied); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(copied, "CHANGELOG.md"), []byte("# Changes\n\n## v1.1.0 (2026-09-21)\n"), 0o600); err != nil {
		return err
	}
	return runScript("release", copied, filepath.Join(scratch, "release"), "v"+newVersion, "ARCHES="+runtime.GOARCH, "SIGNING_KEY="+key)
})

// released returns the directory of a release.
func released(t *testing.T) string {
	t.Helper()
	needMachine(t)
	testenv.NeedCommand(t, "ssh-keygen", "openssh-client")
	testenv.NeedCommand(t, "gcc", "gcc")
	needMPI(t)
	if err := makeRelease(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(scratch, "release")
}

// Given a release, it has the packages, archives, SBOMs and the image of this version, and nothing else.
// The signature is that of the key, for these checksums and for this purpose only, and the checksums
// are those of all files.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := released(t)
	arch, rpmArch := runtime.GOARCH, map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	want := []string{
		"SHA256SUMS", "SHA256SUMS.sig", "image",
		"liblnet-mpi-dev_" + newVersion + "-1_" + arch + ".deb", "liblnet-mpi0_" + newVersion + "-1_" + arch + ".deb",
		"liblnet_mpi-" + newVersion + "-1." + rpmArch + ".rpm", "liblnet_mpi-devel-" + newVersion + "-1." + rpmArch + ".rpm",
		"liblnetd-" + newVersion + "-1." + rpmArch + ".rpm", "liblnetd-dev_" + newVersion + "-1_" + arch + ".deb",
		"liblnetd-devel-" + newVersion + "-1." + rpmArch + ".rpm", "liblnetd0_" + newVersion + "-1_" + arch + ".deb",
		"lnetd-" + newVersion + "-1." + rpmArch + ".rpm", "lnetd-mpi-" + newVersion + "-1." + rpmArch + ".rpm",
		"lnetd-mpi_" + newVersion + "-1_" + arch + ".deb", "lnetd-o2ib-" + newVersion + "-1." + rpmArch + ".rpm",
		"lnetd-o2ib-v" + newVersion + "-linux-" + arch + ".tar.gz", "lnetd-o2ib_" + newVersion + "-1_" + arch + ".deb",
		"lnetd-v" + newVersion + "-linux-" + arch + ".tar.gz", "lnetd_" + newVersion + "-1_" + arch + ".deb",
		"python3-lnetd-" + newVersion + "-1.noarch.rpm", "python3-lnetd_" + newVersion + "-1_all.deb", "sbom",
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	public, err := os.ReadFile(filepath.Join(scratch, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	signers := filepath.Join(t.TempDir(), "signers")
	if err := os.WriteFile(signers, append([]byte("release@lnetd "), public...), 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func(purpose string, sums []byte) error {
		cmd := exec.Command("ssh-keygen", "-Y", "verify", "-f", signers, "-I", "release@lnetd", "-n", purpose, "-s", filepath.Join(dir, "SHA256SUMS.sig"))
		cmd.Stdin = bytes.NewReader(sums)
		return cmd.Run()
	}
	if err := verify("lnetd-release", sums); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if verify("file", sums) == nil {
		t.Error("the signature is valid for another purpose")
	}
	if verify("lnetd-release", append([]byte("0"), sums...)) == nil {
		t.Error("the signature is valid for other checksums")
	}
	check := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("checksums: %v\n%s", err, out)
	}
	if n := bytes.Count(sums, []byte("\n")); n != len(contents(t, dir))-2 {
		t.Errorf("there are %d checksums of %d files", n, len(contents(t, dir)))
	}
}

// Given a key, a commit after a release is not signed, and neither is a release without a section in
// CHANGELOG.md. Nothing is built then.
func TestReleaseIsRefused(t *testing.T) {
	t.Parallel()
	needMachine(t)
	for version, want := range map[string]string{
		"v1.2.4-0.20261123071104-a2e248acec42": "v1.2.4-0.20261123071104-a2e248acec42 is not a release",
		"v1.2.3+dirty":                         "v1.2.3+dirty is not a release",
		"v987.6.5":                             "CHANGELOG.md has no section '## v987.6.5 (DATE)'",
	} {
		out := filepath.Join(t.TempDir(), "out")
		err := runScript("release", sources, out, version, "SIGNING_KEY="+os.DevNull)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
		if _, err := os.Lstat(out); err == nil {
			t.Errorf("%s: something was made", version)
		}
	}
}

// Given both archives, when they are unpacked in one directory, then its bin has the programs, its
// libexec has those with the driver for RDMA, and licenses, units and the configuration are there.
func TestArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"lnetd", "lnetd-o2ib"} {
		archive := filepath.Join(released(t), name+"-v"+newVersion+"-linux-"+runtime.GOARCH+".tar.gz")
		if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		packed, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(strings.NewReader(gunzip(t, packed))); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Uid != 0 || h.Gid != 0 || h.Mode&0o22 != 0 || strconv.FormatInt(h.ModTime.Unix(), 10) != epoch {
				t.Errorf("%s: %s: mode %o, of %d:%d, time %v", name, h.Name, h.Mode, h.Uid, h.Gid, h.ModTime)
			}
		}
	}
	top := "lnetd-v" + newVersion + "-linux-" + runtime.GOARCH
	files := contents(t, dir)
	for _, name := range []string{
		"bin/lnetd", "bin/lnetdctl", "bin/lnetperf", "libexec/lnetd/lnetd", "libexec/lnetd/lnetperf", "LICENSE", "etc/lnetd/lnetd.yaml",
		"lib/systemd/system/lnetd.service", "lib/systemd/system/lnetd.service.d/lnetd-o2ib.conf", "share/man/man8/lnetd.8.gz",
		"share/doc/lnetd/third-party-licenses.gz", "share/lnetd/sbom/lnetd.cdx.json", "share/lnetd/sbom/lnetd-o2ib.cdx.json",
	} {
		if len(files[filepath.Join(top, name)]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	for name := range files {
		if !strings.HasPrefix(name, top+"/") {
			t.Errorf("%s is not in %s", name, top)
		}
	}
	out, err := exec.Command(filepath.Join(dir, top, "bin", "lnetd"), "--version").Output()
	if err != nil || string(out) != "lnetd v"+newVersion+"\n" {
		t.Errorf("lnetd --version: %q, %v", out, err)
	}
}
