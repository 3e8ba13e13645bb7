package packages

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// descriptor, index, manifest and settings are the parts of OCI documents that these tests read.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations"`
	Platform    struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
}

type index struct {
	MediaType   string            `json:"mediaType"`
	Manifests   []descriptor      `json:"manifests"`
	Annotations map[string]string `json:"annotations"`
}

type manifest struct {
	MediaType string       `json:"mediaType"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

type settings struct {
	Architecture string `json:"architecture"`
	Created      string `json:"created"`
	Config       struct {
		User       string            `json:"User"`
		Entrypoint []string          `json:"Entrypoint"`
		Cmd        []string          `json:"Cmd"`
		Env        []string          `json:"Env"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// ociLayout is an image in the file system, in the layout of the image specification.
type ociLayout struct{ dir string }

// blob reads the blob of a descriptor, and checks its size and digest.
func (l ociLayout) blob(t *testing.T, d descriptor, mediaType string) []byte {
	t.Helper()
	sum, ok := strings.CutPrefix(d.Digest, "sha256:")
	if !ok || d.MediaType != mediaType {
		t.Fatalf("a %s with digest %s, want a %s", d.MediaType, d.Digest, mediaType)
	}
	b, err := os.ReadFile(filepath.Join(l.dir, "blobs", "sha256", sum))
	if err != nil {
		t.Fatal(err)
	}
	if got := digest(b); got != d.Digest || len(b) != d.Size {
		t.Fatalf("%s has %d bytes with digest %s, want %d", d.Digest, len(b), got, d.Size)
	}
	return b
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func decode[T any](t *testing.T, b []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	return v
}

// images returns the images of the index with the version's name, by machine.
func (l ociLayout) images(t *testing.T) map[string]manifest {
	t.Helper()
	version, err := os.ReadFile(filepath.Join(l.dir, "oci-layout"))
	if err != nil || decode[map[string]string](t, version)["imageLayoutVersion"] != "1.0.0" {
		t.Fatalf("%s, %v", version, err)
	}
	text, err := os.ReadFile(filepath.Join(l.dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	top := decode[index](t, text)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v"+newVersion {
		t.Fatalf("index.json is %s", text)
	}
	const indexType, manifestType = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
	all := decode[index](t, l.blob(t, top.Manifests[0], indexType))
	if diff := cmp.Diff(labels, all.Annotations); diff != "" || all.MediaType != indexType {
		t.Errorf("the index is a %s, with annotations\n%s", all.MediaType, diff)
	}
	images := map[string]manifest{}
	for _, d := range all.Manifests {
		m := decode[manifest](t, l.blob(t, d, manifestType))
		if d.Platform.OS != "linux" || m.MediaType != manifestType || len(m.Layers) != 1 {
			t.Fatalf("%+v: %+v", d, m)
		}
		images[d.Platform.Architecture] = m
	}
	return images
}

var labels = map[string]string{
	"org.opencontainers.image.created":     "2026-09-21T14:13:20Z",
	"org.opencontainers.image.description": "LNet, the network layer of Lustre, in user space",
	"org.opencontainers.image.licenses":    "Apache-2.0",
	"org.opencontainers.image.revision":    revision,
	"org.opencontainers.image.source":      "https://github.com/lnetd/lnetd",
	"org.opencontainers.image.title":       "lnetd",
	"org.opencontainers.image.version":     "v" + newVersion,
}

// read returns one machine's image: its settings and its uncompressed layer.
func (l ociLayout) read(t *testing.T, m manifest) (settings, []byte) {
	t.Helper()
	s := decode[settings](t, l.blob(t, m.Config, "application/vnd.oci.image.config.v1+json"))
	layer := []byte(gunzip(t, l.blob(t, m.Layers[0], "application/vnd.oci.image.layer.v1.tar+gzip")))
	if diff := cmp.Diff([]string{digest(layer)}, s.RootFS.DiffIDs); diff != "" {
		t.Errorf("layers are not what the configuration says:\n%s", diff)
	}
	return s, layer
}

// Given the image as an OCI layout, it has the programs of the packages for both machines, runs as
// an unprivileged user, and has the expected labels.
func TestImage(t *testing.T) {
	t.Parallel()
	l := ociLayout{filepath.Join(built(t), "image")}
	images := l.images(t)
	for _, arch := range []string{"amd64", "arm64"} {
		s, layer := l.read(t, images[arch])
		if s.Architecture != arch || s.Created != labels["org.opencontainers.image.created"] || s.Config.User != "65532:65532" {
			t.Errorf("%s: %+v", arch, s)
		}
		if diff := cmp.Diff(labels, s.Config.Labels); diff != "" {
			t.Errorf("%s: labels:\n%s", arch, diff)
		}
		files := map[string][]byte{}
		walk(t, layer, func(h *tar.Header, content []byte) {
			files[h.Name] = content
			if h.Typeflag == tar.TypeReg && (h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0) {
				t.Errorf("%s: %s has rights %o and belongs to %d", arch, h.Name, h.Mode, h.Uid)
			}
		})
		inDeb := unpackDeb(t, filepath.Join(built(t), "lnetd_"+newVersion+"-1_"+arch+".deb"))
		for _, program := range programs {
			if digest(files["usr/bin/"+program]) != digest(inDeb["./usr/bin/"+program]) {
				t.Errorf("%s: %s is not that of the package", arch, program)
			}
		}
	}
	if len(images) != 2 {
		t.Errorf("images for %d machines", len(images))
	}
}

// rootOf unpacks the image for this machine.
func rootOf(t *testing.T) (string, settings) {
	t.Helper()
	l := ociLayout{filepath.Join(built(t), "image")}
	s, layer := l.read(t, l.images(t)[runtime.GOARCH])
	root := filepath.Join(t.TempDir(), "root")
	unpack(t, layer, root)
	return root, s
}

// walk calls visit for each entry of an archive.
func walk(t *testing.T, archive []byte, visit func(h *tar.Header, content []byte)) {
	t.Helper()
	for r := tar.NewReader(strings.NewReader(string(archive))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		visit(h, content)
	}
}

// unpack unpacks a layer, with owners and modes.
func unpack(t *testing.T, layer []byte, root string) {
	t.Helper()
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tar", "-x", "-p", "--numeric-owner", "-C", root)
	cmd.Stdin = strings.NewReader(string(layer))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
