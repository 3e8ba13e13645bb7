package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// PortVariable is the environment variable with the port of a job of proxies, in the form that Port understands. mpirun
// can pass it to the processes.
const PortVariable = "LNET_MPI_PORT"

// filePrefix marks a port whose name is in a file.
const filePrefix = "file:"

// ListenFile returns a function for Config.Listen that writes the name of the port to a file. The file is complete when
// it appears. It replaces an existing one, and only this user can read it.
func ListenFile(path string) func(port string) error {
	return func(port string) error {
		f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(f, port)
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
		return err
	}
}

// Port returns a function for Config.Connect. text is the name of a port, or file: and the path of a file with the name,
// which it waits for.
func Port(text string) func(ctx context.Context) (string, error) {
	path, isFile := strings.CutPrefix(text, filePrefix)
	if !isFile {
		return func(context.Context) (string, error) { return text, nil }
	}
	return func(ctx context.Context) (string, error) {
		const interval = 100 * time.Millisecond
		look := time.NewTicker(interval)
		defer look.Stop()
		for {
			b, err := os.ReadFile(path)
			switch port := strings.TrimSpace(string(b)); {
			case err == nil && port == "":
				return "", fmt.Errorf("%s is empty", path)
			case err == nil:
				return port, nil
			case !errors.Is(err, fs.ErrNotExist):
				return "", err
			}
			select {
			case <-look.C:
			case <-ctx.Done():
				return "", fmt.Errorf("%s does not exist: %w", path, context.Cause(ctx))
			}
		}
	}
}
