package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

// Limits of one file.
const (
	fileMax     = 16 << 20 // bytes
	fileTimeout = 20 * time.Second
)

// contentsName is the name of the file that lists the others.
const contentsName = "CONTENTS.txt"

// Bundle describes an archive. The zero value of each field but Client is valid.
type Bundle struct {
	// Client is for the lnetd that the archive is about. It need not be running.
	Client *client.Client
	// Config is the path of its configuration file.
	Config string
	// Name is the name of the directory in the archive.
	Name string
	// Version is the version of the calling program.
	Version string
	// Now is the time of the archive.
	Now time.Time
	// Report, if not nil, is called for each file.
	Report func(File)
}

// File describes a file of an archive.
type File struct {
	// Name is the path of the file below the archive's directory.
	Name string
	// About says what the file contains.
	About string
	// Size is the number of bytes. It is 0 if Err is not nil.
	Size int
	// Cut reports whether the file was longer and lacks its end.
	Cut bool
	// Err is the reason why the file is missing, or nil.
	Err error
}

// source is a file to collect.
type source struct {
	name, about string
	collect     func(ctx context.Context) ([]byte, error)
}

// Write collects the files and writes the archive, a gzipped tar, to w. It returns an error only if w does, or if ctx is
// done. Files that cannot be collected are reported and listed in the archive.
func (b *Bundle) Write(ctx context.Context, w io.Writer) error {
	return b.write(ctx, w, append(b.fromLnetd(), b.fromHost()...))
}

func (b *Bundle) write(ctx context.Context, w io.Writer, sources []source) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	var files []File
	for k := range sources {
		s := &sources[k]
		text, err := collect(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f := File{Name: s.name, About: s.about, Err: err}
		if err == nil {
			text = redact(text)
			if len(text) > fileMax {
				text, f.Cut = text[:fileMax], true
			}
			f.Size = len(text)
			err = b.add(t, s.name, text)
			if err != nil {
				return err
			}
		}
		files = append(files, f)
		if b.Report != nil {
			b.Report(f)
		}
	}
	return errors.Join(b.add(t, contentsName, b.contents(files)), t.Close(), z.Close())
}

// collect collects one file within fileTimeout.
func collect(ctx context.Context, s *source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	return s.collect(ctx)
}

func (b *Bundle) add(t *tar.Writer, name string, text []byte) error {
	const private = 0o600
	h := tar.Header{Name: b.Name + "/" + name, Mode: private, Size: int64(len(text)), ModTime: b.Now, Typeflag: tar.TypeReg}
	if err := t.WriteHeader(&h); err != nil {
		return err
	}
	_, err := t.Write(text)
	return err
}

// contents returns the list of the files, with what is missing and what was replaced.
func (b *Bundle) contents(files []File) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Made by lnetdctl %s at %s.\n\n", b.Version, b.Now.Format(time.RFC3339))
	for k := range files {
		fmt.Fprintln(&out, files[k].String())
	}
	out.WriteString("\nReplaced by " + redacted + " in all files:\n")
	for _, r := range redactions {
		fmt.Fprintf(&out, "- %s, because %s\n", r.what, r.why)
	}
	out.WriteString(`
Not replaced, because nothing can be diagnosed without them: NIDs, addresses, names of interfaces, hosts and programs,
user IDs, and paths. Read the files before you publish them. No payload of messages and no environment is included.
`)
	return out.Bytes()
}

// String returns the file as a line of the list.
func (f *File) String() string {
	switch {
	case f.Err != nil:
		return fmt.Sprintf("%-26s missing: %s", f.Name, strings.Join(strings.Fields(f.Err.Error()), " "))
	case f.Cut:
		return fmt.Sprintf("%-26s %9d  %s; its end is missing", f.Name, f.Size, f.About)
	}
	return fmt.Sprintf("%-26s %9d  %s", f.Name, f.Size, f.About)
}
