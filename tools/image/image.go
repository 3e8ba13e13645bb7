package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user and group that lnetd runs as in a container. They are numbers, because Kubernetes'
// runAsNonRoot does not look up names in /etc/passwd.
const user = "65532:65532"

// release describes the release of lnetd that the images contain.
type release struct {
	version, revision string
	created           time.Time
}

// labels returns the labels of an image, with the keys that OCI defines (image-spec, annotations).
func (r release) labels() map[string]string {
	l := map[string]string{
		"org.opencontainers.image.title":       "lnetd",
		"org.opencontainers.image.description": "LNet, the network layer of Lustre, in user space",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/lnetd/lnetd",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
	}
	if r.revision != "" {
		l["org.opencontainers.image.revision"] = r.revision
	}
	return l
}

// index returns an index of the images for the given architectures. The files of an image are in
// stage/ARCH/root.
func (r release) index(stage string, machines []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range machines {
		image, err := r.image(filepath.Join(stage, arch, "root"), arch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	annotated, ok := mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("the annotated image index has the unexpected type %T", annotated)
	}
	return annotated, nil
}

// image returns the image of one architecture.
func (r release) image(root, arch string) (v1.Image, error) {
	layer, err := r.layer(root)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: arch,
		OS:           "linux",
		Created:      v1.Time{Time: r.created},
		Config: v1.Config{
			User:       user,
			Entrypoint: []string{"/usr/bin/lnetd"},
			Cmd:        []string{"--config", "/etc/lnetd/lnetd.yaml"},
			// lnetd is not root here, so lnetd and lnetdctl use sockets in XDG_RUNTIME_DIR.
			Env:          []string{"PATH=/usr/bin", "XDG_RUNTIME_DIR=/run"},
			ExposedPorts: map[string]struct{}{"988/tcp": {}, "9988/tcp": {}},
			StopSignal:   "SIGTERM",
			Labels:       r.labels(),
			WorkingDir:   "/",
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{CreatedBy: "deploy/packages/build", Created: v1.Time{Time: r.created}},
	})
}

// write creates the directory dir with an OCI layout that contains the index. The index is named after
// the version. It returns an error if dir exists.
func (r release) write(dir string, index v1.ImageIndex) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, fs.ErrExist)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
	}))
}
