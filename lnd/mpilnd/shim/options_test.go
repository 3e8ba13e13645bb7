package shim

import (
	"errors"
	"testing"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
)

func TestLauncher(t *testing.T) {
	for name, c := range map[string]struct {
		env     map[string]string
		kind    string
		found   int
		options Options
		want    launcher
		refused bool
	}{
		"NoLauncher":          {nil, MPICH, 1, Options{}, launcher{}, false},
		"TooFewProcesses":     {nil, MPICH, 1, Options{Processes: 2}, launcher{}, true},
		"OpenMPI":             {map[string]string{"OMPI_COMM_WORLD_SIZE": "4"}, OpenMPI, 4, Options{Processes: 2}, launcher{OpenMPI, 4}, false},
		"MPICH":               {map[string]string{"PMI_SIZE": "4", "HYDI_CONTROL_FD": "7"}, MPICH, 4, Options{}, launcher{MPICH, 4}, false},
		"MPICHUnderOpenMPI":   {map[string]string{"OMPI_COMM_WORLD_SIZE": "1"}, MPICH, 1, Options{}, launcher{OpenMPI, 1}, true},
		"OpenMPIUnderMPICH":   {map[string]string{"PMI_SIZE": "1", "HYDI_CONTROL_FD": "7"}, OpenMPI, 1, Options{}, launcher{MPICH, 1}, true},
		"OtherUnderOpenMPI":   {map[string]string{"OMPI_COMM_WORLD_SIZE": "4"}, "other", 1, Options{}, launcher{OpenMPI, 4}, true},
		"OpenMPIUnderAnother": {map[string]string{"PMI_SIZE": "4"}, OpenMPI, 4, Options{}, launcher{"", 4}, false},
		"UnknownUnderAnother": {map[string]string{"PMI_SIZE": "4"}, OpenMPI, 1, Options{}, launcher{"", 4}, true},
		"OneUnderAnother":     {map[string]string{"PMI_SIZE": "1"}, OpenMPI, 1, Options{}, launcher{"", 1}, false},
	} {
		l := findLauncher(func(name string) string { return c.env[name] })
		if l != c.want {
			t.Errorf("%s: %+v, want %+v", name, l, c.want)
		}
		err := errors.Join(l.checkKind(c.kind), l.checkSize(c.found, c.options))
		if errors.Is(err, boundary.ErrLauncher) != c.refused {
			t.Errorf("%s: %v, refused should be %t", name, err, c.refused)
		}
	}
}
