package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// uid is the user ID of user.
const uid = 65532

// packageParts lists the directories of a package that a container needs. The others have units, manual
// pages and shell completion.
var packageParts = []string{"etc/lnetd", "usr/bin", "usr/share/doc/lnetd", "usr/share/lnetd/sbom"}

// containerFiles are the files that only a container has, with their content.
var containerFiles = map[string]string{
	"etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nlnetd:x:65532:65532:LNet in user space:/:/sbin/nologin\n",
	"etc/group":  "root:x:0:\nlnetd:x:65532:\n",
}

// layer returns a layer with the files of a container. Their order depends only on their names.
func (r release) layer(root string) (v1.Layer, error) {
	var b bytes.Buffer
	t := &tree{out: tar.NewWriter(&b), release: r, directories: map[string]bool{}}
	for _, part := range packageParts {
		if err := t.copy(root, part); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"etc/group", "etc/passwd"} {
		if err := t.file(name, 0o644, []byte(containerFiles[name])); err != nil {
			return nil, err
		}
	}
	for _, d := range []struct {
		name string
		mode int64
		uid  int
	}{{"run/lnetd", 0o755, uid}, {"tmp", 0o1777, 0}} {
		if err := t.directory(d.name, d.mode, d.uid); err != nil {
			return nil, err
		}
	}
	if err := t.out.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
	)
}

// tree is a layer that is being written.
type tree struct {
	out         *tar.Writer
	release     release
	directories map[string]bool // directories
}

// copy adds root/part and all that it contains. Directories and programs get mode 0755 and other files
// 0644, whatever their mode in root.
func (t *tree) copy(root, part string) error {
	// WalkDir returns names in lexical order.
	return filepath.WalkDir(filepath.Join(root, part), func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return t.directory(filepath.ToSlash(name), 0o755, 0)
		}
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if strings.HasPrefix(name, "usr/bin/") {
			mode = 0o755
		}
		return t.file(filepath.ToSlash(name), mode, content)
	})
}

// directory adds a directory and its parents, unless they were added before.
func (t *tree) directory(name string, mode int64, uid int) error {
	if name == "." || t.directories[name] {
		return nil
	}
	if err := t.directory(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	t.directories[name] = true
	return t.out.WriteHeader(t.header(name+"/", tar.TypeDir, mode, uid, 0))
}

func (t *tree) file(name string, mode int64, content []byte) error {
	if err := t.directory(path.Dir(name), 0o755, 0); err != nil {
		return err
	}
	if err := t.out.WriteHeader(t.header(name, tar.TypeReg, mode, 0, len(content))); err != nil {
		return err
	}
	_, err := t.out.Write(content)
	return err
}

func (t *tree) header(name string, kind byte, mode int64, uid, size int) *tar.Header {
	return &tar.Header{
		Name: name, Typeflag: kind, Mode: mode, Size: int64(size), Uid: uid, Gid: uid, ModTime: t.release.created, Format: tar.FormatPAX,
	}
}
