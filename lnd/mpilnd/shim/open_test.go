package shim_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
)

// TestOpenErrors: in every build, the error describes what to do.
func TestOpenErrors(t *testing.T) {
	for library, words := range map[string]map[error]string{
		"/nonexistent/shim.so": {boundary.ErrNotBuilt: "-tags mpi", boundary.ErrNoLibrary: "openmpi-bin"},
		"":                     {boundary.ErrNotBuilt: "-tags mpi", boundary.ErrLauncher: "mpirun"},
	} {
		m, err := shim.Open(library, shim.Options{})
		found := false
		for cause, word := range words {
			found = found || errors.Is(err, cause) && strings.Contains(err.Error(), word)
		}
		if !found || m != nil {
			t.Errorf("%q: %v", library, err)
		}
	}
}
