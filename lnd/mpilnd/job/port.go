package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
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

// SpawnVariable is the environment variable with the hosts and the program of proxies that the application starts, in the
// form that ParseSpawn understands.
const SpawnVariable = "LNET_MPI_SPAWN"

// ParseSpawn returns the program for Config.Spawn. text is a list of hosts, separated by commas, and behind it perhaps
// the program and its options, separated by blanks. Otherwise the program is lnet-mpi-proxy. The option --spawned is
// added.
func ParseSpawn(text string) (*boundary.Program, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, errors.New("there are no hosts for the proxies")
	}
	p := &boundary.Program{Path: "lnet-mpi-proxy", Hosts: strings.Split(words[0], ",")}
	if slices.Contains(p.Hosts, "") {
		return nil, fmt.Errorf("a host in %q has no name", words[0])
	}
	if len(words) > 1 {
		p.Path, p.Args = words[1], words[2:]
	}
	p.Args = append(p.Args, "--spawned")
	return p, nil
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
