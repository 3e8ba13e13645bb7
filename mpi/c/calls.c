//go:build mpi && cgo

// The functions of lnet_mpi.h. They keep the reason of a failure for each thread.
#include "lnet_mpi.h"

#include "_cgo_export.h"

static _Thread_local char reason[512];

int lnet_mpi_init(int32_t comm) { return lnetMPIInit(comm, reason, sizeof reason); }

int lnet_mpi_finalize(void) { return lnetMPIFinalize(reason, sizeof reason); }

const char *lnet_mpi_socket(void)
{
	const char *path = lnetMPISocket();
	return path ? path : "";
}

int lnet_mpi_size(void) { return lnetMPISize(reason, sizeof reason); }

int lnet_mpi_rank(void) { return lnetMPIRank(reason, sizeof reason); }

int lnet_mpi_address(int process, struct lnetd_addr *addr) { return lnetMPIAddress(process, addr, reason, sizeof reason); }

int lnet_mpi_route(const char *net) { return lnetMPIRoute((char *)net, reason, sizeof reason); }

const char *lnet_mpi_text(void) { return reason; }
