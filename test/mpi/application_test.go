//go:build mpi && cgo

package mpi

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/internal/testing/process"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// preloaded compiles a file in testdata, and returns the path of the shared object.
func preloaded(t *testing.T, l library, name string) string {
	t.Helper()
	so := filepath.Join(t.TempDir(), name+".so")
	c := exec.Command("mpicc."+l.kind, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", "-o", so, "testdata/"+name+".c")
	if err := run(c); err != nil {
		t.Fatal(err)
	}
	return so
}

// An application that has initialized MPI makes collective calls, sends and receives with any tag, and makes errors, all
// on MPI_COMM_WORLD, while its ranks exchange messages over LNet. It gets its own messages alone, and its error handler
// all errors. LNet calls nothing with MPI_COMM_WORLD but what asks for rank, size and the largest tag, and what
// duplicates it.
//
// PT-8, MPI-6
func TestWorldIsTheApplications(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		const ranks = 3
		so := preloaded(t, l, "world")
		checkRecorded(t, so, filepath.Join(programs, "lnetd-"+l.kind+".so"))
		out, err := l.run(t, "-n", fmt.Sprint(ranks), "env", "LD_PRELOAD="+so, filepath.Join(programs, "mpiping"))
		if err != nil || strings.Count(out, ": 2 pings, 7 PUTs in ") != ranks || strings.Count(out, "application: passed") != ranks {
			t.Errorf("%v\n%s", err, out)
		}
		t.Log(out)
	})
}

// checkRecorded checks that the application has a function for each function of MPI that the shim calls, except for
// those that have no communicator.
func checkRecorded(t *testing.T, application, shim string) {
	t.Helper()
	without := []string{
		"Cancel", "Comm_f2c", "Comm_get_parent", "Error_class", "Error_string", "Finalize", "Finalized", "Get_count", "Get_library_version",
		"Info_create", "Info_free", "Info_set", "Initialized", "Open_port", "Query_thread", "Test_cancelled", "Testsome",
	}
	symbols, err := open(t, application).DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	recorded := make(map[string]bool)
	for _, s := range symbols {
		recorded[s.Name] = s.Section != elf.SHN_UNDEF
	}
	for _, name := range functions(t, shim) {
		if !recorded["MPI_"+name] && !slices.Contains(without, name) {
			t.Errorf("the shim calls MPI_%s, which is not recorded", name)
		}
	}
}

// open opens a shared object until the end of the test.
func open(t *testing.T, path string) *elf.File {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// functions returns the functions of MPI that a shim calls, without their prefix.
func functions(t *testing.T, shim string) []string {
	t.Helper()
	calls, err := open(t, shim).ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range calls {
		if name, ok := strings.CutPrefix(s.Name, "MPI_"); ok {
			names = append(names, name)
		}
	}
	return names
}

// The shim calls functions that all versions of MPI have, and only those of MPI 2 that threads and connections need. It
// has one of MPI 3, for displays.
//
// MPI-1, MPI-2
func TestCommonFunctions(t *testing.T) {
	all := map[string][]string{
		"MPI 1": {
			"Abort", "Barrier", "Bcast", "Cancel", "Comm_dup", "Comm_free", "Comm_rank", "Comm_remote_size", "Comm_size",
			"Error_class", "Error_string", "Finalize", "Gather", "Get_count", "Initialized", "Irecv", "Isend",
			"Test_cancelled", "Testsome",
		},
		"MPI 2": {
			"Comm_accept", "Comm_connect", "Comm_disconnect", "Comm_f2c", "Comm_get_attr", "Comm_get_parent", "Comm_set_errhandler",
			"Comm_spawn_multiple", "Finalized", "Info_create", "Info_free", "Info_set", "Init_thread", "Open_port", "Query_thread",
		},
		"MPI 3": {"Get_library_version"},
	}
	onLibraries(t, func(t *testing.T, l library) {
		for _, name := range functions(t, filepath.Join(programs, "lnetd-"+l.kind+".so")) {
			if !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(v []string) bool { return slices.Contains(v, name) }) {
				t.Errorf("the shim calls MPI_%s", name)
			}
		}
	})
}

// The levels of MPI that are below MPI_THREAD_MULTIPLE, whose numbers are the same in both libraries.
const (
	single     = "0"
	serialized = "2"
)

// An application that has initialized MPI without MPI_THREAD_MULTIPLE is told so, because LNet's thread calls MPI at
// any time.
//
// MPI-9
func TestThreadsAreNeeded(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		so := preloaded(t, l, "world")
		for _, level := range []string{single, serialized} {
			out, err := l.run(t, "-n", "2", "env", "LD_PRELOAD="+so, "APPLICATION_LEVEL="+level, filepath.Join(programs, "mpiping"))
			if err == nil || !strings.Contains(out, "without MPI_THREAD_MULTIPLE") {
				t.Errorf("level %s: %v\n%s", level, err, out)
			}
		}
	})
}

// The library grants one thread, and so LNet's is the only one. A rank computes on its only processor, and does not call
// LNet, until another rank has had all answers from it and has sent it all messages.
//
// PT-9, MPI-9
func TestApplicationComputes(t *testing.T) {
	built(t)
	onLibraries(t, func(t *testing.T, l library) {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "answered")
		order := order{Role: "compute", Shims: programs, File: file, Limit: limit}
		so := preloaded(t, l, "world")
		out, err := l.run(t, "-n", "2", "env", "LD_PRELOAD="+so, "LIBRARY_LEVEL="+single, "GOMAXPROCS=1",
			process.Order(t, rankEnv, order), program)
		if err != nil || strings.Count(out, "done ") != 2 || strings.Count(out, "the library grants level "+single+"\n") != 2 {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// compute computes in rank 0 until rank 1 has written a file, which it does when rank 0 has answered everything.
func compute(ctx context.Context, r *rank) error {
	if r.Self().Rank == 0 {
		for x := uint64(1); ; x = scramble(x) {
			if _, err := os.Stat(r.order.File); err == nil {
				break
			} else if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
				return fmt.Errorf("%x: %w", x, err)
			}
		}
		if err := receiveAll(ctx, r.inbox, 1); err != nil {
			return err
		}
		say("done", r.Self())
		return nil
	}
	first := r.Members()[0]
	to := lnet.ProcessID{NID: first.NID, PID: first.PID}
	for range 3 {
		if _, err := r.Node().Ping(ctx, to, node.PingOptions{}); err != nil {
			return fmt.Errorf("ping: %w", err)
		}
	}
	if err := putAll(ctx, r.Node(), to); err != nil {
		return err
	}
	say("done", r.Self())
	return os.WriteFile(r.order.File, nil, 0o600)
}

// scramble uses the processor.
func scramble(x uint64) uint64 {
	for range 1 << 16 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}
