package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/lnd/mpilnd"
)

const description = `lnet-mpi-proxy connects the processes of an MPI application that use LNet with the
lnetd of its host. There is one on each host with an lnetd that the application is to
reach. They are processes of the application's job or, with --listen, a job of their own.
Each serves an NI of its lnetd on a net of the type mpi, so lnetd exchanges messages with
the processes of the application, and forwards messages between them and other nets if it
is a router.

The NI must exist in lnetd, and proxies of this user must be permitted. lnet-mpi-proxy waits
for both. It needs the shim for the MPI library, and must be built with MPI: see
docs/mpi.md. Options must fit those of the application.

With --listen, which must be given to all proxies of a job, the first one writes the name
of a port to FILE. The application connects to it if its variable LNET_MPI_PORT is
file:FILE. FILE exists while the proxies wait for the application, which is for the time
of --timeout. Both jobs need the name server of Open MPI.

An application can also start its proxies itself, if its library is Open MPI and its variable
LNET_MPI_SPAWN names their hosts. It adds the option --spawned.

lnet-mpi-proxy ends when all processes of the application have finished. If lnetd ends, or if
MPI fails, it ends with the exit status 1. mpirun then ends all processes of its job.`

const examples = `mpirun -n 64 app : -n 1 --host server1 lnet-mpi-proxy : -n 1 --host server2 lnet-mpi-proxy
mpirun -n 4 app : -n 1 lnet-mpi-proxy --net mpi1 --socket /run/lnetd/proxies.sock
mpirun --ompi-server file:URI -n 2 --host server1,server2 lnet-mpi-proxy --listen /shared/port --timeout 1h`

const exitStatuses = `0      the application has ended
1      lnetd has ended, MPI has failed, or a process of the job has not followed in time
2      the command line is wrong
128+N  ended by signal N: 143 by SIGTERM`

// help holds the parts of the help.
var help = cli.Help{
	ExitStatuses: func(*cobra.Command) string { return exitStatuses },
	Environment:  func(*cobra.Command) string { return environment },
}

const environment = `OMPI_COMM_WORLD_SIZE, PMI_SIZE, HYDI_CONTROL_FD  set by mpirun; they determine the MPI library`

// tunables describes the tunables of the driver.
func tunables() string {
	var b strings.Builder
	for _, t := range mpilnd.Table(mpilnd.DefaultType).Tunables {
		if t.Parameter == "" {
			continue
		}
		unit := ""
		if t.Unit.Name != "" {
			unit = " " + t.Unit.Name
		}
		fmt.Fprintf(&b, "%-20s  %s (default %d%s)\n", t.Parameter, t.Help, t.Default, unit)
	}
	return b.String()
}
